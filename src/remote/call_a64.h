/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of what call_a64.c writes. */
#ifndef CT_REMOTE_CALL_A64_H
#define CT_REMOTE_CALL_A64_H

enum { CT_REMOTE_GADGET_ROOM = 576, CT_REMOTE_NEAR = 16 };

#endif

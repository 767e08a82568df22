/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of what call_x64.c writes. */
#ifndef CT_REMOTE_CALL_X64_H
#define CT_REMOTE_CALL_X64_H

enum { CT_REMOTE_GADGET_ROOM = 384, CT_REMOTE_NEAR = 16 };

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of what loader_a64.c writes. */
#ifndef CT_REMOTE_LOADER_A64_H
#define CT_REMOTE_LOADER_A64_H

enum { CT_LOADER_PATCH = 12, CT_LOADER_MARK = 8, CT_LOADER_JUMP = 24 };

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of what loader_a64.c writes. */
#ifndef CT_REMOTE_LOADER_A64_H
#define CT_REMOTE_LOADER_A64_H

enum { CT_LOADER_FAR = 28, CT_LOADER_PATCH = 4, CT_LOADER_MARK = 16, CT_LOADER_JUMP = 40 };

#endif

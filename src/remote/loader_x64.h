/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of what loader_x64.c writes. */
#ifndef CT_REMOTE_LOADER_X64_H
#define CT_REMOTE_LOADER_X64_H

enum { CT_LOADER_FAR = 0, CT_LOADER_PATCH = 8, CT_LOADER_MARK = 7, CT_LOADER_JUMP = 24 };

#endif

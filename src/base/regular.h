/* SPDX-License-Identifier: Apache-2.0 */
/* Opens files whose names or contents somebody else chooses. */
#ifndef CT_BASE_REGULAR_H
#define CT_BASE_REGULAR_H

/* Opens a regular file for reading, O_CLOEXEC; -1 with errno. Does not open anything else (EINVAL): opening a device
 * may have an effect, opening a pipe may block. */
int ct_open_regular(const char *path);

#endif

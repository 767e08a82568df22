/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a whole file. */
#ifndef CT_SYMBOLS_FILE_IMAGE_H
#define CT_SYMBOLS_FILE_IMAGE_H

#include <stddef.h>

/* Returns the bytes of a regular file, which do not change, and its size; NULL: not a regular file, empty, or too
 * large. A file that anybody but root and us could change or truncate is copied: what a reader has checked must stay
 * the same, and pages must not disappear. Any thread. */
void *ct_file_image_open(int fd, size_t *size);
void ct_file_image_close(void *bytes, size_t size);

#endif

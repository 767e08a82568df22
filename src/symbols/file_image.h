/* The bytes of a file, for those who read it as a whole. */
#ifndef CT_SYMBOLS_FILE_IMAGE_H
#define CT_SYMBOLS_FILE_IMAGE_H

#include <stddef.h>

/* Bytes of a regular file that do not change, and its size; NULL: it is none, is empty, or is too large. A file that somebody else
 * than root and us could change, or cut, is copied: what a reader has checked must stay so, and pages must not go away. Any thread. */
void *ct_file_image_open(int fd, size_t *size);
void ct_file_image_close(void *bytes, size_t size);

#endif

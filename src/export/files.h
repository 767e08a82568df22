/* SPDX-License-Identifier: Apache-2.0 */
/* Files in the directory that a format of several files writes. */
#ifndef CT_EXPORT_FILES_H
#define CT_EXPORT_FILES_H

#include "export/export_internal.h"

/* Creates the file directory/NAME. On failure keeps the error in the export and returns false. */
bool ct_export_create(struct ct_export *e, struct ct_out *out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Flushes and closes the file, and adds its size to the result. */
void ct_export_close(struct ct_export *e, struct ct_out *out);
bool ct_export_make_directory(struct ct_export *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

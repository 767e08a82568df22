/* SPDX-License-Identifier: Apache-2.0 */
/* Files in the directory that a format of several files writes. */
#include "export/files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char *name_of(struct ct_export *e, const char *format, va_list list) {
    char *name = NULL;
    if (vasprintf(&name, format, list) >= 0)
        return name;
    ct_export_fail(e, CT_ERR_NO_MEMORY);
    return NULL;
}

bool ct_export_create(struct ct_export *e, struct ct_out *out, const char *format, ...) {
    va_list list;
    va_start(list, format);
    char *name = name_of(e, format, list);
    va_end(list);
    *out = (struct ct_out){.fd = -1};
    if (!name)
        return false;
    int fd = ct_place_open_file(e->place, name, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        ct_export_write_failed(e, -fd);
    else if (!ct_out_open(out, fd))
        ct_export_fail(e, CT_ERR_NO_MEMORY);
    free(name);
    return !e->status;
}

void ct_export_close(struct ct_export *e, struct ct_out *out) {
    ct_export_write_failed(e, ct_out_close(out));
    if (out->fd >= 0 && close(out->fd))
        ct_export_write_failed(e, errno);
    e->result->bytes += out->bytes;
    out->fd = -1;
}

bool ct_export_make_directory(struct ct_export *e, const char *format, ...) {
    va_list list;
    va_start(list, format);
    char *name = name_of(e, format, list);
    va_end(list);
    int error = name ? ct_place_make_directory(e->place, name) : 0;
    if (error != EEXIST)
        ct_export_write_failed(e, error);
    free(name);
    return !e->status;
}

/* Files in the directory that a format of several files writes. */
#include "export/files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char *path_of(struct ct_export *e, const char *format, va_list list) {
    char *name = NULL, *path = NULL;
    if (vasprintf(&name, format, list) < 0)
        name = NULL;
    if (!name || asprintf(&path, "%s/%s", e->options->directory, name) < 0) {
        path = NULL;
        ct_export_fail(e, CT_ERR_NO_MEMORY);
    }
    free(name);
    return path;
}

bool ct_export_create(struct ct_export *e, struct ct_out *out, const char *format, ...) {
    va_list list;
    va_start(list, format);
    char *path = path_of(e, format, list);
    va_end(list);
    *out = (struct ct_out){.fd = -1};
    if (!path)
        return false;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        ct_export_write_failed(e, errno);
    else if (!ct_out_open(out, fd))
        ct_export_fail(e, CT_ERR_NO_MEMORY);
    free(path);
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
    char *path = path_of(e, format, list);
    va_end(list);
    if (path && mkdir(path, 0777) && errno != EEXIST)
        ct_export_write_failed(e, errno);
    free(path);
    return !e->status;
}

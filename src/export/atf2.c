/* atf2: the files of the trace, raw ATF v2, written anew byte for byte. */
#include "export/files.h"
#include "trace/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <unistd.h>

enum { PIECE = 1 << 20, EVENT_SIZE = 32 };

struct copy {
    struct ct_export *e;
    uint8_t *piece;
};

static void copy_bytes(struct copy *c, int from, struct ct_out *to) {
    uint64_t offset = 0;
    size_t n;
    do {
        int error = ct_file_read(from, c->piece, PIECE, offset, &n);
        if (error) {
            ct_export_fail(c->e, CT_ERR_BAD_FILE);
            return;
        }
        ct_out_bytes(to, c->piece, n);
        ct_export_write_failed(c->e, to->error);
        offset += n;
        uint64_t left = c->e->total - c->e->done, events = n / EVENT_SIZE;
        ct_export_advance(c->e, events < left ? events : left);
    } while (n == PIECE && !c->e->status);
}

static void copy_file(struct copy *c, const char *from_directory, const char *to_directory, const char *name) {
    struct ct_out out;
    char *path = ct_file_path("%s/%s", from_directory, name);
    int from = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    int error = errno;
    free(path);
    if (!path)
        ct_export_fail(c->e, CT_ERR_NO_MEMORY);
    if (from < 0) {
        if (path && error != ENOENT) /* a killed recorder may have left no symbols */
            ct_export_fail(c->e, CT_ERR_BAD_FILE);
        return;
    }
    if (ct_export_create(c->e, &out, "%s%s", to_directory, name))
        copy_bytes(c, from, &out);
    ct_export_close(c->e, &out);
    close(from);
}

static void copy_thread(struct copy *c, const char *from_process, const char *to_process, uint32_t id) {
    char *from = ct_file_path("%s/thread_%u", from_process, id), *to = ct_file_path("%sthread_%u/", to_process, id);
    DIR *directory = from && to ? opendir(from) : NULL;
    struct dirent *entry;
    if (!from || !to)
        ct_export_fail(c->e, CT_ERR_NO_MEMORY);
    if (directory && ct_export_make_directory(c->e, "%s", to))
        while (!c->e->status && (entry = readdir(directory)))
            if (!fnmatch("index*.atf", entry->d_name, 0) || !fnmatch("detail*.atf", entry->d_name, 0))
                copy_file(c, from, to, entry->d_name);
    if (directory)
        closedir(directory);
    free(from);
    free(to);
}

static void copy_process(struct copy *c, size_t index) {
    const struct ct_trace_process *process = ct_trace_process_at(c->e->trace, index);
    bool alone = !strcmp(process->directory, ct_trace_path(c->e->trace));
    const char *slash = strrchr(process->directory, '/');
    char *to = alone ? ct_file_path("%s", "") : ct_file_path("%s/", slash ? slash + 1 : process->directory);
    if (!to)
        ct_export_fail(c->e, CT_ERR_NO_MEMORY);
    else if (alone || ct_export_make_directory(c->e, "%s", to)) {
        for (size_t i = 0; i < c->e->result->threads && !c->e->status; i++) {
            const struct ct_trace_thread *thread = ct_trace_thread_at(c->e->trace, i);
            if (thread->process == index)
                copy_thread(c, process->directory, to, thread->id);
        }
        if (!c->e->status)
            copy_file(c, process->directory, to, "symbols");
        if (!c->e->status) /* last: who finds one, finds all */
            copy_file(c, process->directory, to, "manifest.json");
    }
    free(to);
}

int ct_export_atf2(struct ct_export *e) {
    struct copy c = {.e = e, .piece = malloc(PIECE)};
    if (!c.piece)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < e->result->processes && !e->status; i++)
        copy_process(&c, i);
    if (!e->status)
        ct_export_advance(e, e->total - e->done);
    free(c.piece);
    return e->status;
}

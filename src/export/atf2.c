/* SPDX-License-Identifier: Apache-2.0 */
/* atf2: the files of the trace as raw ATF v2. Raw files are copied. Packed files become, byte for byte, what recording
 * with --format atf2 would have written. */
#include "export/files.h"
#include "trace/file.h"
#include "trace/reader.h"
#include "trace/writer.h"
#include "abi/code.h"
#include "abi/switches.h"
#include <contrail/session.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <unistd.h>

enum { PIECE = 1 << 20, EVENT_SIZE = 32 };
#define MANIFEST_LIMIT (UINT64_C(1) << 30)

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

/* ---- packed files ---- */

static void unpack_events(struct copy *c, struct ct_index *index, struct ct_thread_writer *writer) {
    for (uint64_t at = index->first; at < index->end && !c->e->status;) {
        size_t room;
        struct atf_index_event *to = ct_thread_writer_reserve(writer, &room);
        size_t n = ct_index_read(index, at, to, room);
        ct_thread_writer_commit(writer, n);
        ct_export_write_failed(c->e, ct_thread_writer_error(writer));
        ct_export_advance(c->e, n);
        at = n ? at + n : ct_index_skip(index, at);
    }
}

static void unpack_index(struct copy *c, const char *to_process, size_t thread) {
    struct ct_index *index = &c->e->trace->threads[thread].index;
    const struct ct_trace_format format = {
        .encoding = CT_SESSION_FORMAT_ATF2, .first_seq = index->first, .arch = index->parts[0]->arch};
    struct ct_place *process = NULL;
    struct ct_thread_writer *writer = NULL;
    int status = ct_place_below(&process, c->e->place, to_process[0] ? to_process : ".") ? CT_ERR_NO_MEMORY : 0;
    if (!status)
        status = ct_thread_writer_open_as(&writer, process, c->e->trace->threads[thread].info.id,
                                          index->parts[0]->thread_id, &format);
    if (status)
        ct_export_fail(c->e, status);
    if (writer) {
        unpack_events(c, index, writer);
        int error = ct_thread_writer_flush(writer);
        ct_export_write_failed(c->e, ct_thread_writer_error(writer));
        c->e->result->bytes += ct_thread_writer_bytes(writer) + sizeof(struct atf_index_footer);
        int late = ct_thread_writer_close(writer);
        if (error || late)
            ct_export_fail(c->e, error ? error : late);
    }
    ct_place_drop(process);
}

/* Copies the manifest, with the format that its files have now. */
static void copy_manifest(struct copy *c, const char *from_process, const char *to_process) {
    static const char packed[] = "\"packed\"", raw[] = "\"atf2\"";
    struct ct_out out;
    char *path = ct_file_path("%s/manifest.json", from_process), *text = NULL;
    size_t size;
    int error = path ? ct_file_load(path, MANIFEST_LIMIT, &text, &size) : ENOMEM;
    free(path);
    if (error) {
        ct_export_fail(c->e, error == ENOMEM ? CT_ERR_NO_MEMORY : CT_ERR_BAD_FILE);
        return;
    }
    char *format = strstr(text, "\"format\""), *value = format ? strstr(format, packed) : NULL;
    size_t head = value && value - format < 16 ? (size_t)(value - text) : size;
    if (ct_export_create(c->e, &out, "%smanifest.json", to_process)) {
        ct_out_bytes(&out, text, head);
        if (head < size) {
            ct_out_bytes(&out, raw, sizeof raw - 1);
            ct_out_bytes(&out, value + sizeof packed - 1, size - head - (sizeof packed - 1));
        }
    }
    ct_export_close(c->e, &out);
    free(text);
}

/* ---- threads and processes ---- */

static void copy_thread(struct copy *c, const char *from_process, const char *to_process, size_t thread) {
    uint32_t id = c->e->trace->threads[thread].info.id;
    const struct ct_index *index = &c->e->trace->threads[thread].index;
    char *from = ct_file_path("%s/thread_%u", from_process, id), *to = ct_file_path("%sthread_%u/", to_process, id);
    DIR *directory = from && to ? opendir(from) : NULL;
    struct dirent *entry;
    if (!from || !to)
        ct_export_fail(c->e, CT_ERR_NO_MEMORY);
    if (directory && ct_export_make_directory(c->e, "%s", to))
        while (!c->e->status && (entry = readdir(directory)))
            if (!fnmatch("index*.atf", entry->d_name, 0) || !fnmatch("detail*.atf", entry->d_name, 0) ||
                !strcmp(entry->d_name, CT_SWITCHES_FILE) || !strcmp(entry->d_name, CT_SWITCHES_OLD) ||
                !strcmp(entry->d_name, CT_WAITS_FILE) || !strcmp(entry->d_name, CT_WAITS_OLD) ||
                !strcmp(entry->d_name, CT_CODE_FILE))
                copy_file(c, from, to, entry->d_name);
    if (directory)
        closedir(directory);
    /* after the detail files, because its header counts them */
    if (!c->e->status && index->part_count && index->parts[0]->packed)
        unpack_index(c, to_process, thread);
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
        for (size_t i = 0; i < ct_trace_thread_count(c->e->trace) && !c->e->status; i++) {
            const struct ct_trace_thread *thread = ct_trace_thread_at(c->e->trace, i);
            if (thread->process == index)
                copy_thread(c, process->directory, to, i);
        }
        if (!c->e->status)
            copy_file(c, process->directory, to, "symbols");
        if (!c->e->status) /* last: a directory with a manifest is whole */
            copy_manifest(c, process->directory, to);
    }
    free(to);
}

int ct_export_atf2(struct ct_export *e) {
    struct copy c = {.e = e, .piece = malloc(PIECE)};
    if (!c.piece)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < e->result->processes && !e->status; i++)
        if (ct_select_process(&e->options->select, e->trace, i))
            copy_process(&c, i);
    if (!e->status)
        ct_export_advance(e, e->total - e->done);
    free(c.piece);
    return e->status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the `symbols` file: text, one line per function, columns between tabs (docs/TRACE-FORMAT.md). Formatted by
 * hand into a large buffer: a program waits for tens of thousands of lines before its first instruction. */
#include "trace/file.h"
#include "trace/symbols_format.h"
#include "trace/writer.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER (256u << 10)
#define PAGE   4096u                      /* what the kernel writes to a file at once, at least */
#define ENOUGH 64u                        /* for the last line */
#define FRESH  "." CT_SYMBOLS_FILE ".new" /* becomes the file when it is complete */

struct ct_symbols_writer {
    int fd;
    struct ct_place *place; /* held */
    int error;              /* errno of the first failure */
    bool more;              /* continues an existing file */
    struct ct_symbols_end *end;
    uint64_t offset, functions;
    size_t used;
    char buffer[BUFFER];
};

static void empty_buffer(struct ct_symbols_writer *writer) {
    size_t done = 0;
    if (!writer->error)
        writer->error = ct_file_write(writer->fd, writer->buffer, writer->used, writer->offset, 0, &done);
    writer->offset += done;
    writer->used = 0;
}

static void put_char(struct ct_symbols_writer *writer, char c) {
    if (writer->used == BUFFER)
        empty_buffer(writer);
    writer->buffer[writer->used++] = c;
}

static void put_hex(struct ct_symbols_writer *writer, uint64_t value) {
    char digits[16];
    unsigned n = 0;
    do
        digits[n++] = "0123456789abcdef"[value & 15];
    while (value >>= 4);
    while (n)
        put_char(writer, digits[--n]);
}

static void put_plain(struct ct_symbols_writer *writer, const char *text) {
    while (*text)
        put_char(writer, *text++);
}

static void put_text(struct ct_symbols_writer *writer, const char *text) {
    for (; *text; text++) {
        uint8_t c = (uint8_t)*text;
        if (c >= 0x20 && c != '\\' && c != 0x7f) {
            put_char(writer, (char)c);
            continue;
        }
        put_char(writer, '\\');
        if (c == '\\' || c == '\t' || c == '\n') {
            put_char(writer, c == '\t' ? 't' : c == '\n' ? 'n' : '\\');
        } else {
            put_char(writer, 'x');
            put_char(writer, "0123456789abcdef"[c >> 4]);
            put_char(writer, "0123456789abcdef"[c & 15]);
        }
    }
}

static void free_writer(struct ct_symbols_writer *writer) {
    ct_place_drop(writer->place);
    free(writer);
}

/* Takes ownership of the descriptor; `fd` may be a negated errno. */
static int make_writer(struct ct_symbols_writer **out, struct ct_place *process, int fd) {
    struct ct_symbols_writer *writer = fd < 0 ? NULL : malloc(sizeof *writer);
    *out = writer;
    if (fd < 0) {
        errno = -fd;
        return ct_file_status(-fd);
    }
    if (!writer) {
        close(fd);
        return CT_ERR_NO_MEMORY;
    }
    writer->place = ct_place_hold(process);
    writer->fd = fd;
    writer->error = 0;
    writer->offset = writer->functions = writer->used = 0;
    writer->more = false;
    writer->end = NULL;
    return 0;
}

int ct_symbols_writer_open(struct ct_symbols_writer **out, struct ct_place *process) {
    int status = make_writer(out, process, ct_file_open_fresh(process, FRESH));
    if (!status)
        put_plain(*out, CT_SYMBOLS_FIRST_LINE "\n");
    return status;
}

void ct_symbols_writer_note_end(struct ct_symbols_writer *writer, struct ct_symbols_end *end) {
    *end = (struct ct_symbols_end){0};
    writer->end = end;
}

int ct_symbols_writer_continue(struct ct_symbols_writer **out, struct ct_place *process, struct ct_symbols_end *end) {
    struct stat info;
    int status = make_writer(out, process, ct_place_open_file(process, CT_SYMBOLS_FILE, O_WRONLY));
    if (status)
        return status;
    struct ct_symbols_writer *writer = *out;
    if (fstat(writer->fd, &info) || info.st_ino != end->inode || (uint64_t)info.st_size != end->offset) {
        close(writer->fd);
        free_writer(writer);
        *out = NULL;
        return CT_ERR_NOT_FOUND;
    }
    writer->offset = end->offset;
    writer->functions = end->functions;
    writer->more = true;
    writer->end = end;
    return 0;
}

/* ---- lines ---- */

/* Writes the last line. The rest of the file's page has room for another last line, or for none: leading zeros of the
 * number fill it. */
static void put_total(struct ct_symbols_writer *writer, uint64_t functions, bool fill) {
    char text[24];
    int length = snprintf(text, sizeof text, "%llx\n", (unsigned long long)functions);
    put_plain(writer, CT_SYMBOLS_END "\t");
    uint64_t over = (writer->offset + writer->used + (uint64_t)length) % PAGE, left = over ? PAGE - over : 0;
    while ((fill || left < ENOUGH) && left-- > 0)
        put_char(writer, '0');
    put_plain(writer, text);
}

/* `line` is where the last line in the buffer begins. If it does not fit into the page of the lines before it, these
 * are written first. */
static void split_pages(struct ct_symbols_writer *writer, size_t line) {
    char text[PAGE];
    size_t size = writer->used - line;
    uint64_t room = PAGE - writer->offset % PAGE;
    if (!writer->more || writer->used + ENOUGH <= room || size > sizeof text)
        return;
    memcpy(text, writer->buffer + line, size);
    writer->used = line;
    put_total(writer, writer->functions, true);
    empty_buffer(writer);
    memcpy(writer->buffer, text, size);
    writer->used = size;
}

void ct_symbols_writer_module(struct ct_symbols_writer *writer, uint32_t module_id, const char *path,
                              const char *build_id, uint64_t base) {
    size_t line = writer->used;
    put_plain(writer, CT_SYMBOLS_MODULE "\t");
    put_hex(writer, module_id);
    put_char(writer, '\t');
    put_hex(writer, base);
    put_char(writer, '\t');
    put_text(writer, build_id ? build_id : "");
    put_char(writer, '\t');
    put_text(writer, path ? path : "");
    put_char(writer, '\n');
    split_pages(writer, line);
}

static void put_function(struct ct_symbols_writer *writer, uint64_t function_id, uint64_t offset, uint64_t size,
                         const char *name, const char *skip, const char *entry_only, const char *rest) {
    size_t line = writer->used;
    put_hex(writer, function_id);
    put_char(writer, '\t');
    put_hex(writer, offset);
    put_char(writer, '\t');
    put_hex(writer, size);
    put_char(writer, '\t');
    put_text(writer, name ? name : "");
    put_char(writer, '\t');
    put_text(writer, skip ? skip : "");
    put_char(writer, '\t');
    put_text(writer, entry_only ? entry_only : "");
    put_plain(writer, rest);
    put_char(writer, '\n');
    split_pages(writer, line);
    writer->functions++;
}

void ct_symbols_writer_function(struct ct_symbols_writer *writer, uint64_t function_id, uint64_t offset, uint64_t size,
                                const char *name, const char *skip, const char *entry_only) {
    put_function(writer, function_id, offset, size, name, skip, entry_only, "\t");
}

void ct_symbols_writer_guess(struct ct_symbols_writer *writer, uint64_t function_id, uint64_t offset, uint64_t size,
                             const char *skip, const char *entry_only) {
    put_function(writer, function_id, offset, size, "", skip, entry_only, "\t\t\t" CT_SYMBOLS_GUESSED);
}

static void note_end(const struct ct_symbols_writer *writer, int error) {
    struct stat info;
    if (writer->end && !error && !fstat(writer->fd, &info))
        *writer->end =
            (struct ct_symbols_end){.inode = info.st_ino, .offset = writer->offset, .functions = writer->functions};
}

int ct_symbols_writer_close(struct ct_symbols_writer *writer) {
    put_total(writer, writer->functions, false);
    empty_buffer(writer);
    int error = writer->error;
    note_end(writer, error);
    if (close(writer->fd) != 0 && !error)
        error = errno;
    if (!error && !writer->more)
        error = ct_place_replace(writer->place, FRESH, CT_SYMBOLS_FILE);
    if (error && !writer->more)
        (void)ct_place_remove(writer->place, FRESH);
    free_writer(writer);
    errno = error;
    return ct_file_status(error);
}

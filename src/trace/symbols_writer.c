/* Writing the `symbols` file: text, one line per function, columns between tabs (docs/TRACE-FORMAT.md). Formatted by
 * hand into a large buffer: tens of thousands of lines stand between a program and its first instruction. */
#include "trace/file.h"
#include "trace/symbols_format.h"
#include "trace/writer.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER (256u << 10)
#define FRESH  "." CT_SYMBOLS_FILE ".new" /* becomes the file when it is complete */

struct ct_symbols_writer {
    int fd;
    struct ct_place *place; /* held */
    int error;              /* errno of the first failure */
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

int ct_symbols_writer_open(struct ct_symbols_writer **out, struct ct_place *process) {
    struct ct_symbols_writer *writer = malloc(sizeof *writer);
    *out = NULL;
    if (!writer)
        return CT_ERR_NO_MEMORY;
    writer->place = ct_place_hold(process);
    writer->fd = ct_file_open_fresh(process, FRESH);
    if (writer->fd < 0) {
        int error = -writer->fd;
        free_writer(writer);
        errno = error;
        return ct_file_status(error);
    }
    writer->error = 0;
    writer->offset = writer->functions = writer->used = 0;
    put_plain(writer, CT_SYMBOLS_FIRST_LINE "\n");
    *out = writer;
    return 0;
}

void ct_symbols_writer_module(struct ct_symbols_writer *writer, uint32_t module_id, const char *path,
                              const char *build_id, uint64_t base) {
    put_plain(writer, CT_SYMBOLS_MODULE "\t");
    put_hex(writer, module_id);
    put_char(writer, '\t');
    put_hex(writer, base);
    put_char(writer, '\t');
    put_text(writer, build_id ? build_id : "");
    put_char(writer, '\t');
    put_text(writer, path ? path : "");
    put_char(writer, '\n');
}

void ct_symbols_writer_function(struct ct_symbols_writer *writer, uint64_t function_id, uint64_t offset, uint64_t size,
                                const char *name, const char *skip, const char *entry_only) {
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
    put_char(writer, '\t');
    put_char(writer, '\n');
    writer->functions++;
}

int ct_symbols_writer_close(struct ct_symbols_writer *writer) {
    put_plain(writer, CT_SYMBOLS_END "\t");
    put_hex(writer, writer->functions);
    put_char(writer, '\n');
    empty_buffer(writer);
    int error = writer->error;
    if (close(writer->fd) != 0 && !error)
        error = errno;
    if (!error)
        error = ct_place_replace(writer->place, FRESH, CT_SYMBOLS_FILE);
    if (error)
        (void)ct_place_remove(writer->place, FRESH);
    free_writer(writer);
    errno = error;
    return ct_file_status(error);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a trace that means harm: hostile_trace DIRECTORY. Names with markup and control characters, one of a megabyte,
 * invalid UTF-8; time that goes back; depths that jump; returns without calls; a very deep recursion; and a manifest
 * whose texts are markup. */
#include "abi/atf.h"
#include "base/json_write.h"
#include "tests/tools/place_of.h"
#include "trace/writer.h"
#include <contrail/session.h>
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LONG = 1 << 20, FUNCTIONS = 6, EVENTS = 280000 };

static void must(int status, const char *what) {
    if (!status)
        return;
    fprintf(stderr, "%s: %s\n", what, ct_status_text(status));
    exit(1);
}

static void write_symbols(const char *directory) {
    struct ct_symbols_writer *symbols;
    char *huge = malloc(LONG + 1);
    if (!huge)
        exit(1);
    memset(huge, 'x', LONG);
    huge[LONG] = 0;
    const char *const names[FUNCTIONS] = {"<script>document.title='harm'</script>",
                                          "<img src=x onerror=alert(1)>",
                                          "\x1b[31mred\x07\r\n\"'`${1}\\",
                                          "\xff\xfe\xc3(",
                                          huge,
                                          "*[a-z]?"};
    must(ct_symbols_writer_open(&symbols, place_of(directory)), "symbols");
    ct_symbols_writer_module(symbols, 1, "/tmp/</script><b>module", "00", 0x1000);
    for (unsigned i = 0; i < FUNCTIONS; i++)
        ct_symbols_writer_function(symbols, UINT64_C(1) << 32 | i, 64 * i, 64, names[i], "", "");
    must(ct_symbols_writer_close(symbols), "symbols");
    free(huge);
}

static uint32_t pick(uint32_t limit) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % limit;
}

/* `wild`: depths and functions of ends are as they come. */
static void write_thread(const char *directory, uint32_t id, bool wild) {
    struct ct_thread_writer *writer;
    const struct ct_trace_format format = {.encoding = CT_SESSION_FORMAT_PACKED};
    uint64_t ns = 1000000000;
    uint32_t depth = 0;
    must(ct_thread_writer_open_as(&writer, place_of(directory), id, 1000 + id, &format), "thread");
    for (uint32_t left = EVENTS; left;) {
        size_t room;
        struct atf_index_event *to = ct_thread_writer_reserve(writer, &room);
        room = room < left ? room : left;
        for (size_t i = 0; i < room; i++) {
            bool call = wild ? pick(2) : depth < 50000 && (depth == 0 || pick(100) < 80);
            ns += pick(100);
            if (wild && !pick(50))
                ns -= ns > 2000000000 ? pick(1000000000) : pick(1000);
            depth = wild ? (pick(9) ? pick(40) : pick(UINT32_MAX)) : call ? depth : depth - 1;
            to[i] = (struct atf_index_event){ns,        UINT64_C(1) << 32 | pick(wild ? 9 : 1) % 9,
                                             1000 + id, call ? ATF_CALL : ATF_RETURN,
                                             depth,     ATF_NO_DETAIL};
            depth += !wild && call;
        }
        ct_thread_writer_commit(writer, room);
        left -= (uint32_t)room;
    }
    must(ct_thread_writer_close(writer), "thread");
}

int main(int argc, char **argv) {
    struct ct_json json = {0};
    if (argc != 2 || mkdir(argv[1], 0755) != 0)
        return 2;
    write_symbols(argv[1]);
    ct_json_begin(&json, NULL, '{');
    ct_json_bool(&json, "complete", true);
    ct_json_string(&json, "command_line", "<script>alert(2)</script>");
    ct_json_string(&json, "host", "<b>host</b>");
    ct_json_end(&json, '}');
    must(ct_trace_write_manifest(place_of(argv[1]), &json), "manifest");
    ct_json_free(&json);
    write_thread(argv[1], 1, false);
    write_thread(argv[1], 2, true);
    return 0;
}

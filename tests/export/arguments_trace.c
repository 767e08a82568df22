/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a trace of real calls with detail records: arguments_trace DIRECTORY SUBJECT.so
 *
 * Calls each function of the subject (tests/unit/programs/parameters_subject.h) once, and writes what the recorder
 * would have captured as a call and a return with their records. Prints a line for each, in the order of the calls:
 * name, arguments and result as readers must show them, separated by tabs. An asterisk matches anything. */
#include "tests/tools/place_of.h"
#include "../unit/programs/parameters_subject.h"
#include "symbols/debug_file.h"
#include "trace/writer.h"
#include "base/json_write.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CASES = 64, TID = 4000, START = 1000000 };

struct function {
    const struct subject_case *test;
    const char *name;
    uint64_t offset;
};

static struct function functions[MAX_CASES];
static size_t function_count;
static void *library;
static uint64_t base;

static void must(bool good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "arguments_trace: %s\n", what);
    exit(99);
}

static void add_cases(const struct subject_case *cases) {
    for (; cases->function; cases++) {
        Dl_info info;
        must(function_count < MAX_CASES && dladdr(cases->function, &info) && info.dli_sname, "a function's name");
        functions[function_count++] = (struct function){cases, info.dli_sname, (uint64_t)cases->function - base};
    }
}

static int by_offset(const void *a, const void *b) {
    const struct function *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void open_subject(const char *path) {
    struct link_map *map = NULL;
    library = dlopen(path, RTLD_NOW);
    must(library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0, "the subject cannot be loaded");
    base = map->l_addr;
    add_cases(dlsym(library, "cases_c"));
    const struct subject_case *(*cxx)(void) = (const struct subject_case *(*)(void))dlsym(library, "cases_cxx");
    add_cases(cxx());
    qsort(functions, function_count, sizeof *functions, by_offset);
}

/* ---- the calls ---- */

static uint32_t add_record(struct ct_detail_writer *details, const struct capture *capture, bool call,
                           uint64_t function, uint64_t sequence) {
    struct __attribute__((packed)) {
        struct atf_detail_call call;
        uint8_t stack[sizeof capture->stack];
        uint8_t vectors[sizeof capture->vectors];
    } record = {.call = {.event = {.total_length = sizeof record,
                                   .event_type = call ? ATF_DETAIL_CALL : ATF_DETAIL_RETURN,
                                   .flags = ATF_DETAIL_VECTORS,
                                   .index_seq = (uint32_t)sequence,
                                   .thread_id = TID,
                                   .timestamp = START + sequence * 10},
                         .function_id = function,
                         .stack_pointer = capture->stack_pointer,
                         .stack_size = sizeof capture->stack}};
    memcpy(record.call.registers, capture->registers, sizeof capture->registers);
    memcpy(record.stack, capture->stack, sizeof record.stack);
    memcpy(record.vectors, capture->vectors, sizeof record.vectors);
    return ct_detail_writer_add(details, &record.call.event);
}

static void put_events(const char *directory) {
    struct ct_thread_writer *writer;
    struct ct_detail_writer *details;
    const struct capture *(*captured)(int) = (const struct capture *(*)(int))dlsym(library, "captured");
    must(ct_thread_writer_open(&writer, place_of(directory), 1, TID) == 0, "a thread's file");
    must(ct_detail_writer_open(&details, place_of(directory), 1, TID) == 0, "a detail file");
    for (uint64_t i = 0; i < 2 * function_count; i++) {
        size_t room;
        bool call = i % 2 == 0;
        const struct function *f = &functions[i / 2];
        uint64_t id = UINT64_C(1) << 32 | i / 2;
        if (call)
            f->test->call();
        *ct_thread_writer_reserve(writer, &room) =
            (struct atf_index_event){.timestamp_ns = START + i * 10,
                                     .function_id = id,
                                     .thread_id = TID,
                                     .event_kind = call ? ATF_CALL : ATF_RETURN,
                                     .detail_seq = add_record(details, captured(!call), call, id, i)};
        ct_thread_writer_commit(writer, 1);
        if (call)
            printf("%s\t%s\t%s\n", f->name, f->test->arguments, f->test->result);
    }
    must(ct_thread_writer_close(writer) == 0 && ct_detail_writer_close(details) == 0, "closing");
}

/* ---- the rest ---- */

static void put_symbols(const char *directory, const char *path, const char *build_id) {
    struct ct_symbols_writer *symbols;
    must(ct_symbols_writer_open(&symbols, place_of(directory)) == 0, "symbols");
    ct_symbols_writer_module(symbols, 1, path, build_id, base);
    for (size_t i = 0; i < function_count; i++)
        ct_symbols_writer_function(symbols, UINT64_C(1) << 32 | i, functions[i].offset, 16, functions[i].name, "", "");
    must(ct_symbols_writer_close(symbols) == 0, "symbols");
}

static void put_manifest(const char *directory, const char *path, const char *build_id) {
    struct ct_json json = {0};
    ct_json_begin(&json, NULL, '{');
    ct_json_string(&json, "format", "atf2");
    ct_json_bool(&json, "complete", true);
    ct_json_number(&json, "pid", TID);
    ct_json_number(&json, "time_start_ns", START);
    ct_json_number(&json, "time_end_ns", START + 20 * function_count);
    ct_json_begin(&json, "threads", '[');
    ct_json_begin(&json, NULL, '{');
    ct_json_number(&json, "id", 1);
    ct_json_number(&json, "tid", TID);
    ct_json_string(&json, "name", "subject");
    ct_json_bool(&json, "has_detail", true);
    ct_json_number(&json, "events", 2 * function_count);
    ct_json_end(&json, '}');
    ct_json_end(&json, ']');
    ct_json_begin(&json, "modules", '[');
    ct_json_begin(&json, NULL, '{');
    ct_json_number(&json, "id", 1);
    ct_json_string(&json, "path", path);
    ct_json_string(&json, "build_id", build_id);
    ct_json_number(&json, "base", base);
    ct_json_number(&json, "functions", function_count);
    ct_json_end(&json, '}');
    ct_json_end(&json, ']');
    ct_json_end(&json, '}');
    must(ct_trace_write_manifest(place_of(directory), &json) == 0, "the manifest");
    ct_json_free(&json);
}

int main(int argc, char **argv) {
    struct ct_debug_file file;
    char build_id[CT_BUILD_ID_TEXT];
    if (argc != 3)
        return 64;
    char *path = realpath(argv[2], NULL);
    must(path && ct_debug_file_map(&file, path), "the subject cannot be read");
    ct_elf_build_id(&file.elf, build_id);
    ct_debug_file_close(&file);
    open_subject(path);
    put_symbols(argv[1], path, build_id);
    put_events(argv[1]);
    put_manifest(argv[1], path, build_id);
    free(path);
    return 0;
}

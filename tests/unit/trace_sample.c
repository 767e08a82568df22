/* SPDX-License-Identifier: Apache-2.0 */
/* Traces for tests. */
#include "tests/tools/place_of.h"
#include "trace_sample.h"
#include "isa/machine.h"
#include "trace/code_file.h"
#include "trace/writer.h"
#include <contrail/session.h>
#include <fcntl.h>
#include "base/json_write.h"
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* By module, in the order of their symbol_index. */
static const struct {
    uint32_t module;
    const char *name, *skip, *entry_only;
} functions[] = {
    {1, "main", "", ""},    {1, "work", "", ""},
    {1, "leaf", "", ""},    {1, "recurse", "", ""},
    {1, "thrower", "", ""}, {1, "setjmp", "", "RETURNS_TWICE"},
    {1, "", "", ""},        {1, "tiny", "TOO_SHORT", ""},
    {2, "other", "", ""},   {2, SAMPLE_LONG_NAME, "", ""},
    {2, "worker", "", ""},
};
enum { FUNCTION_COUNT = sizeof functions / sizeof functions[0] };
#define SAMPLE_LEAF UINT64_C(0x101200) /* where leaf was loaded */

static void must(bool ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "trace_sample: %s\n", what);
    exit(99);
}

static uint64_t id_of(size_t i) {
    size_t first = i;
    while (first > 0 && functions[first - 1].module == functions[i].module)
        first--;
    return (uint64_t)functions[i].module << 32 | (i - first);
}

/* "?" is the nameless one, "unknown" one that the symbols do not have. */
static size_t find(const char *name) {
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (!strcmp(functions[i].name, strcmp(name, "?") ? name : ""))
            return i;
    must(!strcmp(name, "unknown"), name);
    return FUNCTION_COUNT;
}

/* ---- scripts ---- */

struct script {
    struct ct_thread_writer *writer;
    struct ct_detail_writer *details; /* NULL until there is one */
    struct ct_code_writer *code;      /* the same */
    struct ct_code_counts counts;
    const char *directory;
    uint32_t id;
    struct ct_json *gaps;
    uint32_t tid, depth;
    uint64_t events, lost;
    const struct ct_machine *machine;
};

/* Up to `count` numbers between commas. */
static void read_numbers(const char *text, uint64_t *numbers, size_t count) {
    char *end;
    for (size_t i = 0; i < count && *text; i++, text = *end ? end + 1 : end)
        numbers[i] = strtoull(text, &end, 0);
}

static uint32_t add_record(struct script *s, struct atf_detail_event *event) {
    if (!s->details)
        must(ct_detail_writer_open(&s->details, place_of(s->directory), s->id, s->tid) == 0, "a detail file");
    return ct_detail_writer_add(s->details, event);
}

static uint32_t put_signal(struct script *s, const struct atf_detail_event *head, const char *text) {
    struct __attribute__((packed)) {
        struct atf_detail_signal signal;
        uint64_t cpu[CT_MACHINE_REGISTERS];
    } record = {.signal.event = *head};
    uint64_t numbers[3] = {0};
    read_numbers(text, numbers, 3);
    record.signal.event.total_length = (uint32_t)(sizeof record.signal + 8 * s->machine->register_count);
    record.signal.event.event_type = ATF_DETAIL_SIGNAL;
    record.signal.signal = (uint32_t)numbers[0];
    record.signal.code = (uint32_t)numbers[1];
    record.signal.fault_address = numbers[2];
    for (uint64_t i = 0; i < s->machine->register_count; i++)
        record.cpu[i] = 0x100 + i;
    record.cpu[s->machine->pc] = SAMPLE_LEAF + 0x1c;
    return add_record(s, &record.signal.event);
}

static uint32_t put_call(struct script *s, const struct atf_detail_event *head, uint64_t function, bool call,
                         const char *text) {
    struct __attribute__((packed)) {
        struct atf_detail_call call;
        uint8_t stack[128];
    } record = {.call = {.event = *head,
                         .function_id = function,
                         .return_address = SAMPLE_LEAF + 4,
                         .frame_pointer = 0x7ffd00,
                         .stack_pointer = 0x7ffc00,
                         .stack_size = sizeof record.stack}};
    record.call.event.total_length = sizeof record;
    record.call.event.event_type = call ? ATF_DETAIL_CALL : ATF_DETAIL_RETURN;
    uint64_t numbers[8] = {0};
    read_numbers(text, numbers, 8);
    memcpy(record.call.registers, numbers, sizeof numbers);
    memcpy(record.stack, &(uint64_t){SAMPLE_LEAF + 4}, 8);
    strcpy((char *)record.stack + 16, "text on the stack");
    return add_record(s, &record.call.event);
}

static uint32_t put_detail(struct script *s, const struct atf_index_event *event, const char *text) {
    struct atf_detail_event head = {
        .index_seq = (uint32_t)s->events, .thread_id = s->tid, .timestamp = event->timestamp_ns};
    if (!event->function_id)
        return put_signal(s, &head, text);
    return put_call(s, &head, event->function_id, event->event_kind == ATF_CALL, text);
}

static void put_event(struct script *s, uint64_t time, char op, const char *name, int64_t depth, const char *detail) {
    bool is_signal = !*name;
    size_t function = is_signal ? FUNCTION_COUNT : find(name), room;
    bool entry_only = function < FUNCTION_COUNT && *functions[function].entry_only;
    struct atf_index_event *e = ct_thread_writer_reserve(s->writer, &room);
    if (op != '+' && s->depth && !is_signal)
        s->depth--;
    if (depth >= 0)
        s->depth = (uint32_t)depth;
    *e = (struct atf_index_event){
        .timestamp_ns = SAMPLE_START + time,
        .function_id = is_signal                   ? 0
                       : function < FUNCTION_COUNT ? id_of(function)
                                                   : UINT64_C(9) << 32 | 7,
        .thread_id = s->tid,
        .event_kind = op == '+'   ? ATF_CALL
                      : op == '-' ? ATF_RETURN
                                  : ATF_EXCEPTION,
        .call_depth = s->depth,
        .detail_seq = ATF_NO_DETAIL,
    };
    if (detail)
        e->detail_seq = put_detail(s, e, detail);
    ct_thread_writer_commit(s->writer, 1);
    s->events++;
    s->depth += op == '+' && !entry_only;
}

static void put_gap(struct script *s, char *text) {
    char *reason = strchr(text, '/');
    must(reason, text);
    *reason++ = 0;
    uint64_t lost = strtoull(text, NULL, 10);
    ct_json_begin(s->gaps, NULL, '{');
    ct_json_number(s->gaps, "at", s->events);
    ct_json_number(s->gaps, "lost", lost);
    ct_json_string(s->gaps, "reason", reason);
    ct_json_end(s->gaps, '}');
    s->lost += lost;
}

/* Four instructions of four bytes. */
static void put_block(struct script *s, uint64_t time, bool executed, char *text) {
    if (!s->code)
        must(ct_code_writer_open(&s->code, place_of(s->directory), s->id, s->tid, 0) == 0, "a file of code");
    ct_code_writer_at(s->code, s->events, SAMPLE_START + time);
    if (*text == '#') {
        ct_code_writer_lost(s->code, strtoull(text + 1, NULL, 10));
        return;
    }
    char *offset = strchr(text, ':'), *part = strchr(text, '*');
    must(offset, text);
    *offset++ = 0;
    size_t function = find(text);
    uint32_t at = (uint32_t)strtoul(offset, NULL, 10), number = (uint32_t)function * 64 + at / 4;
    struct ct_code_block block = {.module = functions[function].module,
                                  .size = 16,
                                  .insns = 4,
                                  .offset = 0x1000 + 0x100 * function + at,
                                  .lengths = (const uint8_t[]){4, 4, 4, 4}};
    if (executed && !ct_code_writer_knows(s->code, number))
        ct_code_writer_define(s->code, number, &block);
    if (executed)
        ct_code_writer_block(s->code, number, part ? (uint32_t)strtoul(part + 1, NULL, 10) : 0);
    else
        ct_code_writer_compiled(s->code, &block);
    s->counts.blocks += executed;
    s->counts.compiled += !executed;
}

static void run_script(struct script *s, const char *text) {
    char *copy = strdup(text), *state = NULL;
    for (char *word = strtok_r(copy, " ", &state); word; word = strtok_r(NULL, " ", &state)) {
        char *op;
        uint64_t time = strtoull(word, &op, 10);
        must(op != word && strchr("+-!~=^", *op), word);
        char kind = *op++, *detail = strchr(op, '%'), *at = strchr(op, '@');
        if (at)
            *at++ = 0;
        if (detail)
            *detail++ = 0;
        for (char *c = op; *c; c++)
            *c = *c == 1 ? ' ' : *c; /* stands for a space, which would end the word */
        if (kind == '~')
            put_gap(s, op);
        else if (kind == '=' || kind == '^')
            put_block(s, time, kind == '=', op);
        else
            put_event(s, time, kind, op, at ? strtoll(at, NULL, 10) : -1, detail);
    }
    free(copy);
}

/* ---- parts ---- */

static void cut_footer(const char *directory, uint32_t id, uint64_t events) {
    char *path;
    must(asprintf(&path, "%s/thread_%u/index.atf", directory, id) > 0, "memory");
    must(truncate(path, (off_t)(64 + 32 * events)) == 0, path);
    free(path);
}

/* The writer of details knows only this machine. */
static void set_detail_arch(const char *directory, uint32_t id, uint8_t arch) {
    char *path;
    must(asprintf(&path, "%s/thread_%u/detail.atf", directory, id) > 0, "memory");
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    must(fd >= 0 && pwrite(fd, &arch, 1, offsetof(struct atf_detail_header, arch)) == 1, path);
    close(fd);
    free(path);
}

static void put_thread(const char *directory, const struct sample_thread *t, const struct ct_machine *machine,
                       struct ct_json *json, uint64_t *events, uint64_t *lost) {
    const struct ct_trace_format format = {.encoding = CT_SESSION_FORMAT_ATF2, .arch = machine->arch};
    struct script s = {.tid = t->tid, .id = t->id, .directory = directory, .gaps = json, .machine = machine};
    ct_json_begin(json, NULL, '{');
    ct_json_number(json, "id", t->id);
    ct_json_number(json, "tid", t->tid);
    ct_json_string(json, "name", t->name);
    ct_json_bool(json, "has_detail", strchr(t->script, '%') != NULL);
    if (t->end_ns)
        ct_json_number(json, "end_ns", SAMPLE_START + t->end_ns);
    ct_json_begin(json, "gaps", '[');
    must(ct_thread_writer_open_as(&s.writer, place_of(directory), t->id, t->tid, &format) == 0, "a thread's file");
    run_script(&s, t->script);
    must(ct_thread_writer_close(s.writer) == 0, "closing a thread's file");
    must(!s.details || ct_detail_writer_close(s.details) == 0, "closing a detail file");
    must(!s.code || ct_code_writer_close(s.code, &(uint64_t){0}) == 0, "closing a file of code");
    ct_json_end(json, ']');
    if (s.code) {
        ct_json_begin(json, "code", '{');
        ct_json_number(json, "blocks", s.counts.blocks);
        ct_json_number(json, "compiled", s.counts.compiled);
        ct_json_end(json, '}');
    }
    ct_json_number(json, "events", s.events);
    ct_json_number(json, "lost", s.lost);
    ct_json_end(json, '}');
    if (s.details)
        set_detail_arch(directory, t->id, machine->arch);
    if (t->cut)
        cut_footer(directory, t->id, s.events);
    *events += s.events;
    *lost += s.lost;
}

static void put_symbols(const char *directory) {
    struct ct_symbols_writer *w;
    must(ct_symbols_writer_open(&w, place_of(directory)) == 0, "symbols");
    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        uint32_t module = functions[i].module;
        if (i == 0 || functions[i - 1].module != module)
            ct_symbols_writer_module(w, module, module == 1 ? "/usr/bin/sample" : "/usr/lib/libother.so.1",
                                     module == 1 ? "00112233" : "44556677", module * UINT64_C(0x100000));
        ct_symbols_writer_function(w, id_of(i), 0x1000 + 0x100 * i, 0x80, functions[i].name, functions[i].skip,
                                   functions[i].entry_only);
    }
    must(ct_symbols_writer_close(w) == 0, "closing symbols");
}

static void put_modules(struct ct_json *json) {
    static const char *const paths[] = {"/usr/bin/sample", "/usr/lib/libother.so.1"};
    ct_json_begin(json, "modules", '[');
    for (uint32_t m = 1; m <= 2; m++) {
        ct_json_begin(json, NULL, '{');
        ct_json_number(json, "id", m);
        ct_json_string(json, "path", paths[m - 1]);
        ct_json_string(json, "build_id", m == 1 ? "00112233" : "44556677");
        ct_json_number(json, "base", m * UINT64_C(0x100000));
        ct_json_number(json, "functions", m == 1 ? 8 : 7);
        ct_json_number(json, "hooked", m == 1 ? 7 : 3);
        ct_json_number(json, "entry_only", m == 1 ? 1 : 0);
        ct_json_begin(json, "skipped", '{');
        ct_json_number(json, "PLT", m == 2 ? 4 : 0);
        if (m == 1)
            ct_json_number(json, "TOO_SHORT", 1);
        ct_json_end(json, '}');
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}

static void put_numbers(struct ct_json *json, uint64_t events, uint64_t lost, bool unfinished, int killed_by) {
    ct_json_begin(json, "events", '{');
    ct_json_number(json, "written", events);
    ct_json_begin(json, "lost", '{');
    ct_json_number(json, "POOL_EXHAUSTED", 0);
    ct_json_number(json, "DRAIN_LAG", lost);
    ct_json_end(json, '}');
    ct_json_number(json, "abandoned", 0);
    ct_json_number(json, "deep_calls", 0);
    ct_json_number(json, "left_frames", 1);
    ct_json_number(json, "guarded_calls", 0);
    ct_json_end(json, '}');
    ct_json_begin(json, "latency", '{');
    ct_json_number(json, "p50_ns", 3100000);
    ct_json_number(json, "p99_ns", 9870000);
    ct_json_number(json, "max_ns", 12300000);
    ct_json_number(json, "samples", 42);
    ct_json_end(json, '}');
    ct_json_number(json, "plan_ns", 45600000);
    ct_json_number(json, "pause_ns", 1230000);
    ct_json_number(json, "lane_bytes", 32 << 20);
    ct_json_begin(json, "end", '{');
    ct_json_string(json, "reason", unfinished ? "" : killed_by ? "signal" : "exit");
    ct_json_signed(json, "exit_code", 0);
    ct_json_signed(json, "signal", killed_by);
    ct_json_end(json, '}');
}

static void put_head(struct ct_json *json, const struct sample *sample, const struct ct_machine *machine, int pid) {
    ct_json_string(json, "format", "atf2");
    ct_json_number(json, "version", 1);
    ct_json_string(json, "tool", "contrail 0.1.0");
    ct_json_bool(json, "complete", !sample->unfinished);
    ct_json_string(json, "command_line", "/usr/bin/sample --fast 'two words'");
    ct_json_signed(json, "pid", pid);
    ct_json_string(json, "host", "testhost");
    ct_json_string(json, "os", "Linux");
    ct_json_string(json, "kernel", "6.1.0");
    ct_json_string(json, "arch", machine->name);
    ct_json_number(json, "time_start_ns", SAMPLE_START);
    if (sample->end_ns)
        ct_json_number(json, "time_end_ns", SAMPLE_START + sample->end_ns);
}

char *sample_write(const char *directory, const struct sample *sample) {
    const struct ct_machine *machine = ct_machine_by_arch(sample->arch ? sample->arch : ATF_ARCH_X86_64);
    int pid = sample->pid ? sample->pid : 1000;
    char *session, *path;
    struct ct_json json = {0};
    uint64_t events = 0, lost = 0;
    must(asprintf(&session, "%s/session_20250102_030405", directory) > 0, "memory");
    must(asprintf(&path, "%s/pid_%d", session, pid) > 0, "memory");
    mkdir(session, 0700);
    must(mkdir(path, 0700) == 0, path);
    put_symbols(path);
    ct_json_begin(&json, NULL, '{');
    put_head(&json, sample, machine, pid);
    ct_json_begin(&json, "threads", '[');
    for (size_t i = 0; i < sample->thread_count; i++)
        put_thread(path, &sample->threads[i], machine, &json, &events, &lost);
    ct_json_end(&json, ']');
    put_modules(&json);
    put_numbers(&json, events, lost, sample->unfinished, sample->killed_by);
    ct_json_end(&json, '}');
    must(ct_trace_write_manifest(place_of(path), &json) == 0, "manifest");
    ct_json_free(&json);
    free(session);
    return path;
}

char *sample_directory(void) {
    char *path = strdup("/tmp/contrail-sample-XXXXXX");
    must(path && mkdtemp(path), "a directory");
    return path;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place) {
    (void)status, (void)type, (void)place;
    return remove(path);
}

void sample_remove(char *directory) {
    must(nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, directory);
    free(directory);
}

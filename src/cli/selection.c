/* SPDX-License-Identifier: Apache-2.0 */
/* Words that select calls: see selection.h. */
#include "base/closest.h"
#include "cli/selection.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/reading.h"
#include "report/where.h"

/* ---- times ---- */

uint64_t ct_selection_start(const struct ct_trace *trace) {
    uint64_t start = UINT64_MAX;
    for (size_t i = 0; i < ct_trace_process_count(trace); i++) {
        uint64_t begin = ct_trace_process_at(trace, i)->time_start_ns;
        start = begin < start ? begin : start;
    }
    return start == UINT64_MAX ? 0 : start;
}

uint64_t ct_selection_end(const struct ct_trace *trace) {
    uint64_t end = 0;
    for (size_t i = 0; i < ct_trace_process_count(trace); i++) {
        uint64_t last = ct_trace_process_at(trace, i)->time_end_ns;
        end = last > end ? last : end;
    }
    return end;
}

bool ct_selection_time(const char *text, uint64_t start_ns, uint64_t end_ns, uint64_t *time_ns) {
    uint64_t duration;
    bool back = *text == '-';
    if (!ct_option_parse_duration(text + back, &duration))
        return false;
    if (back)
        *time_ns = end_ns > start_ns && duration < end_ns - start_ns ? end_ns - duration : start_ns;
    else if (__builtin_add_overflow(start_ns, duration, time_ns))
        *time_ns = UINT64_MAX;
    return true;
}

/* A time of day, perhaps with a date: which moment that is depends on the trace. */
static bool is_wall(const char *text) {
    struct ct_wall_pair any = {1, UINT64_C(1) << 60, 0};
    uint64_t ignored;
    return text && ct_clock_parse_wall(&(struct ct_wall){&any, 1}, text, &ignored) == 0;
}

static bool is_time(const char *name, const char *text) {
    uint64_t ignored;
    if (!text || ct_selection_time(text, 0, 0, &ignored) || is_wall(text))
        return true;
    ct_message_error("--%s takes a time since the beginning like 1.5s or 20ms, before the end like -2s, or of the wall "
                     "clock like 13:04:05.5, not \"%s\"",
                     name, text);
    return false;
}

/* CLOCK_BOOTTIME of a time of the wall clock. Not 0, which is no time: before the machine's start is 1. */
static uint64_t boot_time(const struct ct_wall *wall, const char *text) {
    uint64_t time_ns = 0;
    (void)ct_clock_parse_wall(wall, text, &time_ns);
    return time_ns ? time_ns : 1;
}

/* Sets what is a time of the wall clock. -1, or the exit code after a message. */
static int apply_wall(const struct ct_selection *s, const struct ct_trace *trace, struct ct_select *select) {
    struct ct_wall wall;
    if (!is_wall(s->from) && !is_wall(s->to))
        return -1;
    int code = ct_reading_wall(&wall, trace);
    if (code >= 0)
        return code;
    if (is_wall(s->from))
        select->from_ns = boot_time(&wall, s->from);
    if (is_wall(s->to))
        select->to_ns = boot_time(&wall, s->to);
    ct_wall_free(&wall);
    return code;
}

static bool is_not_known(const char *text, uint64_t time_ns) {
    if (!is_wall(text) || time_ns)
        return false;
    ct_message_error("\"%s\" is a time of the wall clock, which a trace that is being recorded does not take; give one "
                     "since the beginning, like 1.5s",
                     text);
    return true;
}

int ct_selection_range(const struct ct_selection *s, uint64_t start_ns, uint64_t end_ns, struct ct_select *select) {
    if (is_not_known(s->from, select->from_ns) || is_not_known(s->to, select->to_ns))
        return CT_EXIT_USAGE;
    if (s->from)
        ct_selection_time(s->from, start_ns, end_ns, &select->from_ns);
    if (select->from_ns == start_ns) /* everything is after it */
        select->from_ns = 0;
    if (s->to)
        ct_selection_time(s->to, start_ns, end_ns, &select->to_ns);
    if (!s->to || (select->to_ns > select->from_ns && select->to_ns > start_ns))
        return -1;
    ct_message_error("--to must be later than --from, and than the beginning of the trace");
    return CT_EXIT_USAGE;
}

/* ---- conditions ---- */

/* Shows the place of the mistake below the condition. */
static void show_place(const char *text, size_t at) {
    fputs("  ", stderr);
    ct_message_print(stderr, text);
    fputs("\n  ", stderr);
    for (size_t i = 0; i < at; i++)
        if ((text[i] & 0xc0) != 0x80) /* the first byte of a character */
            fputc(' ', stderr);
    fputs("^\n", stderr);
}

static int compile_condition(struct ct_selection *s) {
    struct ct_where_error error;
    int status = s->where ? ct_where_compile(&s->compiled, s->where, &error) : 0;
    if (!status)
        return -1;
    if (status != CT_ERR_INVALID_ARGUMENT)
        return ct_message_fail(status, NULL);
    ct_message_error("--where: %s (at character %zu)", error.text, error.at + 1);
    show_place(s->where, error.at);
    return CT_EXIT_USAGE;
}

int ct_selection_check(struct ct_selection *s) {
    if (!is_time("from", s->from) || !is_time("to", s->to))
        return CT_EXIT_USAGE;
    return compile_condition(s);
}

/* ---- a trace ---- */

static int check_processes(const struct ct_trace *trace, const struct ct_select *select) {
    for (size_t i = 0; i < ct_trace_process_count(trace); i++)
        if (ct_select_process(select, trace, i))
            return -1;
    ct_message_error("the trace has no process \"%s\"; `contrail info` lists its processes", select->processes[0]);
    return CT_EXIT_UNAVAILABLE;
}

static int check_threads(const struct ct_trace *trace, const struct ct_select *select) {
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        if (ct_select_thread(select, trace, i))
            return -1;
    ct_message_error("the trace has no thread \"%s\"; `contrail info --all` lists its threads", select->threads[0]);
    return CT_EXIT_UNAVAILABLE;
}

static bool has_detail(const struct ct_trace *trace) {
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        if (ct_trace_thread_at(trace, i)->has_detail)
            return true;
    return false;
}

int ct_selection_check_names(struct ct_selection *s, struct ct_trace *trace, const char *const *directories,
                             const struct ct_select *select) {
    const char *stranger;
    size_t fields = 0;
    int status = ct_where_find_stranger(s->compiled, trace, select, directories, &stranger);
    if (status || !stranger)
        return status ? ct_message_fail(status, NULL) : -1;
    s->explained = true;
    while (ct_where_field_name(NULL, fields))
        fields++;
    const char *close = ct_closest_name(stranger, ct_where_field_name, NULL, fields);
    if (close)
        ct_message_error(
            "--where: no field and no argument of any selected function is called \"%s\"; did you mean %s?", stranger,
            close);
    else
        ct_message_error("--where: no field and no argument of any selected function is called \"%s\"; the fields are "
                         "function, module, duration, self, result, errno, thread and depth, and without debug "
                         "information arguments have numbers only: arg.1",
                         stranger);
    return CT_EXIT_USAGE;
}

int ct_selection_apply(struct ct_selection *s, struct ct_trace *trace, const char *const *directories,
                       struct ct_select *select) {
    *select = (struct ct_select){.functions = s->functions.items,
                                 .modules = s->modules.items,
                                 .threads = s->threads.items,
                                 .processes = s->processes.items,
                                 .where = s->compiled};
    int code = apply_wall(s, trace, select);
    if (code < 0)
        code = ct_selection_range(s, ct_selection_start(trace), ct_selection_end(trace), select);
    if (code < 0 && select->processes)
        code = check_processes(trace, select);
    if (code < 0 && select->threads)
        code = check_threads(trace, select);
    if (code < 0)
        code = ct_selection_check_names(s, trace, directories, select);
    if (code < 0 && ct_where_needs_values(s->compiled) && !has_detail(trace)) {
        s->explained = true;
        ct_message_error("no arguments and results were recorded in %s, so --where knows none; record with --detail "
                         "always, or with a --trigger",
                         ct_trace_path(trace));
    }
    return code;
}

void ct_selection_finish(struct ct_selection *s) {
    const char *unseen = s->compiled && !s->explained ? ct_where_unseen(s->compiled) : NULL;
    if (unseen)
        ct_message_error("--where: no call was recorded with an argument \"%s\"; the fields of all calls are function, "
                         "module, duration, self, result, errno, thread and depth",
                         unseen);
    ct_where_free(s->compiled);
    s->compiled = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Where a replay begins: see replay_start.h.
 *
 * Context is counted in lines, which nobody knows before they are made. So the lines from some time before the moment
 * on are counted first. When they are too few, that time is moved back. */
#include "cli/replay_start.h"
#include "cli/command.h"
#include "cli/reading.h"
#include "cli/replay_view.h"
#include "cli/selection.h"
#include "report/calls.h"
#include "report/marks.h"
#include "report/moments.h"
#include <string.h>

enum { EVENTS_PER_LINE = 64, WIDEN = 16 };

int ct_replay_start_check(const struct ct_replay_start_options *o) {
    if ((o->around != NULL) + (o->tail != 0) + o->first + o->last < 2)
        return -1;
    ct_message_error("--around, --tail, --first and --last exclude each other; give one of them");
    return CT_EXIT_USAGE;
}

/* ---- moments ---- */

static int find_crash(struct ct_moment *moment, struct ct_trace *trace, const struct ct_facts *facts,
                      const struct ct_select *select) {
    int status = ct_moment_crash(moment, trace, facts, select);
    if (select->threads) /* the user has said which */
        moment->thread = SIZE_MAX;
    if (!status)
        return -1;
    if (status != CT_ERR_NOT_FOUND)
        return ct_reading_fail(trace, status);
    ct_message_error("no process died of a signal in %s; --tail N shows how it ended", ct_trace_path(trace));
    return CT_EXIT_UNAVAILABLE;
}

/* The first mark with this label. */
static int find_label(struct ct_moment *moment, const struct ct_trace *trace, const char *label) {
    struct ct_marks marks;
    int status = ct_marks_read(&marks, trace);
    if (status)
        return ct_reading_fail(trace, status);
    *moment = (struct ct_moment){0, SIZE_MAX};
    for (size_t i = 0; i < marks.count && !moment->time_ns; i++)
        if (!strcmp(marks.items[i].label, label))
            moment->time_ns = marks.items[i].time_ns;
    ct_marks_free(&marks);
    if (moment->time_ns)
        return -1;
    ct_message_error("the trace has no mark \"%s\"; `contrail info` shows its windows of detail", label);
    return CT_EXIT_UNAVAILABLE;
}

/* `text` is what follows "mark": nothing, "=N" or "=LABEL". */
static int find_mark(struct ct_moment *moment, struct ct_trace *trace, const struct ct_facts *facts,
                     const struct ct_select *select, const char *text) {
    uint64_t number = 1;
    size_t count = 0;
    if (*text && !ct_option_parse_number(text + 1, &number))
        return find_label(moment, trace, text + 1);
    if (!number) {
        ct_message_error("--around mark=N takes the number of a mark, from 1 on");
        return CT_EXIT_USAGE;
    }
    int status = ct_moment_mark(moment, trace, facts, select, number, &count);
    moment->thread = SIZE_MAX;
    if (!status)
        return -1;
    if (status != CT_ERR_NOT_FOUND)
        return ct_reading_fail(trace, status);
    if (count)
        ct_message_error("the trace has %zu mark%s that are listed, and not mark %llu; `contrail info` shows its "
                         "windows of detail",
                         count, count == 1 ? "" : "s", (unsigned long long)number);
    else
        ct_message_error("no marks are listed in %s; record with a --trigger, or with --detail and `contrail ctl mark`",
                         ct_trace_path(trace));
    return CT_EXIT_UNAVAILABLE;
}

/* Finds one call that fits. -1: *call is it. */
static int find_call(struct ct_found_call *call, struct ct_trace *trace, const struct ct_select *select,
                     enum ct_calls_order order, const char *const *directories) {
    struct ct_calls *calls = NULL;
    int status = ct_calls_find(&calls, trace, select, order, 1, directories);
    if (status)
        return ct_reading_fail(trace, status);
    bool found = calls->count;
    if (found)
        *call = calls->at[0];
    ct_calls_free(calls);
    call->known = NULL;
    if (found)
        return -1;
    ct_message_error("no call fits all these words; leave some out");
    return CT_EXIT_UNAVAILABLE;
}

/* THREAD:POSITION, or a glob on functions. */
static int find_named_call(struct ct_moment *moment, struct ct_trace *trace, const struct ct_replay_options *replay,
                           const char *text) {
    uint64_t sequence;
    if (ct_calls_parse(trace, text, &moment->thread, &sequence)) {
        moment->time_ns = ct_calls_time(trace, moment->thread, sequence);
        if (moment->time_ns)
            return -1;
        ct_message_error("the trace has no event \"%s\"; `contrail report --slowest 10` names calls", text);
        return CT_EXIT_UNAVAILABLE;
    }
    const char *const globs[] = {text, NULL};
    struct ct_select select = replay->select;
    struct ct_found_call call;
    select.functions = globs;
    int code = find_call(&call, trace, &select, CT_CALLS_FIRST, replay->directories);
    if (code >= 0)
        return code;
    *moment = (struct ct_moment){call.began_ns, call.thread};
    return -1;
}

static int find_moment(struct ct_moment *moment, struct ct_trace *trace, const struct ct_replay_options *replay,
                       const char *text) {
    struct ct_facts facts;
    int status = ct_facts_load(&facts, trace), code;
    if (status)
        return ct_reading_fail(trace, status);
    *moment = (struct ct_moment){0, SIZE_MAX};
    if (!strcmp(text, "crash")) {
        code = find_crash(moment, trace, &facts, &replay->select);
    } else if (!strcmp(text, "mark") || !strncmp(text, "mark=", 5)) {
        code = find_mark(moment, trace, &facts, &replay->select, text + 4);
    } else if (!strncmp(text, "call=", 5)) {
        code = find_named_call(moment, trace, replay, text + 5);
    } else if (ct_selection_time(text, ct_selection_start(trace), ct_selection_end(trace), &moment->time_ns)) {
        code = -1;
    } else {
        ct_message_error(
            "--around takes crash, mark, mark=N, mark=LABEL, a time like 1.5s or -2s, or a call like call=1:25 or "
            "call=main, not \"%s\"",
            text);
        code = CT_EXIT_USAGE;
    }
    ct_facts_free(&facts);
    return code;
}

/* ---- lines before a moment ---- */

struct count {
    uint64_t time_ns, before;
};

static int count_line(void *arg, const struct ct_replay_line *line) {
    struct count *count = arg;
    if (line->time_ns > count->time_ns)
        return CT_REPLAY_VIEW_STOP;
    count->before++;
    return 0;
}

/* Begins `lines` lines before the moment. */
static int begin_before(struct ct_replay_start *start, struct ct_trace *trace, const struct ct_moment *moment,
                        uint64_t lines, struct ct_replay_options *replay) {
    uint64_t given_ns = replay->select.from_ns, events = lines;
    struct count count = {.time_ns = moment->time_ns};
    int status = 0;
    for (uint64_t factor = EVENTS_PER_LINE; status >= 0; factor *= WIDEN) {
        bool all = __builtin_mul_overflow(lines, factor, &events);
        uint64_t from_ns = all ? 0 : ct_moment_before(trace, &replay->select, moment->thread, moment->time_ns, events);
        replay->select.from_ns = from_ns > given_ns ? from_ns : given_ns;
        count.before = 0;
        status = ct_replay(trace, replay, count_line, &count);
        if (count.before >= lines || replay->select.from_ns == given_ns)
            break;
    }
    start->skip = count.before > lines ? count.before - lines : 0;
    return status < 0 ? ct_reading_fail(trace, status) : -1;
}

static int begin_around(struct ct_replay_start *start, struct ct_trace *trace, const char *text, uint64_t context,
                        struct ct_replay_options *replay) {
    struct ct_moment moment;
    int code = find_moment(&moment, trace, replay, text);
    if (code >= 0)
        return code;
    if (moment.thread != SIZE_MAX)
        replay->only_thread = moment.thread + 1;
    if (moment.time_ns)
        moment.time_ns--; /* what happens then comes after it */
    code = begin_before(start, trace, &moment, context, replay);
    start->show = 2 * context + 1;
    return code;
}

/* ---- one call ---- */

static int begin_with_call(struct ct_replay_start *start, struct ct_trace *trace, bool last,
                           struct ct_replay_options *replay) {
    struct ct_found_call call;
    int code = find_call(&call, trace, &replay->select, last ? CT_CALLS_LAST : CT_CALLS_FIRST, replay->directories);
    if (code >= 0)
        return code;
    start->one = (struct ct_replay_one){call.thread, call.sequence};
    replay->one = &start->one;
    replay->select.where = NULL; /* what is below it need not fit */
    replay->select.functions = NULL;
    if (replay->select.from_ns < call.began_ns)
        replay->select.from_ns = call.began_ns;
    if (call.timed && !call.open)
        replay->select.to_ns = call.began_ns + call.duration_ns + 1;
    return -1;
}

int ct_replay_start_find(struct ct_replay_start *start, struct ct_trace *trace, const struct ct_replay_start_options *o,
                         struct ct_replay_options *replay) {
    start->skip = 0;
    start->show = UINT64_MAX;
    if (o->first || o->last)
        return begin_with_call(start, trace, o->last, replay);
    if (o->around)
        return begin_around(start, trace, o->around, o->context, replay);
    if (o->tail)
        return begin_before(start, trace, &(struct ct_moment){UINT64_MAX, SIZE_MAX}, o->tail, replay);
    return -1;
}

int ct_replay_start_line(void *arg, const struct ct_replay_line *line) {
    struct ct_replay_start *start = arg;
    if (start->skip) {
        start->skip--;
        return 0;
    }
    if (!start->show)
        return CT_REPLAY_VIEW_STOP;
    if (start->show != UINT64_MAX)
        start->show--;
    return start->line(start->arg, line);
}

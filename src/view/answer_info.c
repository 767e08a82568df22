/* SPDX-License-Identifier: Apache-2.0 */
/* /api/info: what a trace holds besides its calls. Lists are bounded: `cut` says that one was longer. */
#include "trace/reader.h"
#include "view/answer.h"
#include <stdio.h>
#include <string.h>

enum { MOST = 2000 }; /* items of a list */

static void put_processes(struct ct_view_answer *a) {
    struct ct_source *s = a->reader->source;
    const struct ct_processes *processes = ct_source_processes(s);
    ct_json_begin(&a->json, "processes", '[');
    for (size_t i = 0; processes && i < processes->count && i < MOST; i++) {
        const struct ct_process_row *row = &processes->rows[i];
        const struct ct_trace_process *info = ct_trace_process_at(s->trace, row->process);
        ct_json_begin(&a->json, NULL, '{');
        ct_json_number(&a->json, "process", row->process + 1);
        ct_json_signed(&a->json, "pid", info->pid);
        ct_json_string(&a->json, "name", ct_trace_program(s->trace, row->process));
        ct_json_string(&a->json, "command", row->command_line);
        ct_view_put_time(a, "start", row->start_ns);
        ct_view_put_time(a, "end", row->end_ns);
        ct_json_string(&a->json, "exit", row->ended);
        ct_json_bool(&a->json, "complete", info->complete);
        ct_json_end(&a->json, '}');
    }
    ct_json_end(&a->json, ']');
}

static uint32_t deepest(const struct ct_summary *summary) {
    uint32_t depth = 0;
    for (size_t i = 0; i < ct_summary_span_count(summary); i++)
        depth = ct_summary_span(summary, i)->high > depth ? ct_summary_span(summary, i)->high : depth;
    return depth + 1;
}

/* What is in the thread is known, or read soon. */
static bool is_counted(const struct ct_source *s, size_t thread) {
    return s->summaries[thread] || ct_trace_thread_at(s->trace, thread)->event_count < CT_SUMMARY_LEAST;
}

/* The depth of a small thread, or of the blocks of a large one. */
static uint32_t depth_of(struct ct_index *index) {
    enum { AT_ONCE = 256 };
    struct atf_index_event events[AT_ONCE];
    uint32_t depth = 0;
    size_t count;
    uint64_t step = index->count > CT_SUMMARY_LEAST ? index->count / 64 : 0;
    for (uint64_t at = index->first; at<index->end; at += step> count ? step : count) {
        count = ct_index_read(index, at, events, AT_ONCE);
        for (size_t i = 0; i < count; i++) {
            uint32_t d = events[i].call_depth;
            d = d & ATF_DEPTH_OTHER ? ATF_DEPTH_PLACE(d) : d;
            depth = events[i].event_kind == CT_TRACE_CALL && d + 1 > depth ? d + 1 : depth;
        }
        if (!count) {
            uint64_t next = ct_index_skip(index, at);
            count = next > at ? (size_t)(next - at) : 1;
        }
    }
    return depth;
}

static uint64_t time_at(struct ct_index *index, uint64_t sequence, uint64_t otherwise) {
    struct atf_index_event event;
    return index->count && ct_index_read(index, sequence, &event, 1) ? event.timestamp_ns : otherwise;
}

static uint64_t put_thread(struct ct_view_answer *a, size_t i) {
    struct ct_source *s = a->reader->source;
    const struct ct_trace_thread *info = ct_trace_thread_at(s->trace, i);
    struct ct_index *index = &s->trace->threads[i].index;
    const struct ct_summary *summary = s->summaries[i];
    uint64_t calls = 0, last = time_at(index, index->end - 1, s->start_ns);
    uint64_t end = info->event_count ? ct_facts_thread_end(&s->facts, s->trace, i, last, 1) : last;
    for (size_t k = 0; summary && k < ct_summary_span_count(summary); k++)
        calls += ct_summary_span(summary, k)->calls;
    if (!summary)
        calls = (info->event_count + 1) / 2;
    ct_json_begin(&a->json, NULL, '{');
    ct_json_number(&a->json, "thread", i + 1);
    ct_json_number(&a->json, "process", info->process + 1);
    ct_json_number(&a->json, "tid", info->tid);
    ct_json_string(&a->json, "name", info->name);
    ct_view_put_time(a, "start", time_at(index, index->first, s->start_ns));
    ct_view_put_time(a, "end", end > last ? end : last);
    ct_json_number(&a->json, "calls", calls);
    ct_json_number(&a->json, "events", info->event_count);
    ct_json_number(&a->json, "depth", summary ? deepest(summary) : depth_of(index));
    ct_json_number(&a->json, "lost", info->lost);
    ct_json_bool(&a->json, "cut", info->cut);
    ct_json_bool(&a->json, "detail", info->has_detail);
    ct_json_end(&a->json, '}');
    return calls;
}

/* Columns of a table, by the names that the page uses. */
struct column {
    const char *key;
    int column;
};

/* Returns how many rows there were. */
static size_t put_rows(struct ct_view_answer *a, enum ct_table_id table, const struct ct_ask *ask,
                       const struct column *columns, size_t most) {
    struct ct_rows *rows = NULL;
    size_t count = 0;
    int status = ct_rows_open(&rows, a->reader->source, table, ask);
    while (!status && count < most && ct_rows_next(rows) > 0) {
        count++;
        ct_json_begin(&a->json, NULL, '{');
        for (const struct column *c = columns; c->key; c++)
            ct_view_put_cell(a, c->key, rows, c->column);
        ct_json_end(&a->json, '}');
    }
    if (!status)
        ct_rows_close(rows);
    return count;
}

static bool put_table(struct ct_view_answer *a, const char *key, enum ct_table_id table, const struct column *columns) {
    struct ct_ask ask;
    ct_ask_all(&ask);
    ct_json_begin(&a->json, key, '[');
    size_t count = put_rows(a, table, &ask, columns, MOST);
    ct_json_end(&a->json, ']');
    return count == MOST;
}

/* Of a thread that is not counted, the signals that its process died of: the manifest knows them. */
static size_t put_deaths(struct ct_view_answer *a, size_t thread) {
    struct ct_source *s = a->reader->source;
    const struct ct_trace_thread *info = ct_trace_thread_at(s->trace, thread);
    const struct ct_json_node *root = ct_json_root(s->facts.trees[info->process]);
    const struct ct_json_node *signal = ct_json_first(ct_json_get(root, "signals", NULL));
    size_t count = 0;
    for (; signal; signal = signal->next) {
        uint64_t tid = ct_json_u64(ct_json_get(signal, "tid", NULL), UINT64_MAX);
        if (!ct_json_flag(ct_json_get(signal, "fatal", NULL), false) ||
            ct_view_thread_of(s->trace, info->process, tid) != thread)
            continue;
        ct_json_begin(&a->json, NULL, '{');
        ct_view_put_time(a, "time", ct_json_u64(ct_json_get(signal, "time_ns", NULL), ct_view_end(a)));
        ct_json_number(&a->json, "thread", thread + 1);
        ct_json_string(&a->json, "signal", ct_json_text(ct_json_get(signal, "name", NULL), ""));
        ct_json_end(&a->json, '}');
        count++;
    }
    return count;
}

/* Every event of a large thread without a summary would have to be read for its signals. */
static bool put_signals(struct ct_view_answer *a) {
    static const struct column columns[] = {{"time", CT_SIGNALS_time},   {"thread", CT_SIGNALS_thread},
                                            {"signal", CT_SIGNALS_name}, {"text", CT_SIGNALS_text},
                                            {"call", CT_SIGNALS_id},     {0}};
    struct ct_source *s = a->reader->source;
    struct ct_ask ask;
    size_t count = 0;
    ct_ask_all(&ask);
    ct_json_begin(&a->json, "signals", '[');
    for (size_t i = 0; i < ct_trace_thread_count(s->trace) && count < MOST; i++) {
        int64_t number = (int64_t)i + 1;
        ask.ranges[CT_ASK_THREAD] = (struct ct_ask_range){number, number};
        count += is_counted(s, i) ? put_rows(a, CT_TABLE_SIGNALS, &ask, columns, MOST - count) : put_deaths(a, i);
    }
    ct_json_end(&a->json, ']');
    return count >= MOST;
}

/* Gaps, from the event before to the event after. When those were that lie in a part that has been deleted (--keep) is
 * not known any more: they count in `lost` alone. */
static bool put_losses(struct ct_view_answer *a) {
    struct ct_source *s = a->reader->source;
    size_t count = 0;
    ct_json_begin(&a->json, "losses", '[');
    for (size_t i = 0; i < s->facts.thread_count; i++) {
        struct ct_index *index = &s->trace->threads[i].index;
        for (size_t k = 0; k < s->facts.threads[i].gap_count && count < MOST; k++) {
            const struct ct_gap *gap = &s->facts.threads[i].gaps[k];
            if (gap->at < index->first)
                continue;
            count++;
            uint64_t end = gap->at < index->end ? time_at(index, gap->at, 0) : 0;
            uint64_t start = gap->at > index->first ? time_at(index, gap->at - 1, 0) : 0;
            end = end ? end : start ? start : s->start_ns;
            ct_json_begin(&a->json, NULL, '{');
            ct_json_number(&a->json, "thread", i + 1);
            ct_view_put_time(a, "start", start && start < end ? start : end);
            ct_view_put_time(a, "end", end);
            ct_json_number(&a->json, "events", gap->lost);
            ct_json_string(&a->json, "reason", gap->reason);
            ct_json_end(&a->json, '}');
        }
    }
    ct_json_end(&a->json, ']');
    return count == MOST;
}

static void on_damage(void *arg, const char *sentence) {
    ct_json_string(arg, NULL, sentence);
}

/* Blocks that were found to be damaged when they were read. */
static void put_unreadable(struct ct_view_answer *a) {
    pthread_mutex_lock(&a->trace->lock);
    uint64_t blocks = a->trace->unreadable;
    pthread_mutex_unlock(&a->trace->lock);
    if (blocks)
        ct_json_string(&a->json, NULL,
                       "blocks of events are damaged, and these events are missing here; `contrail verify` says which");
}

static const char *text_of(const struct ct_source *s, const char *key) {
    return s->facts.process_count ? ct_json_text(ct_json_get(ct_json_root(s->facts.trees[0]), key, NULL), "") : "";
}

static void put_head(struct ct_view_answer *a) {
    struct ct_source *s = a->reader->source;
    const struct ct_processes *processes = ct_source_processes(s);
    const struct ct_wall *wall = ct_source_wall(s);
    char text[CT_WALL_TEXT] = "";
    if (wall)
        ct_wall_text(wall, s->start_ns, text);
    ct_json_number(&a->json, "start", 0);
    ct_view_put_time(a, "end", ct_view_end(a));
    ct_json_string(&a->json, "wall", text);
    ct_json_string(&a->json, "command", processes && processes->count ? processes->rows[0].command_line : "");
    ct_json_string(&a->json, "host", text_of(s, "host"));
    ct_json_string(&a->json, "arch", text_of(s, "arch"));
    ct_json_bool(&a->json, "live", a->trace->live);
    ct_json_bool(&a->json, "control", a->trace->live);
    ct_json_number(&a->json, "generation", a->reader->generation);
}

static bool has_blocks(const struct ct_trace *trace) {
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        if (ct_trace_has_code(trace, i))
            return true;
    return false;
}

void ct_view_answer_info(struct ct_view_answer *a) {
    static const struct column marks[] = {{"time", CT_MARKS_time}, {"label", CT_MARKS_label}, {0}};
    static const struct column windows[] = {{"start", CT_WINDOWS_start},
                                            {"end", CT_WINDOWS_stop},
                                            {"time", CT_WINDOWS_time},
                                            {"reason", CT_WINDOWS_reasons},
                                            {0}};
    struct ct_source *s = a->reader->source;
    uint64_t events = 0, calls = 0, lost = 0;
    bool cut = false, counted = true;
    put_head(a);
    put_processes(a);
    ct_json_begin(&a->json, "threads", '[');
    for (size_t i = 0; i < ct_trace_thread_count(s->trace); i++) {
        events += ct_trace_thread_at(s->trace, i)->event_count;
        lost += ct_trace_thread_at(s->trace, i)->lost;
        if (i < MOST)
            calls += put_thread(a, i);
        cut |= i >= MOST;
        counted = counted && is_counted(s, i);
    }
    ct_json_end(&a->json, ']');
    ct_json_number(&a->json, "events", events);
    ct_json_number(&a->json, "calls", calls);
    ct_json_number(&a->json, "lost", lost);
    cut |= put_table(a, "marks", CT_TABLE_MARKS, marks);
    cut |= put_table(a, "windows", CT_TABLE_WINDOWS, windows);
    ct_json_begin(&a->json, "damage", '[');
    ct_trace_damage(s->trace, on_damage, &a->json);
    put_unreadable(a);
    ct_json_end(&a->json, ']');
    ct_json_bool(&a->json, "blocks", has_blocks(s->trace));
    ct_json_bool(&a->json, "query", true);
    cut |= put_losses(a);
    cut |= put_signals(a);
    ct_json_bool(&a->json, "counted", counted);
    ct_json_bool(&a->json, "cut", cut);
}

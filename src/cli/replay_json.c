/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a call tree as JSON. */
#include "cli/replay_json.h"
#include "cli/replay_view.h"
#include "report/output.h"
#include "trace/arguments_json.h"
#include "trace/signal_text.h"
#include "base/json_write.h"

static const char *const kinds[] = {
    [CT_REPLAY_LEAF] = "call",           [CT_REPLAY_OPEN] = "open",
    [CT_REPLAY_CLOSE] = "close",         [CT_REPLAY_ENTRY] = "entry",
    [CT_REPLAY_END] = "return",          [CT_REPLAY_GAP] = "gap",
    [CT_REPLAY_SIGNAL] = "signal",       [CT_REPLAY_BLOCK] = "block",
    [CT_REPLAY_COMPILED] = "translated", [CT_REPLAY_BLOCKS_LOST] = "blocks_lost",
    [CT_REPLAY_DAMAGED] = "damaged",     [CT_REPLAY_WAITED] = "waited",
    [CT_REPLAY_BLOCKED] = "blocked",     [CT_REPLAY_PREEMPTED] = "preempted",
};
static const char *const ends[] = {
    [CT_REPLAY_RETURNED] = "returned",
    [CT_REPLAY_LEFT] = "left",
    [CT_REPLAY_LOST] = "lost",
    [CT_REPLAY_STILL_OPEN] = "open",
};

static bool has_end(const struct ct_replay_line *line) {
    return line->kind == CT_REPLAY_LEAF || line->kind == CT_REPLAY_CLOSE || line->kind == CT_REPLAY_END;
}

static void put_signal(struct ct_replay_json *v, const struct ct_replay_line *line, struct ct_json *json) {
    struct ct_trace_detail detail = {.size = sizeof detail};
    char text[1024];
    if (ct_trace_detail(v->trace, line->thread, line->detail, &detail) != 0 || detail.type != CT_TRACE_DETAIL_SIGNAL)
        return;
    ct_signal_text(v->trace, ct_trace_thread_at(v->trace, line->thread)->process, &detail, text, sizeof text);
    ct_json_number(json, "signal", detail.signal);
    ct_json_string(json, "text", text);
}

static void put_arguments(struct ct_replay_json *v, const struct ct_replay_line *line, struct ct_json *json) {
    static struct ct_arguments arguments;
    bool call = line->kind != CT_REPLAY_CLOSE && line->kind != CT_REPLAY_END;
    if (call && ct_arguments_read(v->arguments, line->thread, line->detail, &arguments) == 0)
        ct_arguments_json(json, "args", &arguments);
    if (!has_end(line) || ct_arguments_read(v->arguments, line->thread, line->end_detail, &arguments) != 0)
        return;
    if (arguments.count)
        ct_argument_json(json, "result", &arguments.at[0]);
    if (arguments.error)
        ct_json_number(json, "errno", arguments.error);
}

static bool is_block(const struct ct_replay_line *line) {
    return line->kind == CT_REPLAY_BLOCK || line->kind == CT_REPLAY_COMPILED;
}

/* `at`: bytes from its beginning. */
static void put_block(const struct ct_replay_json *v, const struct ct_replay_line *line, uint64_t at,
                      struct ct_json *json) {
    if (!*line->name)
        ct_json_string(json, "module", line->module);
    else
        ct_json_number(json, "function_offset", line->into + at);
    ct_json_number(json, "offset", line->block.offset + at);
    if (line->kind == CT_REPLAY_BLOCK && v->insns)
        return;
    ct_json_number(json, "size", line->block.size);
    if (line->kind == CT_REPLAY_COMPILED)
        return;
    ct_json_number(json, "instructions", line->block.insns);
    ct_json_number(json, "executed", line->executed);
}

/* Writes the members that a line of this kind has. */
static void put_rest(struct ct_replay_json *v, const struct ct_replay_line *line, struct ct_json *json) {
    switch (line->kind) {
    case CT_REPLAY_GAP:
        ct_json_number(json, "lost", line->lost);
        ct_json_string(json, "reason", line->reason);
        return;
    case CT_REPLAY_SIGNAL:
        put_signal(v, line, json);
        return;
    case CT_REPLAY_BLOCKS_LOST:
        ct_json_number(json, "lost", line->lost);
        return;
    case CT_REPLAY_DAMAGED:
        ct_json_string(json, "reason", line->reason);
        return;
    case CT_REPLAY_WAITED:
        ct_json_number(json, "duration_ns", line->duration_ns);
        ct_json_string(json, "reason", line->reason);
        return;
    case CT_REPLAY_BLOCKED:
    case CT_REPLAY_PREEMPTED:
        ct_json_number(json, "duration_ns", line->duration_ns);
        return;
    default:
        if (v->arguments && !is_block(line))
            put_arguments(v, line, json);
    }
}

static void put_time(const struct ct_replay_json *v, uint64_t time_ns, struct ct_json *json) {
    ct_json_number(json, "time_ns", time_ns);
    ct_output_wall_json(json, "time", v->wall, time_ns);
}

static void put_line(struct ct_replay_json *v, const struct ct_replay_line *line, uint64_t at, struct ct_json *json) {
    const struct ct_trace_thread *thread = ct_trace_thread_at(v->trace, line->thread);
    ct_json_begin(json, NULL, '{');
    put_time(v, line->time_ns, json);
    ct_json_signed(json, "pid", ct_trace_process_at(v->trace, thread->process)->pid);
    ct_json_number(json, "tid", thread->tid);
    ct_json_string(json, "kind", line->kind == CT_REPLAY_BLOCK && v->insns ? "instruction" : kinds[line->kind]);
    ct_json_number(json, "indent", line->indent);
    if (*line->name) {
        ct_json_string(json, "function", line->name);
        ct_json_string(json, "module", line->module);
    }
    if (line->callers)
        ct_json_string(json, "callers", line->callers);
    if (is_block(line))
        put_block(v, line, at, json);
    if (has_end(line))
        ct_json_string(json, "end", ends[line->end]);
    if ((line->kind == CT_REPLAY_LEAF || line->kind == CT_REPLAY_CLOSE) && line->end != CT_REPLAY_LOST)
        ct_json_number(json, "duration_ns", line->duration_ns);
    put_rest(v, line, json);
    ct_json_end(json, '}');
}

void ct_replay_json_begin(struct ct_replay_json *v) {
    ct_printer_text(v->printer, "[");
}

/* Prints an object, and frees it. */
static int print_object(struct ct_replay_json *v, struct ct_json *json) {
    if (json->failed) {
        ct_json_free(json);
        return CT_ERR_NO_MEMORY;
    }
    while (json->length && json->text[json->length - 1] == '\n')
        json->length--;
    ct_printer_text(v->printer, v->lines++ ? ",\n" : "\n");
    ct_printer_bytes(v->printer, json->text, json->length);
    ct_json_free(json);
    return ct_printer_wanted(v->printer) ? 0 : CT_REPLAY_VIEW_STOP;
}

static int print_line(void *arg, const struct ct_replay_line *line, uint64_t at) {
    struct ct_replay_json *v = arg;
    struct ct_json json = {0};
    if (v->limit && v->lines == v->limit)
        return CT_REPLAY_VIEW_STOP;
    put_line(v, line, at, &json);
    return print_object(v, &json);
}

int ct_replay_json_marks(struct ct_replay_json *v, uint64_t until_ns) {
    int status = 0;
    for (const struct ct_mark *m; !status && (m = ct_marks_next(v->marks, until_ns));) {
        struct ct_json json = {0};
        if (v->limit && v->lines == v->limit)
            return CT_REPLAY_VIEW_STOP;
        ct_json_begin(&json, NULL, '{');
        put_time(v, m->time_ns, &json);
        ct_json_string(&json, "kind", "mark");
        if (*m->label)
            ct_json_string(&json, "label", m->label);
        ct_json_end(&json, '}');
        status = print_object(v, &json);
    }
    return status;
}

int ct_replay_json_line(void *arg, const struct ct_replay_line *line) {
    struct ct_replay_json *v = arg;
    if (v->marks_skipped)
        ct_marks_skip(v->marks, line->time_ns);
    v->marks_skipped = false;
    int status = ct_replay_json_marks(v, line->time_ns);
    if (status)
        return status;
    v->damaged |= line->kind == CT_REPLAY_DAMAGED;
    return ct_replay_each_instruction(line, v->insns, print_line, v);
}

void ct_replay_json_end(struct ct_replay_json *v) {
    ct_printer_text(v->printer, "\n]\n");
}

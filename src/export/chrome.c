/* SPDX-License-Identifier: Apache-2.0 */
/* chrome: trace events in JSON. Calls are B and E events, everything else is an instant event. Times count from the
 * beginning of the trace: a double of microseconds holds nanoseconds for 26 days only, and machines run longer. */
#include "export/walk.h"
#include "trace/arguments_json.h"
#include "base/json_write.h"
#include <stdio.h>
#include <stdlib.h>

struct chrome {
    uint64_t first_tid; /* for lanes that are not threads: above all numbers that the kernel gives */
    uint64_t lanes;     /* number of such lanes */
    uint64_t off_tid;   /* lane of the thread's waits and time off the processor; 0: none yet */
    int pid;
    bool comma;
    /* what events of the thread itself begin with, by phase: B, E, i */
    struct head {
        char text[80];
        size_t size;
    } heads[3];
};

/* ---- parts of events ---- */

static void put_quoted(struct ct_walk *w, const char *text) {
    char *quoted = ct_json_quote(text);
    if (!quoted)
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
    else
        ct_out_text(w->out, quoted);
    free(quoted);
}

static void put_name(struct ct_walk *w, const struct ct_name *name) {
    ct_out_text(w->out, name->json);
}

static void put_separator(struct ct_walk *w) {
    struct chrome *c = w->arg;
    ct_out_text(w->out, c->comma ? ",\n" : "\n");
    c->comma = true;
}

/* Writes microseconds, with the nanoseconds after the point. */
static void put_time(struct ct_walk *w) {
    uint64_t ns = w->now_ns - w->e->start_ns;
    ct_out_number(w->out, ns / 1000);
    uint8_t *to = ct_out_room(w->out, 4);
    to[0] = '.';
    to[1] = (uint8_t)('0' + ns / 100 % 10);
    to[2] = (uint8_t)('0' + ns / 10 % 10);
    to[3] = (uint8_t)('0' + ns % 10);
    ct_out_took(w->out, 4);
}

/* `what`: what the lane has; "": the thread itself. */
static void put_lane_name(struct ct_walk *w, uint64_t tid, const char *what) {
    struct chrome *c = w->arg;
    char name[256];
    put_separator(w);
    ct_out_format(w->out, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%llu,\"args\":{\"name\":", c->pid,
                  (unsigned long long)tid);
    snprintf(name, sizeof name, "%.128s%s%s", w->info->name, *what ? " " : "", what);
    put_quoted(w, name);
    ct_out_text(w->out, "}}");
}

static void put_thread_name(struct ct_walk *w, uint64_t tid, size_t lane) {
    char what[64] = "";
    if (lane)
        snprintf(what, sizeof what, "suspended calls %zu", lane);
    put_lane_name(w, tid, what);
}

static uint64_t tid_of(struct ct_walk *w, size_t lane) {
    struct chrome *c = w->arg;
    if (lane == 0)
        return w->info->tid;
    if (!w->lanes[lane].user) {
        w->lanes[lane].user = c->first_tid + c->lanes++;
        put_thread_name(w, w->lanes[lane].user, lane);
    }
    return w->lanes[lane].user;
}

static const char phases[] = "BEi";

static void make_heads(struct chrome *c, uint32_t tid) {
    for (int i = 0; phases[i]; i++)
        c->heads[i].size = (size_t)snprintf(c->heads[i].text, sizeof c->heads[i].text,
                                            ",\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":%u,\"ts\":", phases[i], c->pid, tid);
}

/* {"ph":"B","pid":1,"tid":1,"ts":0.001 */
static void put_head(struct ct_walk *w, const char *phase, size_t lane) {
    struct chrome *c = w->arg;
    if (lane == 0 && c->comma) {
        const struct head *head = &c->heads[strchr(phases, *phase) - phases];
        ct_out_bytes(w->out, head->text, head->size);
        put_time(w);
        return;
    }
    uint64_t tid = tid_of(w, lane);
    put_separator(w);
    ct_out_text(w->out, "{\"ph\":\"");
    ct_out_text(w->out, phase);
    ct_out_text(w->out, "\",\"pid\":");
    ct_out_number(w->out, (uint64_t)c->pid);
    ct_out_text(w->out, ",\"tid\":");
    ct_out_number(w->out, tid);
    ct_out_text(w->out, ",\"ts\":");
    put_time(w);
}

/* Writes ,"args":{"n":5}: the arguments of the call, or its result. */
static void put_arguments(struct ct_walk *w, bool result) {
    const struct ct_arguments *arguments = ct_export_arguments(w->e, w->thread, w->detail, &w->values);
    struct ct_json json = {0};
    char name[16];
    if (!arguments || !arguments->count)
        return;
    ct_json_begin(&json, NULL, '{');
    for (size_t i = 0; i < arguments->count; i++) {
        const char *key = result ? "return" : ct_export_argument_name(arguments, i, name);
        if (arguments->at[i].kind == CT_VALUE_UNKNOWN)
            ct_json_string(&json, key, arguments->at[i].text);
        else
            ct_argument_json(&json, key, &arguments->at[i]);
    }
    ct_json_end(&json, '}');
    if (json.failed)
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
    while (json.length && json.text[json.length - 1] == '\n')
        json.length--;
    ct_out_text(w->out, ",\"args\":");
    ct_out_bytes(w->out, json.text, json.failed ? 0 : json.length);
    ct_json_free(&json);
}

/* ---- events ---- */

static void on_begin(struct ct_walk *w, struct ct_span *span, struct ct_span *caller) {
    (void)caller;
    put_head(w, "B", span->lane);
    ct_out_text(w->out, ",\"name\":");
    put_name(w, span->name);
    if (span->continued)
        ct_out_text(w->out, ",\"args\":{\"continued\":true}");
    else
        put_arguments(w, false);
    ct_out_text(w->out, "}");
}

static void on_end(struct ct_walk *w, struct ct_span *span, struct ct_span *caller, enum ct_span_end how) {
    static const char *const texts[] = {
        [CT_SPAN_RETURNED] = "}",
        [CT_SPAN_LEFT] = ",\"args\":{\"end\":\"left by exception or longjmp\"}}",
        [CT_SPAN_LOST] = ",\"args\":{\"end\":\"its return was lost\"}}",
        [CT_SPAN_OPEN] = ",\"args\":{\"end\":\"still open when the recording ended\"}}",
        [CT_SPAN_MOVED] = ",\"args\":{\"end\":\"suspended, goes on in another track\"}}",
    };
    (void)caller;
    put_head(w, "E", span->lane);
    if (how == CT_SPAN_RETURNED)
        put_arguments(w, true);
    ct_out_text(w->out, texts[how]);
}

static void put_instant(struct ct_walk *w, size_t lane, const char *category, struct ct_name *name) {
    put_head(w, "i", lane);
    ct_out_text(w->out, ",\"s\":\"t\",\"cat\":\"");
    ct_out_text(w->out, category);
    ct_out_text(w->out, "\",\"name\":");
    if (name)
        put_name(w, name);
}

static void on_entry(struct ct_walk *w, struct ct_name *name, struct ct_span *caller) {
    put_instant(w, caller ? caller->lane : 0, "entry only", name);
    put_arguments(w, false);
    ct_out_text(w->out, "}");
}

static void on_unpaired(struct ct_walk *w, struct ct_name *name, bool left) {
    put_instant(w, 0, "end without call", name);
    if (!left)
        put_arguments(w, true);
    ct_out_text(w->out, left ? ",\"args\":{\"end\":\"left by exception or longjmp\"}}" : "}");
}

static void on_gap(struct ct_walk *w, const struct ct_gap *gap) {
    put_instant(w, 0, "loss", NULL);
    ct_out_text(w->out, "\"events lost\",\"args\":{\"count\":");
    ct_out_number(w->out, gap->lost);
    ct_out_text(w->out, ",\"reason\":");
    put_quoted(w, *gap->reason ? gap->reason : "not known");
    ct_out_text(w->out, "}}");
}

static void on_signal(struct ct_walk *w) {
    char text[1024];
    ct_export_signal(w->e, w->thread, w->detail, text, sizeof text);
    put_instant(w, 0, "signal", NULL);
    put_quoted(w, text);
    ct_out_text(w->out, "}");
}

/* On a track of its own below the thread's. */
static void on_off(struct ct_walk *w, const struct ct_off_span *span, bool begin) {
    const struct chrome *c = w->arg;
    put_separator(w);
    ct_out_format(w->out, "{\"ph\":\"%s\",\"pid\":%d,\"tid\":%llu,\"ts\":", begin ? "B" : "E", c->pid,
                  (unsigned long long)c->off_tid);
    put_time(w);
    if (begin) {
        ct_out_format(w->out, ",\"cat\":\"%s\",\"name\":\"%s\"", span->kind == CT_OFF_WAITED ? "recorder" : "off CPU",
                      ct_off_text(span->kind));
        if (span->kind == CT_OFF_WAITED) {
            ct_out_text(w->out, ",\"args\":{\"reason\":");
            put_quoted(w, span->reason);
            ct_out_text(w->out, "}");
        }
    }
    ct_out_text(w->out, "}");
}

static void on_thread(struct ct_walk *w) {
    struct chrome *c = w->arg;
    c->off_tid = 0;
    c->pid = ct_trace_process_at(w->e->trace, w->process)->pid;
    make_heads(c, w->info->tid);
    if (*w->info->name)
        put_thread_name(w, w->info->tid, 0);
    if (!w->off_spans)
        return;
    c->off_tid = c->first_tid + c->lanes++;
    put_lane_name(w, c->off_tid, "off CPU");
}

/* Events of the thread itself need to know nothing of those before them. */
static bool on_part(struct ct_walk *part, const struct ct_walk *whole) {
    *(struct chrome *)part->arg = *(const struct chrome *)whole->arg;
    return true;
}

/* ---- the file ---- */

static void put_process_names(struct ct_walk *w) {
    char name[256];
    for (size_t i = 0; i < w->e->result->processes; i++) {
        if (!ct_select_process(&w->e->options->select, w->e->trace, i))
            continue;
        put_separator(w);
        ct_out_format(w->out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":",
                      ct_trace_process_at(w->e->trace, i)->pid);
        put_quoted(w, ct_export_program(w->e, i, name, sizeof name));
        ct_out_text(w->out, "}}");
    }
}

int ct_export_chrome(struct ct_export *e) {
    static const struct ct_walk_sharing sharing = {.size = sizeof(struct chrome), .begin = on_part};
    static const struct ct_walk_format format = {.sharing = &sharing,
                                                 .begin_thread = on_thread,
                                                 .begin = on_begin,
                                                 .end = on_end,
                                                 .entry = on_entry,
                                                 .unpaired = on_unpaired,
                                                 .gap = on_gap,
                                                 .signal = on_signal,
                                                 .off = on_off};
    struct chrome c = {.first_tid = 1 << 22};
    struct ct_walk head = {.e = e, .out = &e->out, .arg = &c};
    e->names.quoted = true;
    ct_out_text(&e->out, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"creator\":\"contrail\",\"clock\":\"CLOCK_"
                         "BOOTTIME\",\"start_ns\":\"");
    ct_out_number(&e->out, e->start_ns); /* as text: a double may not hold it */
    ct_out_text(&e->out, "\",\"command_line\":");
    put_quoted(&head, e->result->processes ? ct_export_manifest_text(e, 0, "command_line", "") : "");
    ct_out_text(&e->out, "},\n\"traceEvents\":[");
    put_process_names(&head);
    int status = ct_walk_trace(e, &format, &c);
    ct_out_text(&e->out, "\n]}\n");
    return status;
}

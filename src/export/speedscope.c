/* SPDX-License-Identifier: Apache-2.0 */
/* speedscope: an evented profile for each thread, and for each lane of suspended calls. The table of frames is at the
 * end, when it is complete. Other lanes grow while the first one is written, so they wait in a spool. Times count from
 * the beginning of the trace. Waits for the recorder and time off the processor are a profile of their own for each
 * thread. The format has no place for events that have no end (losses, ends without a call). */
#include "base/digits.h"
#include "export/spool.h"
#include "export/walk.h"
#include <contrail/contrail.h>
#include <stdlib.h>

struct lane {
    uint64_t first_ns, last_ns;
    bool used;
};

struct speedscope {
    struct ct_export *e;
    struct ct_spool spool;
    struct lane *lanes;
    size_t lane_count;
    struct lane off; /* waits and time off the processor */
    bool comma;      /* a profile precedes */
};
/* Streams of the spool are numbered as the lanes. The first lane goes straight to the output, so this one is free. */
enum { OFF_STREAM = 0 };

static void put_quoted(struct ct_export *e, const char *text) {
    char *quoted = ct_json_quote(text);
    if (!quoted)
        ct_export_fail(e, CT_ERR_NO_MEMORY);
    else
        ct_out_text(&e->out, quoted);
    free(quoted);
}

/* ---- events ---- */

static struct lane *lane_at(struct speedscope *s, size_t lane) {
    if (lane >= s->lane_count) {
        size_t count = lane + 1;
        struct lane *grown = realloc(s->lanes, count * sizeof *grown);
        if (!grown) {
            ct_export_fail(s->e, CT_ERR_NO_MEMORY);
            return NULL;
        }
        memset(grown + s->lane_count, 0, (count - s->lane_count) * sizeof *grown);
        s->lanes = grown;
        s->lane_count = count;
    }
    return &s->lanes[lane];
}

/* Millions of events are written: sizes that the compiler knows make a copy one or two instructions. So more bytes are
 * copied than there are digits. */
static inline size_t put_digits(char *to, uint64_t number) {
    char digits[2 * CT_DIGITS] = {0};
    size_t at = ct_digits(digits, number);
    memcpy(to, digits + at, CT_DIGITS);
    return CT_DIGITS - at;
}

#define PUT_TEXT(to, text) (memcpy(to, text, sizeof text - 1), sizeof text - 1)

enum { EVENT_SIZE = 128 };

/* Makes the text of an event; `text` has room for EVENT_SIZE bytes. Returns its length. */
static size_t make_event(const struct ct_walk *w, struct lane *l, const struct ct_name *name, char type, char *text) {
    size_t n;
    uint64_t ns = w->now_ns - w->e->start_ns;
    if (!l->used)
        l->first_ns = ns;
    text[0] = ',';
    n = l->used;
    n += PUT_TEXT(text + n, "\n{\"type\":\"");
    text[n++] = type;
    n += PUT_TEXT(text + n, "\",\"frame\":");
    n += put_digits(text + n, name->number);
    n += PUT_TEXT(text + n, ",\"at\":");
    n += put_digits(text + n, ns);
    text[n++] = '}';
    l->used = true;
    l->last_ns = ns;
    return n;
}

static void put_event(struct ct_walk *w, size_t lane, const struct ct_name *name, char type) {
    struct speedscope *s = w->arg;
    struct lane *l = lane_at(s, lane);
    char text[EVENT_SIZE];
    if (!l)
        return;
    if (lane == 0)
        ct_out_took(w->out, make_event(w, l, name, type, (char *)ct_out_room(w->out, EVENT_SIZE)));
    else
        ct_spool_put(&s->spool, lane, text, make_event(w, l, name, type, text));
}

static void on_begin(struct ct_walk *w, struct ct_span *span, struct ct_span *caller) {
    (void)caller;
    put_event(w, span->lane, span->name, 'O');
}

static void on_end(struct ct_walk *w, struct ct_span *span, struct ct_span *caller, enum ct_span_end how) {
    (void)caller, (void)how;
    put_event(w, span->lane, span->name, 'C');
}

static void on_entry(struct ct_walk *w, struct ct_name *name, struct ct_span *caller) {
    size_t lane = caller ? caller->lane : 0;
    put_event(w, lane, name, 'O');
    put_event(w, lane, name, 'C');
}

static void on_off(struct ct_walk *w, const struct ct_off_span *span, bool begin) {
    struct speedscope *s = w->arg;
    char text[EVENT_SIZE];
    (void)span;
    ct_spool_put(&s->spool, OFF_STREAM, text, make_event(w, &s->off, w->off_name, begin ? 'O' : 'C', text));
}

/* ---- profiles ---- */

static void put_profile_head(struct ct_walk *w, const char *what) {
    struct speedscope *s = w->arg;
    struct ct_out *out = &w->e->out;
    char program[256], name[512];
    snprintf(name, sizeof name, "%.128s %d: %.64s%s%u%s", ct_export_program(w->e, w->process, program, sizeof program),
             ct_trace_process_at(w->e->trace, w->process)->pid, w->info->name, *w->info->name ? "/" : "", w->info->tid,
             what);
    ct_out_text(out, s->comma ? ",\n{\"type\":\"evented\",\"unit\":\"nanoseconds\",\"name\":"
                              : "\n{\"type\":\"evented\",\"unit\":\"nanoseconds\",\"name\":");
    put_quoted(w->e, name);
    ct_out_text(out, ",\"events\":[");
    s->comma = true;
}

static void put_profile_end(struct ct_walk *w, const struct lane *lane) {
    struct ct_out *out = &w->e->out;
    ct_out_text(out, "],\"startValue\":");
    ct_out_number(out, lane->first_ns);
    ct_out_text(out, ",\"endValue\":");
    ct_out_number(out, lane->last_ns);
    ct_out_text(out, "}");
}

static void put_profile(struct ct_walk *w, size_t stream, const struct lane *lane, const char *what) {
    struct speedscope *s = w->arg;
    if (!lane->used)
        return;
    put_profile_head(w, what);
    ct_spool_copy(&s->spool, stream, &w->e->out);
    put_profile_end(w, lane);
}

static void on_thread(struct ct_walk *w) {
    struct speedscope *s = w->arg;
    s->lane_count = 0;
    s->off = (struct lane){0};
    put_profile_head(w, "");
}

static void on_thread_end(struct ct_walk *w) {
    struct speedscope *s = w->arg;
    put_profile_end(w, s->lane_count ? &s->lanes[0] : &(struct lane){0});
    for (size_t i = 1; i < s->lane_count; i++) {
        char what[64];
        snprintf(what, sizeof what, ", suspended calls %zu", i);
        put_profile(w, i, &s->lanes[i], what);
    }
    put_profile(w, OFF_STREAM, &s->off, ", off CPU");
    if (s->spool.no_memory)
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
    ct_export_write_failed(w->e, s->spool.error);
    ct_spool_clear(&s->spool);
}

/* A part has the first lane only. The first range of a thread is none, so the lane is in use. */
static bool on_part(struct ct_walk *part, const struct ct_walk *whole) {
    const struct speedscope *from = whole->arg;
    struct speedscope *s = part->arg;
    s->e = from->e;
    struct lane *lane = from->lane_count ? lane_at(s, 0) : NULL;
    if (lane)
        *lane = from->lanes[0];
    return lane || !from->lane_count;
}

static void on_passed(struct ct_walk *w, const struct ct_range *range) {
    struct lane *lane = lane_at(w->arg, 0);
    if (!lane)
        return;
    if (!lane->used)
        lane->first_ns = range->begin_ns - w->e->start_ns;
    lane->used = true;
    lane->last_ns = range->passed_ns - w->e->start_ns;
}

static void on_part_end(struct ct_walk *whole, struct ct_walk *part) {
    (void)whole;
    free(((struct speedscope *)part->arg)->lanes);
}

static void put_frames(struct ct_export *e) {
    struct ct_out *out = &e->out;
    ct_out_text(out, "\n],\n\"shared\":{\"frames\":[");
    for (size_t i = 0; i < e->names.count && !e->status; i++) {
        const char *json = ct_name_json(e->names.list[i]);
        if (!json) {
            ct_export_fail(e, CT_ERR_NO_MEMORY);
            return;
        }
        ct_out_text(out, i ? ",\n{\"name\":" : "\n{\"name\":");
        ct_out_text(out, json);
        const struct ct_name *name = e->names.list[i];
        ct_out_text(out, ",\"file\":");
        put_quoted(e, name->file ? name->file : name->module);
        if (name->line) {
            ct_out_text(out, ",\"line\":");
            ct_out_number(out, name->line);
        }
        ct_out_text(out, "}");
    }
    ct_out_text(out, "\n]}}\n");
}

int ct_export_speedscope(struct ct_export *e) {
    static const struct ct_walk_sharing sharing = {
        .size = sizeof(struct speedscope), .begin = on_part, .pass = on_passed, .end = on_part_end, .off_apart = true};
    static const struct ct_walk_format format = {.sharing = &sharing,
                                                 .begin_thread = on_thread,
                                                 .end_thread = on_thread_end,
                                                 .begin = on_begin,
                                                 .end = on_end,
                                                 .entry = on_entry,
                                                 .off = on_off,
                                                 .names_off = true};
    struct speedscope s = {.e = e};
    ct_out_text(&e->out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":");
    ct_out_format(&e->out, "\"contrail %s\",\"name\":", ct_version());
    put_quoted(e, e->result->processes ? ct_export_manifest_text(e, 0, "command_line", "trace") : "trace");
    ct_out_text(&e->out, ",\n\"profiles\":[");
    int status = ct_walk_trace(e, &format, &s);
    if (!status)
        put_frames(e);
    ct_spool_free(&s.spool);
    free(s.lanes);
    return status;
}

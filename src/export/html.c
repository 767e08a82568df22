/* SPDX-License-Identifier: Apache-2.0 */
/* HTML: one page with the calls, and the script that shows them (html_page.html). It opens without a server and loads
 * nothing. The page has a place for the data, which is JSON: names with markup are texts there, and "<" is escaped, so
 * that nothing in it ends the element. Calls of lanes beside the first wait in a spool, as for speedscope. */
#include "base/digits.h"
#include "export/spool.h"
#include "export/walk.h"
#include <stdlib.h>

/* The bytes of html_page.html, which end with PAGE_END. */
extern const char ct_html_page[];
#define PAGE_DATA "<!--DATA-->"
#define PAGE_END  "<!--END-->"

struct html {
    struct ct_export *e;
    struct ct_spool spool;
    bool *used; /* by lane: it has calls */
    size_t lane_count;
    bool comma; /* a track precedes */
    uint64_t lost;
};

/* Writes a JSON text without "<". */
static void put_safe(struct ct_export *e, const char *json) {
    for (const char *next; json && (next = strchr(json, '<')); json = next + 1) {
        ct_out_bytes(&e->out, json, (size_t)(next - json));
        ct_out_text(&e->out, "\\u003c");
    }
    if (json)
        ct_out_text(&e->out, json);
    else
        ct_export_fail(e, CT_ERR_NO_MEMORY);
}

static void put_text(struct ct_export *e, const char *text) {
    char *json = ct_json_quote(text);
    put_safe(e, json);
    free(json);
}

/* ---- calls: start, duration, depth, name, self (-1: the call goes on in another track) ---- */

static bool *lane_at(struct html *h, size_t lane) {
    if (lane >= h->lane_count) {
        bool *grown = realloc(h->used, lane + 1);
        if (!grown) {
            ct_export_fail(h->e, CT_ERR_NO_MEMORY);
            return NULL;
        }
        memset(grown + h->lane_count, 0, lane + 1 - h->lane_count);
        h->used = grown;
        h->lane_count = lane + 1;
    }
    return &h->used[lane];
}

static void put_call(struct ct_walk *w, size_t lane, uint64_t start_ns, uint64_t depth, const struct ct_name *name,
                     uint64_t self_ns, bool moved) {
    enum { SIZE = 128 };
    struct html *h = w->arg;
    const uint64_t numbers[] = {start_ns - w->e->start_ns, w->now_ns - start_ns, depth, name->number,
                                moved ? 1 : self_ns};
    char text[SIZE];
    size_t used = 0;
    bool *has = lane_at(h, lane);
    if (!has)
        return;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char digits[CT_DIGITS];
        size_t at = ct_digits(digits, numbers[i]);
        if (*has || i)
            text[used++] = ',';
        if (moved && i + 1 == sizeof numbers / sizeof *numbers)
            text[used++] = '-';
        memcpy(text + used, digits + at, CT_DIGITS - at);
        used += CT_DIGITS - at;
    }
    *has = true;
    if (lane)
        ct_spool_put(&h->spool, lane, text, used);
    else
        ct_out_bytes(w->out, text, used);
}

/* `inner_calls` is the depth in the lane, `inner_ns` when the part of the call in this lane begins. */
static void on_begin(struct ct_walk *w, struct ct_span *span, struct ct_span *caller) {
    (void)caller;
    span->inner_ns = w->now_ns;
    span->inner_calls = span->below ? span->below->inner_calls + 1 : 0;
}

static void on_end(struct ct_walk *w, struct ct_span *span, struct ct_span *caller, enum ct_span_end how) {
    (void)caller;
    put_call(w, span->lane, span->inner_ns, span->inner_calls, span->name, how == CT_SPAN_LOST ? 0 : span->self_ns,
             how == CT_SPAN_MOVED);
}

static void on_entry(struct ct_walk *w, struct ct_name *name, struct ct_span *caller) {
    put_call(w, caller ? caller->lane : 0, w->now_ns, caller ? caller->inner_calls + 1 : 0, name, 0, false);
}

static void on_gap(struct ct_walk *w, const struct ct_gap *gap) {
    struct html *h = w->arg;
    h->lost += gap->lost;
}

/* ---- tracks ---- */

static void put_track(struct ct_walk *w, const char *what) {
    struct html *h = w->arg;
    char program[256], name[512];
    snprintf(name, sizeof name, "%.128s %d: %.64s%s%u%s", ct_export_program(w->e, w->process, program, sizeof program),
             ct_trace_process_at(w->e->trace, w->process)->pid, w->info->name, *w->info->name ? "/" : "", w->info->tid,
             what);
    ct_out_text(&w->e->out, h->comma ? ",\n{\"name\":" : "\n{\"name\":");
    put_text(w->e, name);
    ct_out_text(&w->e->out, ",\"calls\":[");
    h->comma = true;
}

static void on_thread(struct ct_walk *w) {
    struct html *h = w->arg;
    h->lane_count = 0;
    put_track(w, "");
}

static void on_thread_end(struct ct_walk *w) {
    struct html *h = w->arg;
    ct_out_text(&w->e->out, "]}");
    for (size_t i = 1; i < h->lane_count; i++) {
        char what[64];
        if (!h->used[i])
            continue;
        snprintf(what, sizeof what, ", suspended calls %zu", i);
        put_track(w, what);
        ct_spool_copy(&h->spool, i, &w->e->out);
        ct_out_text(&w->e->out, "]}");
    }
    if (h->spool.no_memory)
        ct_export_fail(w->e, CT_ERR_NO_MEMORY);
    ct_export_write_failed(w->e, h->spool.error);
    ct_spool_clear(&h->spool);
}

static void put_names(struct ct_export *e) {
    ct_out_text(&e->out, "\n],\n\"names\":[");
    for (size_t i = 0; i < e->names.count && !e->status; i++) {
        ct_out_text(&e->out, i ? ",\n[" : "\n[");
        put_safe(e, ct_name_json(e->names.list[i]));
        ct_out_text(&e->out, ",");
        put_text(e, e->names.list[i]->module);
        ct_out_text(&e->out, "]");
    }
    ct_out_text(&e->out, "\n]");
}

/* A part has the first lane only. */
static bool on_part(struct ct_walk *part, const struct ct_walk *whole) {
    const struct html *from = whole->arg;
    struct html *h = part->arg;
    h->e = from->e;
    bool *used = lane_at(h, 0);
    if (used)
        *used = from->lane_count && from->used[0];
    return used;
}

static void on_passed(struct ct_walk *w, const struct ct_range *range) {
    bool *used = lane_at(w->arg, 0);
    if (used)
        *used |= range->self_count || range->calls > range->used; /* ends, and calls of functions that have no end */
}

static void on_part_end(struct ct_walk *whole, struct ct_walk *part) {
    (void)whole;
    free(((struct html *)part->arg)->used);
}

int ct_export_html(struct ct_export *e) {
    static const struct ct_walk_sharing sharing = {
        .size = sizeof(struct html), .begin = on_part, .pass = on_passed, .open = on_begin, .end = on_part_end};
    static const struct ct_walk_format format = {.sharing = &sharing,
                                                 .begin_thread = on_thread,
                                                 .end_thread = on_thread_end,
                                                 .begin = on_begin,
                                                 .end = on_end,
                                                 .entry = on_entry,
                                                 .gap = on_gap};
    const char *data = strstr(ct_html_page, PAGE_DATA), *end = strstr(ct_html_page, PAGE_END);
    const char *path = ct_trace_path(e->trace), *slash = strrchr(path, '/');
    struct html h = {.e = e};
    ct_out_large(&e->out, ct_html_page, (size_t)(data - ct_html_page));
    ct_out_text(&e->out, "{\"title\":");
    put_text(e, slash && slash[1] ? slash + 1 : path);
    ct_out_text(&e->out, ",\"tracks\":[");
    int status = ct_walk_trace(e, &format, &h);
    put_names(e);
    ct_out_format(&e->out, ",\n\"lost\":%llu}", (unsigned long long)h.lost);
    data += strlen(PAGE_DATA);
    ct_out_large(&e->out, data, (size_t)(end - data));
    ct_spool_free(&h.spool);
    free(h.used);
    return status;
}

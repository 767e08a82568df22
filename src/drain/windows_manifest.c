/* SPDX-License-Identifier: Apache-2.0 */
/* What the manifest says about windows of detail. See windows.h. */
#include "drain/windows.h"
#include "base/json_write.h"
#include <string.h>

/* A manual mark has its label after a colon. */
static void put_trigger(const char *text, struct ct_json *j) {
    bool labelled = !strncmp(text, CT_WINDOWS_MANUAL ": ", sizeof CT_WINDOWS_MANUAL + 1);
    ct_json_string(j, "trigger", labelled ? CT_WINDOWS_MANUAL : text);
    if (labelled)
        ct_json_string(j, "label", text + sizeof CT_WINDOWS_MANUAL + 1);
}

static void put_reason(const struct ct_windows *w, const struct ct_window_reason *r, struct ct_json *j) {
    ct_json_begin(j, NULL, '{');
    put_trigger(w->texts[r->text], j);
    ct_json_number(j, "count", r->count);
    ct_json_number(j, "first_ns", r->first_ns);
    if (r->first_tid)
        ct_json_number(j, "tid", (uint64_t)r->first_tid);
    if (r->first_function)
        ct_json_number(j, "function_id", r->first_function);
    ct_json_end(j, '}');
}

static void put_window(const struct ct_windows *w, const struct ct_window *window, struct ct_json *j) {
    bool open = window->end == UINT64_MAX;
    uint64_t start = window->start > window->reach ? window->start : window->reach, mark = window->first_mark;
    ct_json_begin(j, NULL, '{');
    ct_json_number(j, "start_ns", start);
    if (!open)
        ct_json_number(j, "end_ns", window->end);
    if (window->first_mark) {
        ct_json_number(j, "first_mark_ns", window->first_mark);
        ct_json_number(j, "last_mark_ns", window->last_mark);
        ct_json_number(j, "pre_roll_ns", start < mark ? mark - start : 0);
        ct_json_string(j, "pre_roll",
                       window->reach > window->start || window->short_events ? "cut by memory"
                       : window->short_start                                 ? "cut by the start"
                                                                             : "whole");
        if (!open)
            ct_json_number(j, "post_roll_ns", window->end - window->last_mark);
        ct_json_string(j, "post_roll",
                       open                ? "going on"
                       : window->limited   ? "cut by count"
                       : window->short_end ? "cut by the end"
                                           : "whole");
    }
    ct_json_number(j, "records", window->records);
    if (window->older) {
        ct_json_number(j, "older_records", window->older);
        ct_json_number(j, "oldest_ns", window->oldest);
    }
    if (window->records) {
        ct_json_number(j, "first_record_ns", window->first_record);
        ct_json_number(j, "last_record_ns", window->last_record);
    }
    ct_json_begin(j, "reasons", '[');
    for (size_t i = 0; i < window->reason_count; i++)
        put_reason(w, &window->reasons[i], j);
    ct_json_end(j, ']');
    ct_json_end(j, '}');
}

void ct_windows_put(const struct ct_windows *w, struct ct_json *j) {
    ct_json_begin(j, "windows", '[');
    for (size_t i = 0; i < w->kept_count; i++)
        put_window(w, w->kept[(w->kept_first + i) % CT_WINDOWS_KEPT], j);
    for (size_t i = 0; i < w->count; i++)
        put_window(w, w->recent[i], j);
    ct_json_end(j, ']');
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of detail, as `info` shows them, from the manifest. */
#include "report/info.h"
#include "base/json_write.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t read_number(const struct ct_json_node *node, const char *key) {
    return ct_json_u64(ct_json_get(node, key, NULL), 0);
}

/* "symbol=abort* (3 times), manual" */
static char *join_reasons(const struct ct_json_node *list, uint64_t *marks) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    for (const struct ct_json_node *reason = ct_json_first(list); reason; reason = reason->next) {
        uint64_t count = read_number(reason, "count");
        *marks += count;
        fprintf(out, "%s%s", reason == ct_json_first(list) ? "" : ", ",
                ct_json_text(ct_json_get(reason, "trigger", NULL), "?"));
        const char *label = ct_json_text(ct_json_get(reason, "label", NULL), "");
        if (*label)
            fprintf(out, " \"%s\"", label);
        if (count > 1)
            fprintf(out, " (%llu times)", (unsigned long long)count);
    }
    return fclose(out) ? NULL : text;
}

int ct_info_read_windows(struct ct_info *info, const struct ct_json_node *root) {
    const struct ct_json_node *list = ct_json_get(root, "windows", NULL), *node = ct_json_first(list);
    const struct ct_json_node *lost = ct_json_get(root, "detail", "lost", NULL);
    info->detail = read_number(ct_json_get(root, "detail", NULL), "written");
    info->detail_thread = read_number(ct_json_get(root, "detail", NULL), "most_of_a_thread");
    info->detail_needed = read_number(ct_json_get(root, "detail", NULL), "needed_bytes");
    for (const struct ct_json_node *reason = ct_json_first(lost); reason; reason = reason->next)
        info->detail_lost += ct_json_u64(reason, 0);
    info->windows = node ? calloc(list->count, sizeof *info->windows) : NULL;
    if (node && !info->windows)
        return CT_ERR_NO_MEMORY;
    for (; node; node = node->next) {
        struct ct_info_window *w = &info->windows[info->window_count++];
        w->mark_ns = read_number(node, "first_mark_ns");
        w->pre_ns = read_number(node, "pre_roll_ns");
        w->post_ns = read_number(node, "post_roll_ns");
        w->records = read_number(node, "records") + read_number(node, "older_records");
        w->pre = ct_json_text(ct_json_get(node, "pre_roll", NULL), "");
        w->post = ct_json_text(ct_json_get(node, "post_roll", NULL), "");
        w->reasons = join_reasons(ct_json_get(node, "reasons", NULL), &w->marks);
    }
    return 0;
}

void ct_info_free_windows(struct ct_info *info) {
    for (size_t i = 0; i < info->window_count; i++)
        free(info->windows[i].reasons);
    free(info->windows);
}

void ct_info_windows_json(const struct ct_info *info, struct ct_json *json) {
    ct_json_number(json, "detail", info->detail);
    ct_json_number(json, "detail_lost", info->detail_lost);
    ct_json_number(json, "detail_thread_bytes", info->detail_thread);
    ct_json_number(json, "detail_needed_bytes", info->detail_needed);
    ct_json_begin(json, "windows", '[');
    for (size_t i = 0; i < info->window_count; i++) {
        const struct ct_info_window *w = &info->windows[i];
        ct_json_begin(json, NULL, '{');
        ct_json_number(json, "mark_ns", w->mark_ns);
        ct_json_number(json, "marks", w->marks);
        ct_json_string(json, "reasons", w->reasons ? w->reasons : "");
        ct_json_number(json, "pre_roll_ns", w->pre_ns);
        ct_json_string(json, "pre_roll", w->pre);
        ct_json_number(json, "post_roll_ns", w->post_ns);
        ct_json_string(json, "post_roll", w->post);
        ct_json_number(json, "records", w->records);
        ct_json_end(json, '}');
    }
    ct_json_end(json, ']');
}

/* SPDX-License-Identifier: Apache-2.0 */
/* See window_reasons.h. */
#include "report/window_reasons.h"

static const char *read_text(const struct ct_json_node *node, const char *key) {
    return ct_json_text(ct_json_get(node, key, NULL), "");
}

static uint64_t read_number(const struct ct_json_node *node, const char *key) {
    return ct_json_u64(ct_json_get(node, key, NULL), 0);
}

int ct_window_reasons(const struct ct_json_node *manifest,
                      int (*each)(void *arg, const struct ct_window_reason *reason), void *arg) {
    const struct ct_json_node *window = ct_json_first(ct_json_get(manifest, "windows", NULL));
    for (; window; window = window->next) {
        const struct ct_json_node *node = ct_json_first(ct_json_get(window, "reasons", NULL));
        for (; node; node = node->next) {
            const struct ct_window_reason reason = {.trigger = read_text(node, "trigger"),
                                                    .label = read_text(node, "label"),
                                                    .first_ns = read_number(node, "first_ns"),
                                                    .tid = read_number(node, "tid"),
                                                    .last_mark_ns = read_number(window, "last_mark_ns")};
            int status = each(arg, &reason);
            if (status)
                return status;
        }
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines of functions: see lines.h. */
#include "view/lines.h"
#include "symbols/lookup.h"
#include "trace/reader.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 512 };
#define CACHE_BYTES (1u << 20)

void ct_view_lines_begin(struct ct_view_lines *lines) {
    pthread_mutex_init(&lines->lock, NULL);
}

void ct_view_lines_free(struct ct_view_lines *lines) {
    ct_lookup_destroy(lines->lookup);
    pthread_mutex_destroy(&lines->lock);
}

/* "file:line" as the debug information says, "" when it does not. With the lock held. */
static const char *look_up(struct ct_view_answer *a, size_t process, const struct ct_trace_function *f, uint64_t into) {
    struct ct_view_lines *lines = &a->view->lines;
    struct ct_symbols_module m =
        ct_symbols_module_of(ct_trace_symbols(a->reader->trace, process), (uint32_t)(f->id >> 32));
    if (!lines->lookup)
        lines->lookup = ct_lookup_create(
            &(struct ct_lookup_options){.directories = a->view->options.directories, .cache_bytes = CACHE_BYTES});
    struct ct_lookup_module *module =
        lines->lookup && m.path ? ct_lookup_module(lines->lookup, m.path, m.build_id) : NULL;
    if (!module || (!*m.build_id && !ct_lookup_has_function(lines->lookup, module, f->offset)))
        return "";
    return into ? ct_lookup_line_at(lines->lookup, module, f->offset + into)
                : ct_lookup_find(lines->lookup, module, f->offset).line;
}

void ct_view_put_line(struct ct_view_answer *a, size_t process, const struct ct_trace_function *f, uint64_t into) {
    char text[LONGEST] = "";
    if (f && !into)
        snprintf(text, sizeof text, "%s", f->line);
    if (f && !*text) {
        pthread_mutex_lock(&a->view->lines.lock);
        snprintf(text, sizeof text, "%s", look_up(a, process, f, into));
        pthread_mutex_unlock(&a->view->lines.lock);
    }
    char *colon = strrchr(text, ':');
    if (!colon)
        return;
    *colon = 0;
    ct_json_string(&a->json, "file", text);
    ct_json_number(&a->json, "line", strtoull(colon + 1, NULL, 10));
}

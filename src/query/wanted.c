/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions a question is about: see wanted.h. */
#include "query/wanted.h"
#include <stdlib.h>
#include <string.h>

void ct_wanted_begin(struct ct_wanted *w, size_t process) {
    w->process = process;
    memset(w->recent, 0, sizeof w->recent);
}

struct ct_wanted_function *ct_wanted_learn(struct ct_wanted *w, uint64_t function) {
    struct ct_wanted_function *f = ct_table_get(&w->functions, w->process, function, sizeof *f);
    const struct ct_ask *ask = w->ask;
    if (f && !f->known) {
        f->known = ct_function_cache_get(&w->source->names, w->process, function);
        f->wanted = f->known && (!ask->functions.fit || ask->functions.fit(ask->functions.arg, f->known->name)) &&
                    (!ask->modules.fit || ask->modules.fit(ask->modules.arg, f->known->module));
    }
    return f && f->known ? f : NULL;
}

bool ct_wanted_list(struct ct_wanted *w, const struct ct_summary *summary) {
    size_t all = summary && ct_wanted_is_limited(w) ? ct_summary_function_count(summary) : 0;
    free(w->list);
    w->count = 0;
    w->list = all ? malloc(all * sizeof *w->list) : NULL;
    w->listed = w->list != NULL;
    for (size_t i = 0; i < all && w->listed; i++) {
        uint64_t function = ct_summary_function(summary, i)->function;
        const struct ct_wanted_function *f = function ? ct_wanted_get(w, function) : NULL;
        if (f && f->wanted)
            w->list[w->count++] = function;
        w->listed &= f || !function;
    }
    return !w->listed || w->count;
}

bool ct_wanted_in_span(const struct ct_wanted *w, const struct ct_summary *summary, size_t span) {
    for (size_t i = 0; i < w->count; i++)
        if (ct_summary_may_have(summary, span, w->list[i]))
            return true;
    return !w->listed;
}

void ct_wanted_free(struct ct_wanted *w) {
    ct_table_free(&w->functions, NULL);
    free(w->list);
}

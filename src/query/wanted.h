/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions a question is about, by the names that it asks for; each name is matched once. One owner. */
#ifndef CT_QUERY_WANTED_H
#define CT_QUERY_WANTED_H

#include "query/rows.h"

enum { CT_WANTED_RECENT = 256 };

struct ct_wanted_function {
    struct ct_table_key key;
    const struct ct_cached_function *known;
    bool wanted; /* its names fit */
};

/* Zeroed, with the first two fields set. */
struct ct_wanted {
    struct ct_source *source;
    const struct ct_ask *ask;
    /* private */
    size_t process;
    struct ct_table functions;
    struct ct_wanted_function *recent[CT_WANTED_RECENT]; /* of the process */
    uint64_t *list; /* of a thread: the wanted functions, as its summary lists them */
    size_t count;
    bool listed; /* the list is valid */
};

static inline bool ct_wanted_is_limited(const struct ct_wanted *w) {
    return w->ask->functions.fit || w->ask->modules.fit;
}
/* Functions of this process come next. */
void ct_wanted_begin(struct ct_wanted *w, size_t process);
/* The slow path of ct_wanted_get. */
struct ct_wanted_function *ct_wanted_learn(struct ct_wanted *w, uint64_t function);
/* NULL: out of memory. */
static inline struct ct_wanted_function *ct_wanted_get(struct ct_wanted *w, uint64_t function) {
    struct ct_wanted_function **recent = &w->recent[(function ^ function >> 32) % CT_WANTED_RECENT];
    if (!*recent || (*recent)->key.function != function)
        *recent = ct_wanted_learn(w, function);
    return *recent;
}
/* Reads the functions of a thread's summary, which may be NULL. False: none of them is wanted. */
bool ct_wanted_list(struct ct_wanted *w, const struct ct_summary *summary);
/* False: no event of the span is one of a wanted function. */
bool ct_wanted_in_span(const struct ct_wanted *w, const struct ct_summary *summary, size_t span);
void ct_wanted_free(struct ct_wanted *w);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that did nothing for long before the recording ended: what they are in, and since when. A thread that has
 * ended is not one of them. */
#ifndef CT_REPORT_IDLE_H
#define CT_REPORT_IDLE_H

#include "trace/facts.h"

enum { CT_IDLE_CALLS = 4 };

struct ct_idle {
    size_t thread; /* index */
    uint64_t since_ns, idle_ns;
    /* What it is in, and the callers: out to the program if libc and its like lie between, else one. */
    uint64_t calls[CT_IDLE_CALLS];
    size_t call_count;
    size_t open;        /* all open calls */
    uint64_t innermost; /* of all open calls; 0: none is known */
    uint64_t inside;    /* the last thing it did was to call this function, which is recorded on entry only; 0: none */
    bool unknown;       /* the open calls are not known, or not looked up */
};

struct ct_idle_list {
    struct ct_idle *items; /* longest first */
    size_t count;
};

/* `most`: threads with more events are not read; only their last event says what they are in. */
int ct_idle_find(struct ct_idle_list *out, struct ct_trace *trace, const struct ct_facts *facts, size_t process,
                 uint64_t most);
void ct_idle_free(struct ct_idle_list *list);

struct ct_json;
/* Writes the member "idle" of an object. */
void ct_idle_json(const struct ct_idle_list *list, const struct ct_trace *trace, size_t process, struct ct_json *json);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Single calls of a selection: the slowest ones, the first or the last. Memory grows with how many are asked for. */
#ifndef CT_REPORT_CALLS_H
#define CT_REPORT_CALLS_H

#include "report/function_cache.h"

struct ct_found_call {
    size_t thread;     /* index */
    uint64_t sequence; /* position of its event in the thread */
    uint64_t began_ns;
    uint64_t duration_ns; /* up to the end of the trace, or of the selected time, when it is open there */
    uint64_t self_ns;     /* of the selected time */
    const struct ct_cached_function *known;
    bool open;  /* at the end */
    bool timed; /* false: its end was lost, or its function is recorded on entry only */
};

enum ct_calls_order {
    CT_CALLS_SLOWEST, /* only those with a time */
    CT_CALLS_FIRST,
    CT_CALLS_LAST
};

struct ct_calls {
    struct ct_found_call *at; /* in that order */
    size_t count;
    uint64_t fitting; /* all calls that fit, and have a time if that is wanted */
    struct ct_function_cache names;
};

/* At most `most` calls, at least 1. `select` must live. `directories`: as in fits.h. */
int ct_calls_find(struct ct_calls **out, struct ct_trace *trace, const struct ct_select *select,
                  enum ct_calls_order order, size_t most, const char *const *directories);
void ct_calls_free(struct ct_calls *calls);

enum { CT_CALLS_NAME = 320 };
/* What --around takes for a call: call=THREAD:POSITION, with the directory of its process where there are several. */
void ct_calls_name(const struct ct_trace *trace, size_t thread, uint64_t sequence, char text[CT_CALLS_NAME]);
/* Reads THREAD:POSITION or DIRECTORY/THREAD:POSITION. False: it is no such text, or the trace has no such thread. */
bool ct_calls_parse(const struct ct_trace *trace, const char *text, size_t *thread, uint64_t *sequence);
/* Time of the event at a position; 0: there is none. */
uint64_t ct_calls_time(struct ct_trace *trace, size_t thread, uint64_t sequence);

struct ct_json;
struct ct_wall;
/* `command` writes how to see a call. `wall`: for times of the wall clock; NULL: not wanted. */
void ct_calls_json(const struct ct_calls *calls, const struct ct_trace *trace, const struct ct_wall *wall,
                   void (*command)(const struct ct_trace *trace, const struct ct_found_call *call, char *text,
                                   size_t size),
                   struct ct_json *json);

#endif

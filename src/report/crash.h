/* SPDX-License-Identifier: Apache-2.0 */
/* Signals and crashes in the trace of a process: what the records say, and which calls were open. */
#ifndef CT_REPORT_CRASH_H
#define CT_REPORT_CRASH_H

#include "trace/facts.h"
#include "trace/signal_text.h"

struct ct_json;

enum { CT_CRASH_FRAMES = 128, CT_CRASH_SIGNALS = 16 };

/* The calls that were open, innermost first. */
struct ct_open_calls {
    size_t thread;
    size_t count; /* all open calls */
    size_t shown; /* number of `functions`: the innermost ones, and the outermost one last */
    uint64_t functions[CT_CRASH_FRAMES];
};

struct ct_crash_signal {
    uint64_t time_ns;
    struct ct_open_calls calls;
    bool has_detail;
    struct ct_trace_detail detail;
};

struct ct_crash {
    size_t process;
    struct ct_crash_signal *signals; /* the last CT_CRASH_SIGNALS, by time */
    size_t signal_count;
    uint64_t all_signals;
    struct ct_open_calls *threads; /* at the end, when the process was killed; only those with open calls */
    size_t thread_count;
};

/* Reads the events of the process's threads, unless nothing indicates a signal. */
int ct_crash_make(struct ct_crash **out, struct ct_trace *trace, const struct ct_facts *facts, size_t process);
void ct_crash_free(struct ct_crash *crash);
/* Writes the members "signals" and "open_calls" of an object. */
void ct_crash_json(const struct ct_crash *crash, const struct ct_trace *trace, struct ct_json *json);

#endif

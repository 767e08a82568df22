/* SPDX-License-Identifier: Apache-2.0 */
/* Functions by calls and times: one row for each, over all threads or for each thread.
 *
 * total   time between call and end; counted once where a function calls itself or is open in several coroutines
 * self    total without the calls that it made
 * avg, max, percentiles   of the time between call and end, of every call
 *
 * cpu, blocked, preempted   parts of self, where switches were recorded: on a processor; off it, waiting for something;
 *         off it, able to run
 *
 * Calls that were open at the end last until the recording ended. Calls whose end was lost count as calls and have no
 * time; ends
 * whose call was lost are counted as unpaired. Time in gaps counts for no function. Of calls that overlap the selected
 * time, only the part in it counts. Memory grows with the number of
 * functions, not of events. Threads of the trace are read in parallel. */
#ifndef CT_REPORT_FUNCTIONS_H
#define CT_REPORT_FUNCTIONS_H

#include "report/function_cache.h"
#include "report/left_out.h"
#include "report/tally.h"
#include <contrail/trace.h>

/* The only list; the names are what the user types. */
#define CT_REPORT_SORT_LIST(X)                                                                                         \
    X(TOTAL, "total")                                                                                                  \
    X(SELF, "self")                                                                                                    \
    X(CALLS, "calls")                                                                                                  \
    X(AVG, "avg")                                                                                                      \
    X(MAX, "max")                                                                                                      \
    X(P50, "p50")                                                                                                      \
    X(P95, "p95") X(P99, "p99") X(CPU, "cpu") X(BLOCKED, "blocked") X(PREEMPTED, "preempted") X(NAME, "name")
enum ct_report_sort {
#define CT_REPORT_SORT_ENUM(name, output) CT_REPORT_BY_##name,
    CT_REPORT_SORT_LIST(CT_REPORT_SORT_ENUM)
#undef CT_REPORT_SORT_ENUM
};

struct ct_report_options {
    struct ct_select select;
    enum ct_report_sort sort;
    uint64_t limit; /* rows; 0: all */
    uint64_t min_calls;
    bool per_thread;
    bool times; /* rows keep the times of their calls */
    enum ct_report_spread spread;
    unsigned workers;               /* 0: one per processor */
    uint64_t range_events;          /* see struct ct_counter; 0 but for tests */
    const char *const *directories; /* further places of debug files, for arguments in `where`; may be NULL */
};

struct ct_report_row {
    const char *name, *module;             /* owned by the trace or the report: both must live */
    const struct ct_trace_function *known; /* NULL: the trace does not know it */
    size_t process;                        /* index */
    uint64_t function;                     /* id */
    size_t thread;                         /* index; SIZE_MAX: all threads */
    uint64_t calls;                        /* where they were sampled: all, if the selection allows to know that */
    uint64_t recorded;                     /* of them: those in the trace */
    uint64_t timed;                        /* calls with a time */
    uint64_t total_ns, self_ns, avg_ns, max_ns, p50_ns, p95_ns, p99_ns;
    uint64_t cpu_ns, blocked_ns, preempted_ns;                   /* of self; all 0 when not recorded */
    uint64_t total_cpu_ns, total_blocked_ns, total_preempted_ns; /* of total */
    uint64_t unknown_ns;                                         /* of self: switches were lost. cpu has none of it */
    uint64_t exceptions;                                         /* calls that were left by an exception or a longjmp */
    uint64_t open;                                               /* calls that were open at the end */
    uint64_t unpaired;          /* calls whose end was lost, and ends whose call was lost */
    bool entry_only;            /* no times */
    struct ct_histogram *times; /* of single calls, when the options ask for it; owned by the report */
    struct {
        double squares; /* sum */
        uint64_t p25_ns, p50_ns, p75_ns;
    } spread; /* of single calls' self or CPU times, when the options ask for it */
};

struct ct_report {
    struct ct_report_row *rows;
    size_t row_count;
    uint64_t matched; /* rows before the limit */
    uint64_t self_ns; /* of all functions, whether they are among the rows or not */
    uint64_t events, calls, exceptions, open, unpaired;
    uint64_t gaps, lost, gap_ns; /* gaps in the threads that were read, events lost there, their time */
    uint64_t waited_ns;          /* by threads, for the recorder; no call has it */
    uint64_t threads;            /* that were read */
    uint64_t cpu_threads;        /* of them: those with time on and off the processor */
    uint64_t sampled;            /* every Nth call was recorded; 0: all were */
    bool exact;                  /* the rows have all calls, although they were sampled */
    struct ct_left_out_list left_out;
    uint64_t ranges; /* parts of threads that were counted by themselves */
    struct ct_function_cache names;
};

int ct_report_make(struct ct_report **out, struct ct_trace *trace, const struct ct_report_options *options);
void ct_report_free(struct ct_report *report);
/* A part of ct_report_make: names, filters, order, limit. */
int ct_report_arrange(struct ct_report *report, const struct ct_trace *trace, const struct ct_report_options *options);

struct ct_json;
struct ct_output;
struct ct_values;
struct ct_unhooked_list;
/* `values`: arguments and results of the functions (values.h); `unhooked`: see unhooked.h. Both may be NULL. */
void ct_report_json(const struct ct_report *report, const struct ct_trace *trace, const struct ct_values *values,
                    const struct ct_unhooked_list *unhooked, struct ct_json *json);
/* Writes lines after a header line, quoted as in RFC 4180. */
void ct_report_csv(const struct ct_report *report, bool per_thread, const struct ct_trace *trace,
                   struct ct_output *output);

#endif

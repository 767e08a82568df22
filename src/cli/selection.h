/* SPDX-License-Identifier: Apache-2.0 */
/* The words that say which calls a reading command is about: one table, one parser, for all commands.
 *
 *   struct options { struct ct_selection selection; ... };
 *   static const struct ct_option option_table[] = { CT_OPTIONS_SELECTION(struct options, 'f', "only ...", ""), ... };
 *
 *   code = ct_selection_check(&o.selection);                 before the trace is opened: mistakes in the words
 *   code = ct_selection_apply(&o.selection, trace, &select); times of this trace, threads and processes that it has
 *   ...
 *   ct_selection_finish(&o.selection);                       remarks after the output; frees what was compiled
 *
 * contrail(1) describes them in the section SELECTION. */
#ifndef CT_CLI_SELECTION_H
#define CT_CLI_SELECTION_H

#include "cli/options.h"
#include "report/select.h"

struct ct_selection {
    struct ct_option_list functions, modules, threads, processes;
    const char *from, *to, *where;
    /* not options */
    struct ct_where *compiled;
    bool explained; /* why an argument was in no call: that was said */
};

#define CT_OPTION_PROCESS(type)                                                                                        \
    {                                                                                                                  \
        "process", 'p', CT_OPTION_LIST, offsetof(type, selection.processes), "PID|GLOB",                               \
            "only processes with this number, or whose program's file name matches"                                    \
    }
#define CT_OPTION_SELECTED_THREAD(type)                                                                                \
    {                                                                                                                  \
        "thread", 't', CT_OPTION_LIST, offsetof(type, selection.threads), "TID|GLOB",                                  \
            "only threads with this number, or whose name matches"                                                     \
    }
/* `letter` is that of --function: 0 where it has another meaning. */
#define CT_OPTIONS_SELECTION(type, letter, function_text, module_text)                                                 \
    {"function", letter, CT_OPTION_LIST, offsetof(type, selection.functions), "GLOB", function_text},                  \
        {"module", 'm', CT_OPTION_LIST, offsetof(type, selection.modules), "GLOB", module_text},                       \
        CT_OPTION_SELECTED_THREAD(type), CT_OPTION_PROCESS(type),                                                      \
        {"from",                                                                                                       \
         0,                                                                                                            \
         CT_OPTION_STRING,                                                                                             \
         offsetof(type, selection.from),                                                                               \
         "TIME",                                                                                                       \
         "only from this time on, counted from the beginning (1.5s, 20ms) or back from the end (-2s), or of the wall " \
         "clock (13:04:05.5, 2025-01-02T13:04:05+01:00)"},                                                             \
        {"to", 0, CT_OPTION_STRING, offsetof(type, selection.to), "TIME", "only up to this time"}, {                   \
        "where", 'w', CT_OPTION_STRING, offsetof(type, selection.where), "CONDITION",                                  \
            "only calls for which this is true, such as 'duration > 1ms and result < 0'; contrail(1) explains it"      \
    }

/* Return -1 to continue, otherwise the exit code, after a message. */
int ct_selection_check(struct ct_selection *selection);
/* A name in --where may be an argument, or a field that was misspelt. Returns as ct_selection_check; part of
 * ct_selection_apply. */
int ct_selection_check_names(struct ct_selection *selection, struct ct_trace *trace, const char *const *directories,
                             const struct ct_select *select);
/* The selection must live as long as *select. `directories`: further places of debug files; may be NULL. */
int ct_selection_apply(struct ct_selection *selection, struct ct_trace *trace, const char *const *directories,
                       struct ct_select *select);
void ct_selection_finish(struct ct_selection *selection);

/* The time that a word names: after `start_ns`, or before `end_ns` when it begins with a minus sign. False: it is no
 * time. Replay's --around uses it too. */
bool ct_selection_time(const char *text, uint64_t start_ns, uint64_t end_ns, uint64_t *time_ns);
/* --from and --to between a beginning and an end; 0 without one. -1, or the exit code after a message. */
int ct_selection_range(const struct ct_selection *selection, uint64_t start_ns, uint64_t end_ns,
                       struct ct_select *select);
/* The beginning of the first process and the end of the last: times count from them. */
uint64_t ct_selection_start(const struct ct_trace *trace);
uint64_t ct_selection_end(const struct ct_trace *trace);

#endif

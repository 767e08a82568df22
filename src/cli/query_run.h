/* SPDX-License-Identifier: Apache-2.0 */
/* Runs statements of `contrail query`: with progress, a time limit and Ctrl-C, and what is printed. */
#ifndef CT_CLI_QUERY_RUN_H
#define CT_CLI_QUERY_RUN_H

#include "cli/live.h"
#include "cli/query_print.h"

enum { CT_EXIT_INTERRUPTED = 130 };

struct ct_query_run {
    struct ct_trace *traces[CT_QUERY_TRACES];
    struct ct_source *sources[CT_QUERY_TRACES];
    size_t count;
    struct ct_query *query;
    enum ct_query_form form;
    uint64_t timeout_ns, memory; /* 0: no limit */
    bool counters;               /* print them after each statement */
    struct ct_live live;
    uint64_t began_ns;
    bool timed_out;
};

/* The traces are open; takes them. `often`: more than one question will come. Returns 0 or a status. */
int ct_query_run_open(struct ct_query_run *run, const char *const *directories, bool often);
void ct_query_run_close(struct ct_query_run *run);
/* Runs statements, or a command that begins with a full stop. Returns the exit code. */
int ct_query_run_text(struct ct_query_run *run, const char *text);
/* Ctrl-C stops the statement that runs; once more, the program. */
void ct_query_run_catch(void);
/* True when it was pressed since then. */
bool ct_query_run_caught(void);

/* .schema, .tables and so on: the exit code; -1: the user wants to leave (query_commands.c). */
int ct_query_run_command(struct ct_query_run *run, const char *text);
/* Names of such commands; NULL after the last one. */
const char *ct_query_command_name(size_t i);
/* Prints the questions of examples.h. Returns the exit code. */
int ct_query_print_examples(void);
void ct_query_print_counters(const struct ct_query_run *run);

#endif

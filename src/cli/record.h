/* SPDX-License-Identifier: Apache-2.0 */
/* What spawn and attach share: their options and the course of a recording. */
#ifndef CT_CLI_RECORD_H
#define CT_CLI_RECORD_H

#include "cli/options.h"

#define CT_RECORD_NOT_GIVEN UINT64_MAX

struct ct_session_stalk;

/* Initialise it with CT_RECORD_OPTIONS. */
struct ct_record_options {
    const char *output, *config, *keep, *metrics_file, *group, *budget;
    bool wait, quiet, lossless, no_cache, no_children, guess, vectors, structs, redact, cpu;
    uint64_t duration_ns, startup_timeout_ns; /* 0: none, computed */
    uint64_t max_depth, index_memory, drain_interval_ms, wait_ms;
    uint64_t pre_roll_ms, post_roll_ms, pre_roll_events, post_roll_events;
    uint64_t stack_bytes, strings, detail_rate, detail_memory, cache_size, sample;
    int format, detail; /* enums of contrail/session.h */
    int clock;          /* 1: fast */
    struct ct_option_list only, exclude, triggers, probes;
    const struct ct_session_stalk *stalk; /* NULL: functions are hooked */
    /* if not NULL, PATH_MAX bytes: receives the process's directory in the trace */
    char *directory;
};
#define CT_RECORD_OPTIONS                                                                                              \
    { .pre_roll_ms = CT_RECORD_NOT_GIVEN, .post_roll_ms = CT_RECORD_NOT_GIVEN, .wait_ms = CT_RECORD_NOT_GIVEN }
extern const struct ct_option ct_record_option_table[];
/* For help texts. */
#define CT_RECORD_TRIGGER_NOTES                                                                                        \
    "Triggers:\n"                                                                                                      \
    "  symbol=GLOB        a function whose name matches GLOB is called\n"                                              \
    "  call=GLOB:arg2:gt:4096\n"                                                                                       \
    "                     it is called and an argument (arg0 to arg5) compares so: eq, ne, lt, gt, with\n"             \
    "                     values like -22 or 0xff; arg0:like:*.conf: it points to a text that matches\n"               \
    "  return=GLOB:lt:0   it returns a value that compares so; errno:eq:ENOENT: the call has set errno\n"              \
    "                     to this (\" and \" joins conditions: call=write:arg0:eq:2 and arg2:gt:80)\n"                 \
    "  slow=GLOB:50ms     it takes longer than that (ns, us, ms, s)\n"                                                 \
    "  crash              the program dies of a signal (it stays traced for that: no debugger can attach)\n"           \
    "  signal=NAME        it gets this signal (SIGUSR1, USR1 or 10; it stays traced as well)\n"                        \
    "  time=HH:MM-HH:MM   at this time of day; 22:00-06:00 includes midnight\n"                                        \
    "  manual             `contrail ctl PID mark`, which works without it too\n"                                       \
    "  A GLOB matches names of functions, mangled or not, with parameters or without; MODULE!GLOB only\n"              \
    "  those of a module. Results are compared as 64 bits; one with a zero upper half counts as an int.\n"
/* Checks what the table cannot check. Returns 0, or the exit code after a message. */
int ct_record_check(const struct ct_record_options *options);
struct ct_session_options;
void ct_record_session_options(const struct ct_record_options *options, struct ct_session_options *out);

/* Records argv (spawned), or pid when argv is NULL. Returns the exit code. */
int ct_record_run(const struct ct_record_options *options, char **argv, int pid);

/* Parses a process number among the operands; false after a message. */
bool ct_record_parse_pid(const char *command, const char *text, int *pid);

#endif

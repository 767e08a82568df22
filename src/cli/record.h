/* What spawn and attach share: their options and the course of a recording. */
#ifndef CT_CLI_RECORD_H
#define CT_CLI_RECORD_H

#include "cli/options.h"

struct ct_record_options {
    const char *output, *config;
    bool wait, quiet, lossless, no_cache, no_children;
    uint64_t duration_ns, startup_timeout_ns; /* 0: none, computed */
    uint64_t max_depth, index_memory, drain_interval_ms;
    struct ct_option_list only, exclude;
};
extern const struct ct_option ct_record_option_table[];

/* Records argv (spawned), or pid when argv is NULL. Returns the exit code. */
int ct_record_run(const struct ct_record_options *options, char **argv, int pid);

/* The number of a process among the operands; false after a message. */
bool ct_record_parse_pid(const char *command, const char *text, int *pid);

#endif

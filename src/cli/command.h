/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of the command line tool: one struct each, listed in the table of main.c. Only src/cli prints or exits.
 *
 * The options of a command, its --help text and the checks of its input all come from this description. */
#ifndef CT_CLI_COMMAND_H
#define CT_CLI_COMMAND_H

#include "cli/options.h"

/* Exit codes that are not the target's own. */
enum ct_exit {
    CT_EXIT_USAGE = 64,
    CT_EXIT_DAMAGED = 65, /* all that can be read of the trace was, but something is missing */
    CT_EXIT_UNAVAILABLE = 69,
    CT_EXIT_INTERNAL = 70,
    CT_EXIT_PERMISSION = 77,
};

/* Headings of `contrail --help`, in this order. */
#define CT_GROUP_LIST(X) X(RECORD, "Recording") X(READ, "Reading traces") X(LOOK, "Looking at processes")
enum ct_group {
#define CT_GROUP_ENUM(name, title) CT_GROUP_##name,
    CT_GROUP_LIST(CT_GROUP_ENUM)
#undef CT_GROUP_ENUM
        CT_GROUP_COUNT
};

struct ct_command {
    const char *name;
    enum ct_group group;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
    const char *summary;               /* a line in `contrail --help`, lower case, no full stop */
    const char *operands;              /* as in the usage line: "[TRACE]", "PID", "[--] PROGRAM [ARGUMENTS]" */
    int min_operands, max_operands;    /* max -1: any number */
    bool program;                      /* the first operand is a program: what follows are its own arguments */
    const char *description;           /* paragraphs, separated by \n\n; wrapped when printed */
    const struct ct_option *options;   /* ends with an option without a name; NULL: only --help */
    const char *notes;                 /* printed as is, after the options; NULL: none */
    const char *examples;              /* lines, printed as is; at least one */
};

extern const struct ct_command ct_command_spawn, ct_command_attach, ct_command_detach, ct_command_ctl;
extern const struct ct_command ct_command_threads, ct_command_modules;
extern const struct ct_command ct_command_info, ct_command_report, ct_command_replay, ct_command_verify;
extern const struct ct_command ct_command_graph, ct_command_diff, ct_command_query;
extern const struct ct_command ct_command_symbolize;
extern const struct ct_command ct_command_export;
extern const struct ct_command ct_command_doctor;
extern const struct ct_command ct_command_tail;
extern const struct ct_command ct_command_stalk;
extern const struct ct_command ct_command_mcp, ct_command_tui, ct_command_view;
extern const struct ct_command ct_command_script;

#endif

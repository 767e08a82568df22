/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the command line. Each command has one table; the parser, the defaults and the --help text come from it.
 *
 *   struct values { const char *output; bool quiet; uint64_t limit; };
 *   static const struct ct_option options[] = {
 *       {"output", 'o', CT_OPTION_STRING, offsetof(struct values, output), "DIR", "where to write", .initial = "out"},
 *       {"quiet", 'q', CT_OPTION_FLAG, offsetof(struct values, quiet), NULL, "say nothing"},
 *       {"limit", 0, CT_OPTION_NUMBER, offsetof(struct values, limit), "N", "at most N lines", .min = 1},
 *       {0},
 *   };
 *   static int run_x(int argc, char **argv) {
 *       struct values v = {0};
 *       struct ct_operands operands;
 *       int code = ct_options_parse(&ct_command_x, argc, argv, &v, &operands);
 *       if (code >= 0)
 *           return code; // --help was printed, or an error
 *       ...
 *   }
 *
 * Accepted: --name=value, --name value, -n value, -nvalue, flags together (-qv); `--` ends the options. Options and
 * operands may be mixed, except after the program of a command that starts one. Every command has --help and -h. */
#ifndef CT_CLI_OPTIONS_H
#define CT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct ct_command;

/* Kinds of options, with the types of their values: */
enum ct_option_kind {
    CT_OPTION_FLAG,     /* bool */
    CT_OPTION_STRING,   /* const char * */
    CT_OPTION_NUMBER,   /* uint64_t */
    CT_OPTION_SIZE,     /* uint64_t, bytes: 65536, 64K, 1.5M, 2GiB (powers of 1,024) */
    CT_OPTION_DURATION, /* uint64_t, nanoseconds: 500us, 20ms, 1.5s, 2m, 1h; without a unit seconds */
    CT_OPTION_LIST,     /* struct ct_option_list; may be given several times */
    CT_OPTION_CHOICE,   /* int, index in `choices` */
};

struct ct_option_list {
    const char **items; /* NULL-terminated; NULL when the option was not given */
    size_t count;
};

struct ct_option {
    const char *name; /* without the dashes */
    char letter;      /* 0: no short form */
    enum ct_option_kind kind;
    size_t offset;              /* in the command's struct of values, which starts zeroed */
    const char *metavar;        /* "DIR"; NULL for flags */
    const char *help;           /* lower case, no full stop; the default is added */
    const char *initial;        /* the default, as the user would type it; NULL: the zeroed value stays */
    const char *const *choices; /* NULL-terminated */
    uint64_t min, max;          /* of numbers, sizes and durations; max 0: no limit */
};

/* Rows that several commands share. `type`: their struct of values, which has a member of that name. */
#define CT_OPTION_ABSOLUTE(type)                                                                                       \
    {                                                                                                                  \
        "absolute", 0, CT_OPTION_FLAG, offsetof(type, absolute), NULL,                                                 \
            "print times of the machine's clock (CLOCK_BOOTTIME) instead of times since the beginning"                 \
    }
extern const char *const ct_clock_names[];
enum { CT_CLOCK_START, CT_CLOCK_BOOT, CT_CLOCK_WALL }; /* as in ct_clock_names */
#define CT_OPTION_CLOCK(type)                                                                                          \
    {                                                                                                                  \
        "clock", 0, CT_OPTION_CHOICE, offsetof(type, clock), "CLOCK",                                                  \
            "print times since the beginning (start), of the machine's clock (boot), or date and time (wall)",         \
            .initial = "start", .choices = ct_clock_names                                                              \
    }
#define CT_OPTION_SHOW_MODULE(type)                                                                                    \
    {                                                                                                                  \
        "show-module", 0, CT_OPTION_FLAG, offsetof(type, show_module), NULL,                                           \
            "print the module after each function's name"                                                              \
    }
#define CT_OPTION_MANGLED(type)                                                                                        \
    { "mangled", 0, CT_OPTION_FLAG, offsetof(type, mangled), NULL, "print names as the symbol tables have them" }

#define CT_OPTION_FULL_NAMES(type)                                                                                     \
    {                                                                                                                  \
        "full-names", 0, CT_OPTION_FLAG, offsetof(type, full_names), NULL,                                             \
            "print names of C++ and Rust with all their template arguments and parameters"                             \
    }

#define CT_OPTION_ALLOW_DAMAGED(type)                                                                                  \
    {                                                                                                                  \
        "allow-damaged", 0, CT_OPTION_FLAG, offsetof(type, allow_damaged), NULL,                                       \
            "exit with 0 even if parts of the trace are missing or cannot be read (otherwise 65)"                      \
    }

struct ct_operands {
    int count;
    char **at; /* NULL-terminated; points into argv */
};

/* Returns -1 to continue, otherwise the exit code: 0 after --help, CT_EXIT_USAGE after a message. Reorders argv. */
int ct_options_parse(const struct ct_command *command, int argc, char **argv, void *values,
                     struct ct_operands *operands);

enum ct_options_result { CT_OPTIONS_RUN, CT_OPTIONS_HELP, CT_OPTIONS_WRONG };
/* Like ct_options_parse, without printing: the sentence goes into `error`. */
enum ct_options_result ct_options_read(const struct ct_command *command, int argc, char **argv, void *values,
                                       struct ct_operands *operands, char *error, size_t error_size);
/* Frees the lists in `values`. */
void ct_options_release(const struct ct_command *command, void *values);

void ct_options_print_help(FILE *out, const struct ct_command *command);

/* Parse a single value, for operands and for words inside options. False: not valid. */
bool ct_option_parse_number(const char *text, uint64_t *out);
bool ct_option_parse_size(const char *text, uint64_t *out);
bool ct_option_parse_duration(const char *text, uint64_t *out);

#endif

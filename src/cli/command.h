/* The commands of the command line tool: one row each in the table of main.c. Only src/cli prints or exits. */
#ifndef CT_CLI_COMMAND_H
#define CT_CLI_COMMAND_H

/* Exit codes that are not the target's own. */
enum ct_exit { CT_EXIT_USAGE = 64, CT_EXIT_UNAVAILABLE = 69, CT_EXIT_INTERNAL = 70, CT_EXIT_PERMISSION = 77 };

struct ct_command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
    const char *summary;
    const char *help; /* with an example */
};

extern const struct ct_command ct_command_demo;

#endif

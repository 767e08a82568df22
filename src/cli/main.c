/* contrail: finds the command and runs it. */
#include "cli/command.h"
#include <contrail/contrail.h>
#include <stdio.h>
#include <string.h>

static const struct ct_command *const commands[] = {&ct_command_demo};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_help(FILE *out) {
    fprintf(out,
            "contrail %s: a flight recorder for native programs\n\nUsage: contrail COMMAND [OPTIONS]\n\nCommands:\n",
            ct_version());
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n`contrail COMMAND --help` explains a command. Example:\n  contrail demo\n", out);
}

static const struct ct_command *find_command(const char *name) {
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(commands[i]->name, name))
            return commands[i];
    return NULL;
}

static int run_command(const struct ct_command *command, int argc, char **argv) {
    if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(command->help, stdout);
        return 0;
    }
    return command->run(argc, argv);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return CT_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("contrail %s\n", ct_version());
        return 0;
    }
    const struct ct_command *command = find_command(argv[1]);
    if (!command) {
        fprintf(stderr, "contrail: there is no command \"%s\"; `contrail --help` lists them\n", argv[1]);
        return CT_EXIT_USAGE;
    }
    return run_command(command, argc - 1, argv + 1);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* contrail: finds the command and runs it. */
#include "base/closest.h"
#include "cli/command.h"
#include "cli/completion.h"
#include "cli/message.h"
#include <contrail/contrail.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* In the order of `contrail --help`; groups keep this order. */
static const struct ct_command *const commands[] = {
    &ct_command_spawn,  &ct_command_attach, &ct_command_stalk,  &ct_command_detach,    &ct_command_ctl,
    &ct_command_tail,   &ct_command_info,   &ct_command_report, &ct_command_graph,     &ct_command_diff,
    &ct_command_query,  &ct_command_replay, &ct_command_verify, &ct_command_symbolize, &ct_command_export,
    &ct_command_mcp,    &ct_command_view,   &ct_command_tui,    &ct_command_threads,   &ct_command_modules,
    &ct_command_script, &ct_command_doctor,
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_help(FILE *out) {
#define TITLE(name, title) title,
    static const char *const titles[] = {CT_GROUP_LIST(TITLE)};
#undef TITLE
    fprintf(out, "contrail %s: a flight recorder for native programs\n\nUsage: contrail COMMAND [OPTIONS] ...\n",
            ct_version());
    for (int group = 0; group < CT_GROUP_COUNT; group++) {
        bool titled = false;
        for (int i = 0; i < COMMAND_COUNT; i++) {
            if ((int)commands[i]->group != group)
                continue;
            if (!titled)
                fprintf(out, "\n%s:\n", titles[group]);
            titled = true;
            fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
        }
    }
    fputs("\n`contrail help COMMAND` or `contrail COMMAND --help` explains a command.\n", out);
}

static const struct ct_command *find_command(const char *name) {
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(commands[i]->name, name))
            return commands[i];
    return NULL;
}

static const char *command_name(const void *arg, size_t i) {
    (void)arg;
    return commands[i]->name;
}

static int unknown_command(const char *word) {
    const char *close = ct_closest_name(word, command_name, NULL, COMMAND_COUNT);
    bool is_option = word[0] == '-';
    if (close)
        ct_message_error("there is no command \"%s\"; did you mean %s? `contrail --help` lists the commands", word,
                         close);
    else
        ct_message_error("there is no %s \"%s\"; `contrail --help` lists the commands",
                         is_option ? "option" : "command", word);
    return CT_EXIT_USAGE;
}

static int help(int argc, char **argv) {
    if (argc < 3) {
        print_help(stdout);
        return ct_message_finish();
    }
    const struct ct_command *command = find_command(argv[2]);
    if (!command)
        return unknown_command(argv[2]);
    ct_options_print_help(stdout, command);
    return ct_message_finish();
}

/* For packagers and shells: not in the list of commands. */
static int completion(int argc, char **argv) {
    if (argc == 3 && ct_completion_print(stdout, argv[2], commands, COMMAND_COUNT))
        return ct_message_finish();
    ct_message_error("completion takes the name of a shell: bash or zsh");
    return CT_EXIT_USAGE;
}

/* A file that we open must not get the number of a closed standard descriptor, and be written to as such. exec closes
 * these again, so that a spawned program finds what we found. */
static void fill_standard_descriptors(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) < 0)
            return;
}

int main(int argc, char **argv) {
    fill_standard_descriptors();
    if (argc < 2) {
        print_help(stderr);
        return CT_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return help(argc, argv);
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        printf("contrail %s\n", ct_version());
        return ct_message_finish();
    }
    if (!strcmp(argv[1], "completion"))
        return completion(argc, argv);
    const struct ct_command *command = find_command(argv[1]);
    return command ? command->run(argc - 1, argv + 1) : unknown_command(argv[1]);
}

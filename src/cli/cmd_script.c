/* SPDX-License-Identifier: Apache-2.0 */
/* contrail script: runs a script of JavaScript beside a process. The script runs in Node; this command finds Node and
 * the package (bindings/node), and becomes it. Nothing is put into the environment, which the program inherits. */
#include "cli/command.h"
#include "cli/message.h"
#include "cli/own_files.h"
#include "cli/record.h"
#include <contrail/status.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct script_options {
    const char *pid, *node;
    uint64_t timeout_ns;
};
static const struct ct_option option_table[] = {
    {"pid", 'p', CT_OPTION_STRING, offsetof(struct script_options, pid), "PID",
     "the process that the script works on; may also follow FILE"},
    {"timeout", 0, CT_OPTION_DURATION, offsetof(struct script_options, timeout_ns), "TIME",
     "how long a thread waits for a callback before it goes on without an answer", .initial = "1s", .min = 1000000,
     .max = 600000000000},
    {"node", 0, CT_OPTION_STRING, offsetof(struct script_options, node), "PATH", "the Node to run the script in",
     .initial = "node"},
    {0},
};

enum { FIXED_WORDS = 24 };

/* Where the package and its addon are. */
struct package {
    char main[PATH_MAX], addon[PATH_MAX], program[PATH_MAX];
};

/* Installed, or in a build directory of the source tree. */
static bool find_package(struct package *p) {
    if (!ct_own_program(p->program))
        return false;
    if (ct_own_file(p->main, p->program, CT_NODE_PACKAGE "/lib/main.js") &&
        ct_own_file(p->addon, p->program, CT_NODE_PACKAGE "/contrail.node"))
        return true;
    return ct_own_file(p->addon, p->program, "../../bindings/node/contrail.node") &&
           (ct_own_file(p->main, p->program, "../../../bindings/node/lib/main.js") ||
            ct_own_file(p->main, p->program, "../../../../bindings/node/lib/main.js")); /* build-arm64/tree */
}

/* `-p PID`, `-pPID`, `--pid PID` or `--pid=PID` after the file: the number of words, 0: it is none of them. */
static int pid_words(char **words, const char **pid) {
    static const char long_name[] = "--pid";
    const char *word = words[0];
    if (!word)
        return 0;
    if (!strncmp(word, "-p", 2) && word[2]) {
        *pid = word + 2;
        return 1;
    }
    if (!strncmp(word, long_name, strlen(long_name)) && word[strlen(long_name)] == '=') {
        *pid = word + strlen(long_name) + 1;
        return 1;
    }
    if (strcmp(word, "-p") && strcmp(word, long_name))
        return 0;
    *pid = words[1] ? words[1] : "";
    return words[1] ? 2 : 1;
}

/* Node changes them at its start. */
static uint64_t ignored_signals(void) {
    uint64_t mask = 0;
    for (int number = 1; number <= 64; number++) {
        struct sigaction action;
        if (!sigaction(number, NULL, &action) && action.sa_handler == SIG_IGN)
            mask |= 1ull << (number - 1);
    }
    return mask;
}

static uint64_t open_files(void) {
    struct rlimit limit;
    return !getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < UINT32_MAX ? limit.rlim_cur : 0;
}

/* Becomes Node: node main.js --addon A --program P --timeout MS --ignored MASK --files N FILE (--pid PID | -- PROGRAM
 * ARGUMENTS). */
static int run_node(const struct script_options *options, struct package *p, char **words, size_t count) {
    char timeout[24], ignored[24], files[24], **argv = calloc(count + FIXED_WORDS, sizeof *argv);
    size_t n = 0;
    if (!argv)
        return ct_message_fail(CT_ERR_NO_MEMORY, NULL);
    snprintf(timeout, sizeof timeout, "%llu", (unsigned long long)(options->timeout_ns / 1000000));
    snprintf(ignored, sizeof ignored, "%llu", (unsigned long long)ignored_signals());
    snprintf(files, sizeof files, "%llu", (unsigned long long)open_files());
    char *fixed[] = {(char *)(uintptr_t)options->node,
                     p->main,
                     "--addon",
                     p->addon,
                     "--program",
                     p->program,
                     "--timeout",
                     timeout,
                     "--ignored",
                     ignored,
                     "--files",
                     files,
                     words[0]};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        argv[n++] = fixed[i];
    if (options->pid) {
        argv[n++] = "--pid";
        argv[n++] = (char *)(uintptr_t)options->pid;
    } else {
        argv[n++] = "--";
        for (size_t i = 1; i < count; i++)
            argv[n++] = words[i];
    }
    execvp(options->node, argv);
    int code = errno;
    free(argv);
    ct_message_error("%s cannot be run (%s): install Node 18 or newer, or name it with --node", options->node,
                     strerror(code));
    return CT_EXIT_UNAVAILABLE;
}

static int run_script(int argc, char **argv) {
    struct script_options options = {0};
    struct ct_operands operands;
    static struct package package;
    int pid, code = ct_options_parse(&ct_command_script, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    char **words = operands.at;
    size_t count = (size_t)operands.count;
    int taken = options.pid ? 0 : pid_words(words + 1, &options.pid);
    if (!taken && words[1] && !strcmp(words[1], "--"))
        taken = 1;
    char *file = words[0];
    words += taken;
    count -= (size_t)taken;
    words[0] = file;
    if (options.pid ? count > 1 : count < 2) {
        ct_message_error("script needs a process: -p PID, or a program to start after the file");
        return CT_EXIT_USAGE;
    }
    if (options.pid && !ct_record_parse_pid("script", options.pid, &pid))
        return CT_EXIT_USAGE;
    if (!find_package(&package)) {
        ct_message_error("the package for Node is not installed: build Contrail where Node 18 or newer and its header "
                         "node_api.h are");
        return CT_EXIT_UNAVAILABLE;
    }
    return run_node(&options, &package, words, count);
}

const struct ct_command ct_command_script = {
    .name = "script",
    .group = CT_GROUP_LOOK,
    .run = run_script,
    .summary = "run a script of JavaScript that hooks, follows and changes a process",
    .operands = "FILE (-p PID | [--] PROGRAM [ARGUMENTS])",
    .min_operands = 1,
    .max_operands = -1,
    .program = true,
    .description =
        "Runs FILE in Node, beside the process: Interceptor, Stalker, Module, Memory, NativeFunction and the others "
        "are global names, as people know them from Frida. docs/SCRIPT.md describes them. The process has no "
        "interpreter in it: its threads wait while a callback runs, for at most --timeout, and go on when the script "
        "or Node dies.\n\n"
        "FILE is JavaScript (.js, .cjs), a module (.mjs: import, await) or TypeScript (.ts: with Node 22.18, or with "
        "npm's typescript beside it); - is standard input.\n\n"
        "A program that is started waits until the script has been read, and does not begin when that fails. The "
        "script runs for as long as the process does; Ctrl-C leaves the process, which runs on as before. What the "
        "script prints and sends goes to standard output, errors and warnings to standard error.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  that of a program that was started, 0 of a process; 1 when the script could not be read, or has\n"
             "  thrown while it was\n"
             "  64 (wrong usage), 69 (not possible here) or 77 (no permission)",
    .examples = "contrail script examples/scripts/log-open.js -- cat /etc/hostname\n"
                "contrail script watch.js -p 4711\n"
                "contrail script --timeout 30s --node /opt/node22/bin/node check.ts ./tests\n"
                "contrail script --timeout 100ms hot.js ./server --port 8080",
};

/* SPDX-License-Identifier: Apache-2.0 */
/* contrail spawn: starts a program and records it. */
#include "cli/command.h"
#include "cli/config.h"
#include "cli/record.h"

static int run_spawn(int argc, char **argv) {
    struct ct_record_options options = CT_RECORD_OPTIONS;
    struct ct_operands operands;
    int code = ct_config_parse(&ct_command_spawn, argc, argv, &options, &operands);
    if (code < 0 && !(code = ct_record_check(&options)))
        code = ct_record_run(&options, operands.at, 0);
    ct_options_release(&ct_command_spawn, &options);
    return code;
}

const struct ct_command ct_command_spawn = {
    .name = "spawn",
    .group = CT_GROUP_RECORD,
    .run = run_spawn,
    .summary = "start a program and record every call it makes",
    .operands = "[--] PROGRAM [ARGUMENTS]",
    .min_operands = 1,
    .max_operands = -1,
    .program = true,
    .description =
        "Starts PROGRAM (looked up in PATH unless it has a slash) and records every call and return of it and of the "
        "libraries it has loaded, from its first constructor on. Everything after PROGRAM belongs to the program. "
        "Standard input and output are those of the program; messages of contrail go to standard error.\n\n"
        "The first Ctrl-C is left to the program, and recording continues to its end; a second one detaches. SIGTERM, "
        "SIGHUP or SIGINT sent to contrail alone, or `contrail detach PID`, detach at once: the program continues at "
        "full speed and contrail waits for it.",
    .options = ct_record_option_table,
    .notes =
        CT_RECORD_TRIGGER_NOTES "\n"
                                "Exit status:\n"
                                "  the program's own; 128 + N when it died of signal N; when it could not be recorded\n"
                                "  64 (wrong usage), 69 (not possible here), 70 (internal error) or 77 (no permission)",
    .examples = "contrail spawn ./prog --its-own-option\n"
                "contrail spawn --output /var/tmp/traces --only 'libsqlite3*' -- sqlite3 test.db .tables\n"
                "contrail spawn --duration 10s --lossless python3 script.py\n"
                "contrail spawn --keep 10m --trigger crash --trigger 'return=handle_*:lt:0' ./server\n"
                "contrail spawn --trigger 'slow=query*:50ms' --pre-roll-ms 200 --post-roll-ms 0 ./server",
};

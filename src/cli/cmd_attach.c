/* SPDX-License-Identifier: Apache-2.0 */
/* contrail attach: records a process that is already running. */
#include "cli/command.h"
#include "cli/config.h"
#include "cli/record.h"

static int run_attach(int argc, char **argv) {
    struct ct_record_options options = CT_RECORD_OPTIONS;
    struct ct_operands operands;
    int pid, code = ct_config_parse(&ct_command_attach, argc, argv, &options, &operands);
    if (code < 0 && !(code = ct_record_check(&options)))
        code = ct_record_parse_pid("attach", operands.at[0], &pid) ? ct_record_run(&options, NULL, pid) : CT_EXIT_USAGE;
    ct_options_release(&ct_command_attach, &options);
    return code;
}

const struct ct_command ct_command_attach = {
    .name = "attach",
    .group = CT_GROUP_RECORD,
    .run = run_attach,
    .summary = "record a running process",
    .operands = "PID",
    .min_operands = 1,
    .max_operands = 1,
    .description =
        "Hooks every function of a running process and of the libraries it has loaded, and records each call and "
        "return. Planning happens while the process runs; it is stopped only while the hooks are inserted (the pause "
        "is printed).\n\n"
        "Ctrl-C, SIGTERM, SIGHUP, `contrail detach PID` or the end of --duration detach: the hooks are removed and "
        "the process continues at full speed.",
    .options = ct_record_option_table,
    .notes =
        CT_RECORD_TRIGGER_NOTES "\nExit status:\n"
                                "  0 when it was detached or the process ended; when it could not be recorded\n"
                                "  64 (wrong usage), 69 (not possible here), 70 (internal error) or 77 (no permission)",
    .examples = "contrail attach 4711\n"
                "contrail attach --duration 5 --exclude 'libc.so*' $(pidof redis-server)\n"
                "contrail attach --trigger 'symbol=abort*' --stack-bytes 256 4711",
};

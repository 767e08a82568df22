/* SPDX-License-Identifier: Apache-2.0 */
/* contrail doctor: reports whether recording will work, and what to do if not. */
#include "cli/command.h"
#include "cli/message.h"
#include "cli/reading.h"
#include "cli/record.h"
#include "doctor/doctor.h"
#include "trace/writer.h" /* JSON */
#include "base/json_write.h"
#include <contrail/status.h>
#include <string.h>

struct doctor_options {
    const char *output;
    bool json;
};
static const struct ct_option option_table[] = {
    {"output", 'o', CT_OPTION_STRING, offsetof(struct doctor_options, output), "DIR", "where traces will be written",
     .initial = "./traces"},
    {"json", 0, CT_OPTION_FLAG, offsetof(struct doctor_options, json), NULL, "print JSON"},
    {0},
};

static const char *const levels[] = {"ok", "warning", "problem"};

static int exit_code(const struct ct_doctor_report *report) {
    return !report->status ? 0 : report->status == CT_ERR_PERMISSION_DENIED ? CT_EXIT_PERMISSION : CT_EXIT_UNAVAILABLE;
}

static void verdict_text(char *text, size_t size, const struct ct_doctor_report *r, int pid) {
    char what[48] = "recording";
    if (pid)
        snprintf(what, sizeof what, "recording process %d", pid);
    if (r->problems)
        snprintf(text, size, "%s will not work: %u problem%s, %u warning%s", what, r->problems,
                 r->problems == 1 ? "" : "s", r->warnings, r->warnings == 1 ? "" : "s");
    else
        snprintf(text, size, "%s will work (%u warning%s)", what, r->warnings, r->warnings == 1 ? "" : "s");
}

static void print_report(const struct ct_doctor_report *r, int pid) {
    static const enum ct_colour colours[] = {CT_COLOUR_GREEN, CT_COLOUR_YELLOW, CT_COLOUR_RED};
    char text[128];
    for (size_t i = 0; i < r->count; i++) {
        const struct ct_doctor_check *check = &r->checks[i];
        printf("%s%-7s%s  %-13s  ", ct_colour(stdout, colours[check->level]), levels[check->level],
               ct_colour(stdout, CT_COLOUR_PLAIN), check->name);
        ct_message_print(stdout, check->text);
        if (check->remedy[0])
            fputs("; ", stdout);
        ct_message_print(stdout, check->remedy);
        putchar('\n');
    }
    verdict_text(text, sizeof text, r, pid);
    puts(text);
}

static int print_json(const struct ct_doctor_report *r, int pid) {
    struct ct_json json = {.lines = true};
    char text[128];
    verdict_text(text, sizeof text, r, pid);
    ct_json_begin(&json, NULL, '{');
    if (pid)
        ct_json_signed(&json, "pid", pid);
    ct_json_bool(&json, "can_record", !r->status);
    ct_json_string(&json, "verdict", text);
    ct_json_number(&json, "warnings", r->warnings);
    ct_json_number(&json, "problems", r->problems);
    ct_json_begin(&json, "checks", '[');
    for (size_t i = 0; i < r->count; i++) {
        ct_json_begin(&json, NULL, '{');
        ct_json_string(&json, "name", r->checks[i].name);
        ct_json_string(&json, "level", levels[r->checks[i].level]);
        ct_json_string(&json, "text", r->checks[i].text);
        ct_json_string(&json, "remedy", r->checks[i].remedy);
        ct_json_end(&json, '}');
    }
    ct_json_end(&json, ']');
    ct_json_end(&json, '}');
    return ct_reading_put_json(&json, 0);
}

static int run_doctor(int argc, char **argv) {
    static struct ct_doctor_facts facts;
    static struct ct_doctor_report report;
    struct doctor_options options = {0};
    struct ct_operands operands;
    int pid = 0, code = ct_options_parse(&ct_command_doctor, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    if (operands.count && !ct_record_parse_pid("doctor", operands.at[0], &pid))
        return CT_EXIT_USAGE;
    ct_doctor_collect(&facts, options.output, pid);
    ct_doctor_judge(&facts, &report);
    int status = 0;
    if (options.json)
        status = print_json(&report, pid);
    else
        print_report(&report, pid);
    code = status ? ct_message_fail(status, NULL) : ct_message_finish();
    return code ? code : exit_code(&report);
}

const struct ct_command ct_command_doctor = {
    .name = "doctor",
    .group = CT_GROUP_LOOK,
    .run = run_doctor,
    .summary = "check whether recording will work, and what to do if not",
    .operands = "[PID]",
    .max_operands = 1,
    .description =
        "Checks this machine (rights, limits, kernel, processor, directories) and, with PID, whether that process can "
        "be recorded. A line for each check: ok, a warning, or a problem with its remedy; the last line is the "
        "verdict.\n\n"
        "Nothing is changed. The process is not stopped.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  0 when recording will work, 77 when rights are missing, 69 when something else is",
    .examples = "contrail doctor\n"
                "contrail doctor 4711\n"
                "contrail doctor --json | jq -r '.checks[] | select(.level != \"ok\") | .remedy'",
};

/* SPDX-License-Identifier: Apache-2.0 */
/* contrail verify: checks a trace and says what is wrong with it. */
#include "cli/command.h"
#include "cli/reading.h"
#include "base/json_write.h"

enum { EXIT_PROBLEMS = 1 };

struct options {
    bool json;
};

struct findings {
    struct ct_printer *printer; /* or ... */
    struct ct_json *json;
    uint64_t problems;
};

static void on_problem(void *arg, const char *sentence) {
    struct findings *f = arg;
    f->problems++;
    if (f->json) {
        ct_json_string(f->json, NULL, sentence);
        return;
    }
    ct_printer_name(f->printer, sentence, 0);
    ct_printer_text(f->printer, "\n");
}

static uint64_t count_events(const struct ct_trace *trace) {
    uint64_t events = 0;
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        events += ct_trace_thread_at(trace, i)->event_count;
    return events;
}

static int verify_json(struct ct_trace *trace, int *result) {
    struct ct_json json = {0};
    struct findings f = {.json = &json};
    ct_json_begin(&json, NULL, '{');
    ct_json_string(&json, "trace", ct_trace_path(trace));
    ct_json_begin(&json, "problems", '[');
    *result = ct_trace_verify(trace, on_problem, &f);
    ct_json_end(&json, ']');
    ct_json_number(&json, "events", count_events(trace));
    ct_json_number(&json, "threads", ct_trace_thread_count(trace));
    ct_json_bool(&json, "ok", *result == 0);
    ct_json_end(&json, '}');
    return ct_reading_print_json(&json, 0);
}

static int verify_text(struct ct_trace *trace, int *result) {
    static struct ct_printer printer;
    struct findings f = {.printer = &printer};
    char events[CT_TEXT_SIZE], threads[CT_TEXT_SIZE];
    ct_printer_open(&printer, false);
    *result = ct_trace_verify(trace, on_problem, &f);
    if (!*result)
        ct_printer_format(&printer, "OK: %s events in %s threads\n", ct_text_count(events, count_events(trace)),
                          ct_text_count(threads, ct_trace_thread_count(trace)));
    else if (*result == CT_ERR_BAD_FILE)
        ct_printer_format(&printer, "%s problem%s\n", ct_text_count(events, f.problems), f.problems == 1 ? "" : "s");
    return ct_printer_close(&printer);
}

static int run_verify(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    struct ct_trace *trace;
    int code = ct_options_parse(&ct_command_verify, argc, argv, &options, &operands);
    if (code < 0)
        code = ct_reading_open_unchecked(&trace, &operands);
    if (code >= 0)
        return code;
    int result;
    code = options.json ? verify_json(trace, &result) : verify_text(trace, &result);
    if (!code && result)
        code = result == CT_ERR_BAD_FILE ? (int)EXIT_PROBLEMS : ct_reading_fail(trace, result);
    ct_trace_close(trace);
    return code;
}

static const struct ct_option option_table[] = {
    {"json", 0, CT_OPTION_FLAG, offsetof(struct options, json), NULL, "print the result as JSON"},
    {0},
};

const struct ct_command ct_command_verify = {
    .name = "verify",
    .group = CT_GROUP_READ,
    .run = run_verify,
    .summary = "check the files of a trace",
    .operands = "[TRACE]",
    .max_operands = 1,
    .description =
        "Checks the structure of all files, their checksums, that time never goes back, that calls and returns "
        "balance, and the counts of the manifest. Events that the manifest reports as lost are not a problem.\n\n"
        "Prints one line for each problem. The last line is \"OK: N events in M threads\", or the number of problems. "
        "TRACE is a session or a pid_N directory; without it, the newest under ./traces.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  0 nothing is wrong, 1 there are problems, 64 usage, 69 there is no such trace\n",
    .examples = "contrail verify\n"
                "contrail verify traces/session_20250102_030405",
};

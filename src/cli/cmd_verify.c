/* SPDX-License-Identifier: Apache-2.0 */
/* contrail verify: checks a trace and says what is wrong with it. */
#include "cli/command.h"
#include "cli/reading.h"
#include "cli/selection.h"
#include "base/json_write.h"
#include "trace/reader.h"

enum { EXIT_PROBLEMS = 1 };

struct options {
    struct ct_selection selection; /* threads and processes only */
    bool json;
};

struct findings {
    struct ct_printer *printer; /* or ... */
    struct ct_json *json;
    uint64_t problems;
    const struct ct_trace *trace;
    const struct ct_select *select;
    uint64_t events, threads; /* of the selected threads */
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

static bool is_wanted(void *arg, size_t thread) {
    const struct findings *f = arg;
    return ct_select_thread(f->select, f->trace, thread);
}

static void count_events(struct findings *f) {
    for (size_t i = 0; i < ct_trace_thread_count(f->trace); i++)
        if (is_wanted(f, i)) {
            f->events += ct_trace_thread_at(f->trace, i)->event_count;
            f->threads++;
        }
}

static int verify_json(struct ct_trace *trace, const struct ct_select *select, int *result) {
    struct ct_json json = {0};
    struct findings f = {.json = &json, .trace = trace, .select = select};
    ct_json_begin(&json, NULL, '{');
    ct_json_string(&json, "trace", ct_trace_path(trace));
    ct_json_begin(&json, "problems", '[');
    *result = ct_trace_verify_some(trace, is_wanted, on_problem, &f);
    ct_json_end(&json, ']');
    count_events(&f);
    ct_json_number(&json, "events", f.events);
    ct_json_number(&json, "threads", f.threads);
    ct_json_bool(&json, "ok", *result == 0);
    ct_json_end(&json, '}');
    return ct_reading_print_json(&json, 0);
}

static int verify_text(struct ct_trace *trace, const struct ct_select *select, int *result) {
    static struct ct_printer printer;
    struct findings f = {.printer = &printer, .trace = trace, .select = select};
    char events[CT_TEXT_SIZE], threads[CT_TEXT_SIZE];
    ct_printer_open(&printer, false);
    *result = ct_trace_verify_some(trace, is_wanted, on_problem, &f);
    count_events(&f);
    if (!*result)
        ct_printer_format(&printer, "OK: %s events in %s threads\n", ct_text_count(events, f.events),
                          ct_text_count(threads, f.threads));
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
    int result = 0;
    struct ct_select select;
    code = ct_selection_apply(&options.selection, trace, NULL, &select);
    if (code < 0)
        code = options.json ? verify_json(trace, &select, &result) : verify_text(trace, &select, &result);
    if (!code && result)
        code = result == CT_ERR_BAD_FILE ? (int)EXIT_PROBLEMS : ct_reading_fail(trace, result);
    ct_trace_close(trace);
    ct_options_release(&ct_command_verify, &options);
    return code;
}

static const struct ct_option option_table[] = {
    CT_OPTION_SELECTED_THREAD(struct options),
    CT_OPTION_PROCESS(struct options),
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
        "TRACE is a session or a pid_N directory; without it, the newest under ./traces.\n\n"
        "With --thread, returns of calls that began in other threads are not checked.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  0 nothing is wrong, 1 there are problems, 64 usage, 69 there is no such trace\n",
    .examples = "contrail verify\n"
                "contrail verify traces/session_20250102_030405",
};

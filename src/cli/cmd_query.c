/* SPDX-License-Identifier: Apache-2.0 */
/* contrail query: asks traces in SQL. */
#include "cli/command.h"
#include "cli/pager.h"
#include "cli/query_prompt.h"
#include "cli/reading.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    struct ct_option_list with, directories;
    uint64_t timeout, memory;
    bool bar, csv, json, ndjson, examples, counters, mangled, allow_damaged;
};

/* What the operands and options name. */
struct question {
    char *traces[CT_QUERY_TRACES + 1]; /* NULL-terminated */
    int trace_count;                   /* 0: the newest */
    const char *sql;                   /* NULL: none was given */
};

/* ---- operands ---- */

static bool is_directory(const char *path) {
    char inside[PATH_MAX];
    int length = snprintf(inside, sizeof inside, "%s/.", path);
    return length > 0 && (size_t)length < sizeof inside && !access(inside, F_OK);
}

/* SQL has spaces, and commands begin with a full stop and a letter; a directory is a trace. */
static bool is_sql(const char *word) {
    bool command = word[0] == '.' && word[1] >= 'a' && word[1] <= 'z';
    return (command || strpbrk(word, " \t\n;(") != NULL) && !is_directory(word);
}

static bool read_operands(const struct options *o, const struct ct_operands *operands, struct question *q) {
    int count = 0;
    *q = (struct question){0};
    for (int i = 0; i < operands->count; i++)
        if (!q->sql && is_sql(operands->at[i]))
            q->sql = operands->at[i];
        else
            operands->at[count++] = operands->at[i];
    if (count > 1 || (size_t)count + o->with.count > CT_QUERY_TRACES) {
        ct_message_error(count > 1 ? "query takes one TRACE and one text of SQL; quote the SQL, and add further traces "
                                     "with --with TRACE"
                                   : "query takes at most 8 traces");
        return false;
    }
    if (count)
        q->traces[q->trace_count++] = operands->at[0];
    else if (o->with.count)
        q->traces[q->trace_count++] = NULL; /* the newest */
    for (size_t i = 0; i < o->with.count; i++)
        q->traces[q->trace_count++] = (char *)o->with.items[i];
    return true;
}

/* ---- traces ---- */

static void report_unfinished(const struct ct_trace *trace) {
    for (size_t i = 0; i < ct_trace_process_count(trace); i++)
        if (!ct_trace_process_at(trace, i)->complete)
            ct_message_error("process %d: the recorder has not finished this trace; the answer is for what it had "
                             "written",
                             ct_trace_process_at(trace, i)->pid);
}

/* Returns -1 to continue, otherwise the exit code, after a message. */
static int open_trace(struct ct_query_run *run, char *path, bool mangled) {
    char *at[] = {path, NULL};
    struct ct_trace *trace;
    int code = ct_reading_open_next(&trace, &(struct ct_operands){.count = path != NULL, .at = at});
    if (code >= 0)
        return code;
    run->traces[run->count++] = trace;
    ct_reading_report_damage(trace);
    ct_reading_report_clock(trace);
    ct_reading_report_sampled(trace);
    report_unfinished(trace);
    if (mangled)
        ct_trace_keep_mangled(trace);
    return -1;
}

static bool has_prompt(const struct question *q) {
    return !q->sql && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static int open_traces(struct ct_query_run *run, const struct question *q, bool mangled) {
    char *named[CT_QUERY_TRACES + 1] = {0};
    int count = 0, code = -1;
    for (int i = 0; i < q->trace_count; i++)
        if (q->traces[i])
            named[count++] = q->traces[i];
    if (has_prompt(q))
        ct_pager_keep();
    ct_reading_drop_rights(&(struct ct_operands){.count = count, .at = named});
    for (int i = 0; i < (q->trace_count ? q->trace_count : 1) && code < 0; i++)
        code = open_trace(run, q->traces[i], mangled);
    return code;
}

static int close_traces(struct ct_query_run *run, int code, bool allow_damaged) {
    for (size_t i = run->count; i-- > 0;)
        code = ct_reading_close(run->traces[i], code, allow_damaged);
    return code;
}

/* ---- the command ---- */

/* Statements from a pipe or a file. */
static char *read_input(void) {
    char *text = NULL;
    size_t size = 0;
    return getdelim(&text, &size, '\0', stdin) >= 0 ? text : (free(text), strdup(""));
}

static int answer(struct ct_query_run *run, const struct options *o, const struct question *q) {
    bool asks = has_prompt(q);
    char *input = q->sql || asks ? NULL : read_input();
    int status = ct_query_run_open(run, o->directories.items, asks), code;
    if (status || (!q->sql && !asks && !input))
        code = ct_message_fail(status ? status : CT_ERR_NO_MEMORY, NULL);
    else
        code = asks ? ct_query_prompt(run) : ct_query_run_text(run, q->sql ? q->sql : input);
    ct_query_run_close(run);
    free(input);
    return code < 0 ? 0 : code;
}

static bool check_forms(const struct options *o) {
    if (o->bar + o->csv + o->json + o->ndjson <= 1)
        return true;
    ct_message_error("--bar, --csv, --json and --ndjson exclude each other; give one of them");
    return false;
}

static int run_query(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    struct question question;
    int code = ct_options_parse(&ct_command_query, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    struct ct_query_run run = {.timeout_ns = options.timeout,
                               .memory = options.memory,
                               .counters = options.counters,
                               .form = options.bar      ? CT_QUERY_BAR
                                       : options.csv    ? CT_QUERY_CSV
                                       : options.json   ? CT_QUERY_JSON
                                       : options.ndjson ? CT_QUERY_NDJSON
                                                        : CT_QUERY_TABLE};
    code = CT_EXIT_USAGE;
    if (options.examples) {
        code = ct_query_print_examples();
    } else if (check_forms(&options) && read_operands(&options, &operands, &question)) {
        code = open_traces(&run, &question, options.mangled);
        if (code < 0)
            code = answer(&run, &options, &question);
        code = close_traces(&run, code, options.allow_damaged);
    }
    ct_options_release(&ct_command_query, &options);
    return code;
}

static const struct ct_option option_table[] = {
    {"with", 0, CT_OPTION_LIST, offsetof(struct options, with), "TRACE",
     "ask this trace too: its tables are b.calls and so on, those of the first a.calls"},
    {"bar", 0, CT_OPTION_FLAG, offsetof(struct options, bar), NULL, "draw bars: the last column is their length"},
    {"csv", 0, CT_OPTION_FLAG, offsetof(struct options, csv), NULL, "print CSV"},
    {"json", 0, CT_OPTION_FLAG, offsetof(struct options, json), NULL, "print JSON, one object for each row"},
    {"ndjson", 0, CT_OPTION_FLAG, offsetof(struct options, ndjson), NULL, "print JSON, one line for each row"},
    {"timeout", 0, CT_OPTION_DURATION, offsetof(struct options, timeout), "TIME",
     "stop a statement that takes longer; 0: never", .initial = "0"},
    {"memory", 0, CT_OPTION_SIZE, offsetof(struct options, memory), "SIZE",
     "memory for sorting and grouping rows; 0: no limit", .initial = "1G"},
    {"examples", 0, CT_OPTION_FLAG, offsetof(struct options, examples), NULL,
     "print twenty questions that people ask, with their SQL"},
    {"counters", 0, CT_OPTION_FLAG, offsetof(struct options, counters), NULL,
     "print how many blocks of the trace were unpacked"},
    {"debug-dir", 0, CT_OPTION_LIST, offsetof(struct options, directories), "DIR",
     "look for binaries and debug files here too, for arguments and results"},
    CT_OPTION_MANGLED(struct options),
    CT_OPTION_ALLOW_DAMAGED(struct options),
    {0},
};

const struct ct_command ct_command_query = {
    .name = "query",
    .group = CT_GROUP_READ,
    .run = run_query,
    .summary = "ask traces in SQL",
    .operands = "[TRACE] [SQL]",
    .max_operands = -1,
    .description =
        "Answers questions in SQL (SQLite's). TRACE is a session or a pid_N directory; without it, the newest under "
        "./traces. SQL is one word of the shell: quote it. Without SQL there is a prompt, with history and completion "
        "where libedit or readline is installed; in a pipe, statements are read from standard input.\n\n"
        "The tables are read from the trace itself, nothing is imported. `contrail query .schema` explains every "
        "table and column; --examples has twenty questions that people ask. Times are nanoseconds since the beginning "
        "of the trace.\n\n"
        "Conditions on id, start, duration, depth, parent, thread, process, function and module of calls are applied "
        "by the reader: with the summaries of large threads it unpacks only blocks that can have such calls. "
        "--counters shows how many these were. functions is what `contrail report` computes, on all processors; "
        "ask it rather than grouping calls.\n\n"
        "Statements can only read: they write nothing, open no files and load no code. Ctrl-C stops a statement.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  0 done, 64 usage or wrong SQL, 65 parts of the trace are missing,\n"
             "  69 there is no such trace, or a limit was reached, 130 stopped by Ctrl-C\n",
    .examples = "contrail query 'SELECT function, calls, total FROM functions ORDER BY total DESC LIMIT 10'\n"
                "contrail query \"SELECT id, start, duration FROM calls WHERE function = 'work' AND duration > 1e6\"\n"
                "contrail query traces/session_20250102_030405 .schema\n"
                "contrail query old --with new \"SELECT b.total - a.total, function FROM a.functions a JOIN "
                "b.functions b USING (function, module)\"",
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The tools: see tools.h. */
#include "mcp/tools.h"
#include "base/closest.h"
#include "trace/reader.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- plans ---- */

static void refuse(struct ct_mcp_plan *plan, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void refuse(struct ct_mcp_plan *plan, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(plan->problem, sizeof plan->problem, format, list);
    va_end(list);
}

void ct_mcp_plan_free(struct ct_mcp_plan *plan) {
    for (size_t i = 0; i < CT_MCP_COMMANDS; i++)
        ct_mcp_words_free(&plan->commands[i]);
    plan->count = 0;
}

/* Begins a command: contrail COMMAND. */
static struct ct_mcp_words *add_command(const struct ct_mcp_options *options, struct ct_mcp_plan *plan,
                                        const char *command) {
    struct ct_mcp_words *words = &plan->commands[plan->count++];
    ct_mcp_word(words, options->program);
    ct_mcp_word(words, command);
    return words;
}

static bool is_directory(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

char *ct_mcp_trace_path(const struct ct_mcp_options *options, const char *name) {
    char *path = NULL;
    if (!*name)
        return ct_find_newest_session(options->directory);
    if (asprintf(&path, "%s/%s", options->directory, name) < 0)
        return NULL;
    if (!is_directory(path)) {
        free(path);
        if (asprintf(&path, "%s%s", *name == '-' ? "./" : "", name) < 0)
            return NULL;
    }
    if (!is_directory(path)) {
        free(path);
        return NULL;
    }
    return path;
}

static const char *text_of(const struct ct_json_node *arguments, const char *name) {
    return ct_json_text(ct_json_get(arguments, name, NULL), "");
}

/* Adds the path of a trace. False: there is none, and the plan says so. */
static bool add_trace(const struct ct_mcp_options *options, struct ct_mcp_plan *plan, struct ct_mcp_words *words,
                      const char *name) {
    char *path = ct_mcp_trace_path(options, name);
    if (path)
        ct_mcp_word(words, path);
    else if (*name)
        refuse(plan, "there is no trace \"%.80s\"; list_traces lists those there are", name);
    else
        refuse(plan, "there is no trace under %.80s yet; record one with `contrail spawn PROGRAM`", options->directory);
    free(path);
    return path;
}

/* ---- tools that are more than one command with options ---- */

/* A text as SQL writes it, into `sql`. */
static void quote(FILE *sql, const char *text) {
    fputc('\'', sql);
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', sql);
        fputc(*text, sql);
    }
    fputc('\'', sql);
}

static void condition(FILE *sql, const char *text) {
    fprintf(sql, " AND %s", text);
}

static void put_find(FILE *sql, const struct ct_json_node *a) {
    static const struct {
        const char *name, *test;
    } texts[] = {
        {"function", "function GLOB "}, {"module", "module GLOB "}, {"ended", "ended = "}, {"error", "error = "}};
    static const struct {
        const char *name, *test;
    } numbers[] = {{"min_duration_ns", "duration >="},
                   {"thread", "thread ="},
                   {"process", "process ="},
                   {"from_ns", "start >="},
                   {"to_ns", "start <="},
                   {"parent", "parent ="}};
    fputs("SELECT id, thread, function, module, start, duration, self, depth, parent, ended, arguments, result, error "
          "FROM calls WHERE 1",
          sql);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*text_of(a, texts[i].name)) {
            condition(sql, texts[i].test);
            quote(sql, text_of(a, texts[i].name));
        }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const struct ct_json_node *value = ct_json_get(a, numbers[i].name, NULL);
        if (value)
            fprintf(sql, " AND %s %lld", numbers[i].test, (long long)ct_json_i64(value, 0));
    }
    if (*text_of(a, "where"))
        fprintf(sql, " AND (%s)", text_of(a, "where"));
    bool by_time = !strcmp(text_of(a, "order"), "start");
    fprintf(sql, " ORDER BY %s LIMIT %llu", by_time ? "start" : "duration DESC",
            (unsigned long long)ct_json_u64(ct_json_get(a, "limit", NULL), 20));
}

static void plan_find_calls(const struct ct_mcp_options *options, const struct ct_json_node *a,
                            struct ct_mcp_plan *plan) {
    char *text = NULL;
    size_t size;
    FILE *sql = open_memstream(&text, &size);
    if (!sql) {
        refuse(plan, "out of memory");
        return;
    }
    put_find(sql, a);
    fclose(sql);
    struct ct_mcp_words *words = add_command(options, plan, "query");
    ct_mcp_word(words, "--json");
    if (add_trace(options, plan, words, text_of(a, "trace")))
        ct_mcp_word(words, text);
    free(text);
}

/* SQL may begin with a comment, which is no option. */
static void plan_sql(const struct ct_mcp_options *options, const struct ct_json_node *a, struct ct_mcp_plan *plan) {
    struct ct_mcp_words *words = add_command(options, plan, "query");
    ct_mcp_word(words, "--json");
    if (*text_of(a, "with")) {
        ct_mcp_word(words, "--with");
        if (!add_trace(options, plan, words, text_of(a, "with")))
            return;
    }
    ct_mcp_word(words, "--");
    if (add_trace(options, plan, words, text_of(a, "trace")))
        ct_mcp_word(words, text_of(a, "sql"));
}

static void plan_source_lines(const struct ct_mcp_options *options, const struct ct_json_node *a,
                              struct ct_mcp_plan *plan) {
    char *text = NULL;
    size_t size;
    FILE *sql = open_memstream(&text, &size);
    if (!sql) {
        refuse(plan, "out of memory");
        return;
    }
    fputs("SELECT function, module, line, calls FROM functions WHERE function GLOB ", sql);
    quote(sql, text_of(a, "function"));
    fputs(" ORDER BY calls DESC LIMIT 50", sql);
    fclose(sql);
    if (options->allow_record) /* it writes into the trace */
        (void)add_trace(options, plan, add_command(options, plan, "symbolize"), text_of(a, "trace"));
    struct ct_mcp_words *words = add_command(options, plan, "query");
    ct_mcp_word(words, "--json");
    if (!*plan->problem && add_trace(options, plan, words, text_of(a, "trace")))
        ct_mcp_word(words, text);
    free(text);
}

/* What happened, then the calls before it. */
static void plan_explain_crash(const struct ct_mcp_options *options, const struct ct_json_node *a,
                               struct ct_mcp_plan *plan) {
    struct ct_mcp_words *words = add_command(options, plan, "info");
    if (!add_trace(options, plan, words, text_of(a, "trace")))
        return;
    words = add_command(options, plan, "replay");
    ct_mcp_word(words, "--args");
    ct_mcp_word(words, "--around");
    ct_mcp_word(words, "crash");
    (void)add_trace(options, plan, words, text_of(a, "trace"));
}

/* The calls in a call, around a moment, or of a part of the time. */
static void plan_call_tree(const struct ct_mcp_options *options, const struct ct_json_node *a,
                           struct ct_mcp_plan *plan) {
    static const struct {
        const char *name, *word;
    } words_of[] = {{"around", "--around"}, {"from", "--from"},   {"to", "--to"},
                    {"thread", "--thread"}, {"where", "--where"}, {"function", "--function"}};
    const struct ct_json_node *call = ct_json_get(a, "call", NULL);
    char text[160];
    if (call) {
        struct ct_mcp_words *words = add_command(options, plan, "query");
        snprintf(text, sizeof text,
                 "SELECT printf('%%.*c', depth, ' ') || function AS call, id, duration, self, arguments, result "
                 "FROM subtree(%lld) ORDER BY id",
                 (long long)ct_json_i64(call, 0));
        if (add_trace(options, plan, words, text_of(a, "trace")))
            ct_mcp_word(words, text);
        return;
    }
    struct ct_mcp_words *words = add_command(options, plan, "replay");
    ct_mcp_word(words, "--args");
    for (size_t i = 0; i < sizeof words_of / sizeof *words_of; i++)
        if (*text_of(a, words_of[i].name)) {
            ct_mcp_word(words, words_of[i].word);
            ct_mcp_word(words, text_of(a, words_of[i].name));
        }
    if (ct_json_get(a, "depth", NULL)) {
        ct_mcp_word(words, "--depth");
        snprintf(text, sizeof text, "%llu", (unsigned long long)ct_json_u64(ct_json_get(a, "depth", NULL), 0));
        ct_mcp_word(words, text);
    }
    (void)add_trace(options, plan, words, text_of(a, "trace"));
}

static void plan_diff(const struct ct_mcp_options *options, const struct ct_json_node *a, struct ct_mcp_plan *plan) {
    struct ct_mcp_words *words = add_command(options, plan, "diff");
    if (add_trace(options, plan, words, text_of(a, "before")))
        (void)add_trace(options, plan, words, text_of(a, "after"));
}

static void plan_record(const struct ct_mcp_options *options, const struct ct_json_node *a, struct ct_mcp_plan *plan) {
    struct ct_mcp_words *words = add_command(options, plan, "spawn");
    const struct ct_json_node *program = ct_json_get(a, "program", NULL);
    ct_mcp_word(words, "--output");
    ct_mcp_word(words, options->directory);
    if (*text_of(a, "trigger")) {
        ct_mcp_word(words, "--trigger");
        ct_mcp_word(words, text_of(a, "trigger"));
    }
    if (*text_of(a, "duration")) {
        ct_mcp_word(words, "--duration");
        ct_mcp_word(words, text_of(a, "duration"));
    }
    ct_mcp_word(words, "--");
    for (const struct ct_json_node *word = ct_json_first(program); word; word = word->next)
        ct_mcp_word(words, ct_json_text(word, ""));
    if (!ct_json_first(program))
        refuse(plan, "\"program\" is a list: the path of a program, then its arguments");
}

/* ---- the table ---- */

#define TRACE                                                                                                          \
    {                                                                                                                  \
        "trace", CT_MCP_STRING, CT_MCP_TRACE, NULL, false,                                                             \
            "path of a trace (session or pid_N directory), or its name in the directory of traces; without it the "    \
            "newest"                                                                                                   \
    }
#define OWN(name, type, text)                                                                                          \
    { name, type, CT_MCP_OWN, NULL, false, text }
#define NEEDED(name, type, text)                                                                                       \
    { name, type, CT_MCP_OWN, NULL, true, text }

static const struct ct_mcp_tool tools[] = {
    {.name = "list_traces",
     .title = "List traces",
     .text =
         "Lists the traces in the directory of traces, the newest first: name, programs, how they ended. Start here.",
     .json = true,
     .tokens = 1000,
     .words = {"list"}},
    {.name = "summarize",
     .title = "What happened",
     .text =
         "What a trace is of and what happened: program, how long, how it ended (exit, signal, crash with its stack), "
         "threads that hung or waited, events and losses. Read this before anything else about a trace.",
     .brief = true,
     .tokens = 500,
     .words = {"info"},
     .parameters = {TRACE}},
    {.name = "functions",
     .title = "Functions by time",
     .text = "Functions by calls and times, as JSON: where the time went. Times are nanoseconds. \"self\" is without "
             "callees.",
     .json = true,
     .tokens = 2000,
     .words = {"report", "--json"},
     .parameters = {TRACE,
                    {"sort", CT_MCP_STRING, CT_MCP_OPTION, "--sort", false,
                     "total, self, calls, avg, max, p50, p95, p99, cpu, blocked, preempted or name"},
                    {"limit", CT_MCP_INTEGER, CT_MCP_OPTION, "--limit", false, "at most this many rows (30)"},
                    {"function", CT_MCP_STRING, CT_MCP_OPTION, "--function", false, "only functions like this GLOB"},
                    {"module", CT_MCP_STRING, CT_MCP_OPTION, "--module", false, "only of modules like this GLOB"},
                    {"thread", CT_MCP_STRING, CT_MCP_OPTION, "--thread", false, "number or name of a thread"},
                    {"from", CT_MCP_STRING, CT_MCP_OPTION, "--from", false, "from this time on: 1.5s, 20ms, -2s"},
                    {"to", CT_MCP_STRING, CT_MCP_OPTION, "--to", false, "up to this time"}}},
    {.name = "call_tree",
     .title = "Calls in their order",
     .text = "Calls in their order, nested, with times, arguments and results: of one call (its id from find_calls), "
             "around a moment (crash, a mark, a time, call=FUNCTION), or of a part of the time.",
     .tokens = 2000,
     .parameters = {TRACE, OWN("call", CT_MCP_INTEGER, "id of a call: it and all calls below it"),
                    OWN("around", CT_MCP_STRING, "crash, mark, mark=N, a time such as 1.5s, or call=FUNCTION"),
                    OWN("from", CT_MCP_STRING, "from this time on: 1.5s, 20ms, or -2s from the end"),
                    OWN("to", CT_MCP_STRING, "up to this time"), OWN("thread", CT_MCP_STRING, "number or name"),
                    OWN("function", CT_MCP_STRING, "only calls of functions like this GLOB, and all below them"),
                    OWN("where", CT_MCP_STRING, "such as: duration > 1ms and result < 0"),
                    OWN("depth", CT_MCP_INTEGER, "only this many levels")},
     .plan = plan_call_tree},
    {.name = "find_calls",
     .title = "Find single calls",
     .text = "Finds single calls, as JSON: the slowest first, or by time. ids go into call_tree (call) and sql.",
     .json = true,
     .tokens = 2000,
     .parameters = {TRACE, OWN("function", CT_MCP_STRING, "name, or GLOB: parse_*"),
                    OWN("module", CT_MCP_STRING, "GLOB"),
                    OWN("min_duration_ns", CT_MCP_INTEGER, "only calls that took at least this long"),
                    OWN("thread", CT_MCP_INTEGER, "threads.id"),
                    OWN("parent", CT_MCP_INTEGER, "id of the call that made them"),
                    OWN("from_ns", CT_MCP_INTEGER, "nanoseconds since the beginning"),
                    OWN("to_ns", CT_MCP_INTEGER, "nanoseconds since the beginning"),
                    OWN("ended", CT_MCP_STRING, "returned, left (exception, longjmp), open, lost, entry"),
                    OWN("where", CT_MCP_STRING, "a further condition in SQL: result LIKE '-1%'"),
                    OWN("order", CT_MCP_STRING, "duration (default) or start"),
                    OWN("limit", CT_MCP_INTEGER, "at most this many (20)")},
     .plan = plan_find_calls},
    {.name = "explain_crash",
     .title = "Explain a crash",
     .text = "Why a program crashed: signal, address, registers and stack, then the last calls before it with their "
             "arguments.",
     .brief = true,
     .tokens = 2000,
     .parameters = {TRACE},
     .plan = plan_explain_crash},
    {.name = "diff",
     .title = "Compare two traces",
     .text = "What differs between two traces: functions that became slower or faster, are new or gone, and where the "
             "main threads diverge.",
     .tokens = 1500,
     .parameters = {NEEDED("before", CT_MCP_STRING, "a trace"), NEEDED("after", CT_MCP_STRING, "another trace")},
     .plan = plan_diff},
    {.name = "sql",
     .title = "Ask in SQL",
     .text =
         "Answers a question in SQLite's SQL, as JSON. Tables: calls, events, functions, edges, threads, processes, "
         "modules, lines, marks, windows, signals, losses, blocks; functions stack_at(thread, time), subtree(call), "
         "callers(call), histogram(function). \".schema\" as the question explains all columns. Times are "
         "nanoseconds since the beginning.",
     .json = true,
     .tokens = 2000,
     .parameters = {TRACE, NEEDED("sql", CT_MCP_STRING, "one SELECT, or .schema"),
                    OWN("with", CT_MCP_STRING, "a second trace: tables are a.calls and b.calls then")},
     .plan = plan_sql},
    {.name = "source_lines",
     .title = "Where functions are in the source",
     .text = "File and line of functions, as JSON. null: `contrail symbolize TRACE` has not looked yet, which a server "
             "with --allow-record does by itself, or there is no debug information.",
     .json = true,
     .tokens = 1000,
     .parameters = {TRACE, NEEDED("function", CT_MCP_STRING, "name, or GLOB")},
     .plan = plan_source_lines},
    {.name = "record",
     .title = "Record a program",
     .text = "Starts a program and records it until it ends.",
     .records = true,
     .tokens = 1000,
     .parameters = {NEEDED("program", CT_MCP_STRINGS, "the path of the program, then its arguments"),
                    OWN("trigger", CT_MCP_STRING,
                        "keep detail around this: crash, return=handle_*:lt:0, slow=query*:50ms"),
                    OWN("duration", CT_MCP_STRING, "stop recording after this time: 10s")},
     .plan = plan_record},
    {.name = "attach",
     .title = "Record a running process",
     .text = "Records a running process for a time, then leaves it as it was.",
     .records = true,
     .tokens = 1000,
     .words = {"attach"},
     .parameters = {{"duration", CT_MCP_STRING, CT_MCP_OPTION, "--duration", true, "how long: 5s"},
                    {"trigger", CT_MCP_STRING, CT_MCP_OPTION, "--trigger", false, "keep detail around this"},
                    {"pid", CT_MCP_INTEGER, CT_MCP_OPERAND, NULL, true, "number of the process"}}},
    {.name = "mark",
     .title = "Mark this moment",
     .text = "Marks this moment in a recording that is going on: detail around it is kept.",
     .records = true,
     .tokens = 500,
     .words = {"ctl"},
     .parameters = {{"label", CT_MCP_STRING, CT_MCP_OPTION, "--label", false, "what the mark is for"},
                    {"pid", CT_MCP_INTEGER, CT_MCP_OPERAND, NULL, true, "number of the recorded process"},
                    {"", CT_MCP_STRING, CT_MCP_OPERAND, "mark", false, NULL}}},
    {.name = "detach",
     .title = "End a recording",
     .text = "Ends the recording of a process, which goes on at full speed.",
     .records = true,
     .tokens = 500,
     .words = {"detach"},
     .parameters = {{"pid", CT_MCP_INTEGER, CT_MCP_OPERAND, NULL, true, "number of the recorded process"}}},
};
enum { TOOLS = sizeof tools / sizeof *tools };

const struct ct_mcp_tool *ct_mcp_tool_at(size_t index) {
    return index < TOOLS ? &tools[index] : NULL;
}

const struct ct_mcp_tool *ct_mcp_tool_find(const char *name) {
    for (size_t i = 0; i < TOOLS; i++)
        if (!strcmp(tools[i].name, name))
            return &tools[i];
    return NULL;
}

/* ---- descriptions ---- */

static void describe_parameter(const char *name, enum ct_mcp_type type, const char *text, struct ct_json *json) {
    static const char *const types[] = {"string", "integer", "boolean", "array"};
    ct_json_begin(json, name, '{');
    ct_json_string(json, "type", types[type]);
    if (type == CT_MCP_STRINGS) {
        ct_json_begin(json, "items", '{');
        ct_json_string(json, "type", "string");
        ct_json_end(json, '}');
    }
    ct_json_string(json, "description", text);
    ct_json_end(json, '}');
}

static void describe_input(const struct ct_mcp_tool *tool, struct ct_json *json) {
    ct_json_begin(json, "inputSchema", '{');
    ct_json_string(json, "type", "object");
    ct_json_begin(json, "properties", '{');
    for (const struct ct_mcp_parameter *p = tool->parameters; p < tool->parameters + CT_MCP_PARAMETERS && p->name; p++)
        if (*p->name)
            describe_parameter(p->name, p->type, p->text, json);
    describe_parameter("tokens", CT_MCP_INTEGER, "about how long a page of the answer may be", json);
    describe_parameter("page", CT_MCP_INTEGER, "which page of a longer answer, from 1 on", json);
    ct_json_end(json, '}');
    ct_json_begin(json, "required", '[');
    for (const struct ct_mcp_parameter *p = tool->parameters; p < tool->parameters + CT_MCP_PARAMETERS && p->name; p++)
        if (p->required)
            ct_json_string(json, NULL, p->name);
    ct_json_end(json, ']');
    ct_json_bool(json, "additionalProperties", false);
    ct_json_end(json, '}');
}

static void describe_output(const struct ct_mcp_tool *tool, struct ct_json *json) {
    ct_json_begin(json, "outputSchema", '{');
    ct_json_string(json, "type", "object");
    ct_json_begin(json, "properties", '{');
    describe_parameter("command", CT_MCP_STRING, "the command line that gives this answer", json);
    describe_parameter("exit", CT_MCP_INTEGER, "its exit status", json);
    describe_parameter("page", CT_MCP_INTEGER, "this page", json);
    describe_parameter("pages", CT_MCP_INTEGER, "how many there are", json);
    if (tool->json) {
        ct_json_begin(json, "data", '{');
        ct_json_string(json, "description", "what the command has printed, when all of it fits into the page");
        ct_json_end(json, '}');
    }
    ct_json_end(json, '}');
    ct_json_begin(json, "required", '[');
    ct_json_string(json, NULL, "command");
    ct_json_string(json, NULL, "exit");
    ct_json_end(json, ']');
    ct_json_end(json, '}');
}

void ct_mcp_tool_describe(const struct ct_mcp_tool *tool, struct ct_json *json) {
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "name", tool->name);
    ct_json_string(json, "title", tool->title);
    ct_json_string(json, "description", tool->text);
    describe_input(tool, json);
    describe_output(tool, json);
    ct_json_begin(json, "annotations", '{');
    ct_json_bool(json, "readOnlyHint", !tool->records);
    ct_json_bool(json, "destructiveHint", false);
    ct_json_bool(json, "openWorldHint", false);
    ct_json_end(json, '}');
    ct_json_end(json, '}');
}

/* ---- arguments ---- */

static const struct ct_mcp_parameter *parameter_of(const struct ct_mcp_tool *tool, const char *name) {
    for (size_t i = 0; i < CT_MCP_PARAMETERS && tool->parameters[i].name; i++)
        if (!strcmp(tool->parameters[i].name, name))
            return &tool->parameters[i];
    return NULL;
}

static const char *parameter_name(const void *arg, size_t i) {
    const struct ct_mcp_tool *tool = arg;
    return tool->parameters[i].name;
}

static size_t parameter_count(const struct ct_mcp_tool *tool) {
    size_t n = 0;
    while (n < CT_MCP_PARAMETERS && tool->parameters[n].name)
        n++;
    return n;
}

static bool has_type(const struct ct_json_node *value, enum ct_mcp_type type) {
    switch (type) {
    case CT_MCP_INTEGER:
        return value->type == CT_JSON_NUMBER && value->integer;
    case CT_MCP_BOOLEAN:
        return value->type == CT_JSON_BOOL;
    case CT_MCP_STRINGS:
        return value->type == CT_JSON_ARRAY;
    default:
        return value->type == CT_JSON_STRING && strlen(value->text) == value->count;
    }
}

static bool check_value(const struct ct_mcp_tool *tool, const struct ct_json_node *value, struct ct_mcp_plan *plan) {
    static const char *const types[] = {"a text", "a whole number", "true or false", "a list of texts"};
    const struct ct_mcp_parameter *p = parameter_of(tool, value->key);
    enum ct_mcp_type type = CT_MCP_INTEGER;
    if (p) {
        type = p->type;
    } else if (strcmp(value->key, "tokens") != 0 && strcmp(value->key, "page") != 0) {
        const char *close = ct_closest_name(value->key, parameter_name, tool, parameter_count(tool));
        refuse(plan, "%s takes no \"%.40s\"%s%s%s", tool->name, value->key, close ? "; did you mean \"" : "",
               close ? close : "", close ? "\"?" : "");
        return false;
    }
    if (!has_type(value, type))
        refuse(plan, "\"%.40s\" must be %s", value->key, types[type]);
    return !*plan->problem;
}

static bool check_arguments(const struct ct_mcp_tool *tool, const struct ct_json_node *a, struct ct_mcp_plan *plan) {
    for (const struct ct_json_node *value = ct_json_first(a); value; value = value->next)
        if (!check_value(tool, value, plan))
            return false;
    for (size_t i = 0; i < parameter_count(tool); i++)
        if (tool->parameters[i].required && !ct_json_get(a, tool->parameters[i].name, NULL)) {
            refuse(plan, "%s needs \"%s\": %s", tool->name, tool->parameters[i].name, tool->parameters[i].text);
            return false;
        }
    return true;
}

/* ---- commands ---- */

/* A text as an option's value is joined to it, so that it is never taken for an option. */
static void add_value(struct ct_mcp_words *words, const char *option, const struct ct_json_node *value) {
    char text[32], *joined = NULL;
    const char *said = text;
    if (value->type == CT_JSON_STRING)
        said = value->text;
    else
        snprintf(text, sizeof text, "%lld", (long long)ct_json_i64(value, 0));
    if (!option)
        ct_mcp_word(words, said);
    else if (asprintf(&joined, "%s=%s", option, said) >= 0)
        ct_mcp_word(words, joined);
    else
        words->failed = true;
    free(joined);
}

static void add_parameter(const struct ct_mcp_options *options, struct ct_mcp_plan *plan, struct ct_mcp_words *words,
                          const struct ct_mcp_parameter *p, const struct ct_json_node *a) {
    const struct ct_json_node *value = *p->name ? ct_json_get(a, p->name, NULL) : NULL;
    if (p->use == CT_MCP_TRACE)
        (void)add_trace(options, plan, words, ct_json_text(value, ""));
    else if (!*p->name)
        ct_mcp_word(words, p->word);
    else if (value)
        add_value(words, p->use == CT_MCP_OPTION ? p->word : NULL, value);
}

static void plan_words(const struct ct_mcp_tool *tool, const struct ct_mcp_options *options,
                       const struct ct_json_node *a, struct ct_mcp_plan *plan) {
    struct ct_mcp_words *words = add_command(options, plan, tool->words[0]);
    for (size_t i = 1; tool->words[i]; i++)
        ct_mcp_word(words, tool->words[i]);
    if (!strcmp(tool->words[0], "attach")) {
        ct_mcp_word(words, "--output");
        ct_mcp_word(words, options->directory);
    }
    for (int operands = 0; operands < 2; operands++)
        for (size_t i = 0; i < parameter_count(tool); i++)
            if ((tool->parameters[i].use != CT_MCP_OPTION) == operands)
                add_parameter(options, plan, words, &tool->parameters[i], a);
}

void ct_mcp_tool_plan(const struct ct_mcp_tool *tool, const struct ct_mcp_options *options,
                      const struct ct_json_node *a, struct ct_mcp_plan *plan) {
    *plan = (struct ct_mcp_plan){0};
    if (tool->records && !options->allow_record) {
        refuse(plan, "%s changes recordings; start the server with `contrail mcp --allow-record` to allow that",
               tool->name);
        return;
    }
    if (!check_arguments(tool, a, plan))
        return;
    if (tool->plan)
        tool->plan(options, a, plan);
    else
        plan_words(tool, options, a, plan);
}

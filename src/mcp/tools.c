/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tools, and their descriptions: see tools.h. */
#include "mcp/tools.h"
#include "mcp/tool_plans.h"
#include <string.h>

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
     .plan = ct_mcp_plan_call_tree},
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
     .plan = ct_mcp_plan_find_calls},
    {.name = "explain_crash",
     .title = "Explain a crash",
     .text = "Why a program crashed: signal, address, registers and stack, then the last calls before it with their "
             "arguments.",
     .brief = true,
     .tokens = 2000,
     .parameters = {TRACE},
     .plan = ct_mcp_plan_explain_crash},
    {.name = "diff",
     .title = "Compare two traces",
     .text = "What differs between two traces: functions that became slower or faster, are new or gone, and where the "
             "main threads diverge.",
     .tokens = 1500,
     .parameters = {NEEDED("before", CT_MCP_STRING, "a trace"), NEEDED("after", CT_MCP_STRING, "another trace")},
     .plan = ct_mcp_plan_diff},
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
     .plan = ct_mcp_plan_sql},
    {.name = "source_lines",
     .title = "Where functions are in the source",
     .text = "File and line of functions, as JSON. null: `contrail symbolize TRACE` has not looked yet, which a server "
             "with --allow-record does by itself, or there is no debug information.",
     .json = true,
     .tokens = 1000,
     .parameters = {TRACE, NEEDED("function", CT_MCP_STRING, "name, or GLOB")},
     .plan = ct_mcp_plan_source_lines},
    {.name = "record",
     .title = "Record a program",
     .text = "Starts a program and records it until it ends.",
     .records = true,
     .tokens = 1000,
     .parameters = {NEEDED("program", CT_MCP_STRINGS, "the path of the program, then its arguments"),
                    OWN("trigger", CT_MCP_STRING,
                        "keep detail around this: crash, return=handle_*:lt:0, slow=query*:50ms"),
                    OWN("duration", CT_MCP_STRING, "stop recording after this time: 10s")},
     .plan = ct_mcp_plan_record},
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

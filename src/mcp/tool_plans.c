/* SPDX-License-Identifier: Apache-2.0 */
/* Tools whose commands are more than their words and options: see tool_plans.h. */
#include "mcp/tool_plans.h"
#include "trace/reader.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- what all plans use ---- */

void ct_mcp_refuse(struct ct_mcp_plan *plan, const char *format, ...) {
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

struct ct_mcp_words *ct_mcp_add_command(const struct ct_mcp_options *options, struct ct_mcp_plan *plan,
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

bool ct_mcp_add_trace(const struct ct_mcp_options *options, struct ct_mcp_plan *plan, struct ct_mcp_words *words,
                      const char *name) {
    char *path = ct_mcp_trace_path(options, name);
    if (path)
        ct_mcp_word(words, path);
    else if (*name)
        ct_mcp_refuse(plan, "there is no trace \"%.80s\"; list_traces lists those there are", name);
    else
        ct_mcp_refuse(plan, "there is no trace under %.80s yet; record one with `contrail spawn PROGRAM`",
                      options->directory);
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

void ct_mcp_plan_find_calls(const struct ct_mcp_options *options, const struct ct_json_node *a,
                            struct ct_mcp_plan *plan) {
    char *text = NULL;
    size_t size;
    FILE *sql = open_memstream(&text, &size);
    if (!sql) {
        ct_mcp_refuse(plan, "out of memory");
        return;
    }
    put_find(sql, a);
    fclose(sql);
    struct ct_mcp_words *words = ct_mcp_add_command(options, plan, "query");
    ct_mcp_word(words, "--json");
    if (ct_mcp_add_trace(options, plan, words, text_of(a, "trace")))
        ct_mcp_word(words, text);
    free(text);
}

/* SQL may begin with a comment, which is no option. */
void ct_mcp_plan_sql(const struct ct_mcp_options *options, const struct ct_json_node *a, struct ct_mcp_plan *plan) {
    struct ct_mcp_words *words = ct_mcp_add_command(options, plan, "query");
    ct_mcp_word(words, "--json");
    if (*text_of(a, "with")) {
        ct_mcp_word(words, "--with");
        if (!ct_mcp_add_trace(options, plan, words, text_of(a, "with")))
            return;
    }
    ct_mcp_word(words, "--");
    if (ct_mcp_add_trace(options, plan, words, text_of(a, "trace")))
        ct_mcp_word(words, text_of(a, "sql"));
}

void ct_mcp_plan_source_lines(const struct ct_mcp_options *options, const struct ct_json_node *a,
                              struct ct_mcp_plan *plan) {
    char *text = NULL;
    size_t size;
    FILE *sql = open_memstream(&text, &size);
    if (!sql) {
        ct_mcp_refuse(plan, "out of memory");
        return;
    }
    fputs("SELECT function, module, line, calls FROM functions WHERE function GLOB ", sql);
    quote(sql, text_of(a, "function"));
    fputs(" ORDER BY calls DESC LIMIT 50", sql);
    fclose(sql);
    if (options->allow_record) /* it writes into the trace */
        (void)ct_mcp_add_trace(options, plan, ct_mcp_add_command(options, plan, "symbolize"), text_of(a, "trace"));
    struct ct_mcp_words *words = ct_mcp_add_command(options, plan, "query");
    ct_mcp_word(words, "--json");
    if (!*plan->problem && ct_mcp_add_trace(options, plan, words, text_of(a, "trace")))
        ct_mcp_word(words, text);
    free(text);
}

/* What happened, then the calls before it. */
void ct_mcp_plan_explain_crash(const struct ct_mcp_options *options, const struct ct_json_node *a,
                               struct ct_mcp_plan *plan) {
    struct ct_mcp_words *words = ct_mcp_add_command(options, plan, "info");
    if (!ct_mcp_add_trace(options, plan, words, text_of(a, "trace")))
        return;
    words = ct_mcp_add_command(options, plan, "replay");
    ct_mcp_word(words, "--args");
    ct_mcp_word(words, "--around");
    ct_mcp_word(words, "crash");
    (void)ct_mcp_add_trace(options, plan, words, text_of(a, "trace"));
}

/* The calls in a call, around a moment, or of a part of the time. */
void ct_mcp_plan_call_tree(const struct ct_mcp_options *options, const struct ct_json_node *a,
                           struct ct_mcp_plan *plan) {
    static const struct {
        const char *name, *word;
    } words_of[] = {{"around", "--around"}, {"from", "--from"},   {"to", "--to"},
                    {"thread", "--thread"}, {"where", "--where"}, {"function", "--function"}};
    const struct ct_json_node *call = ct_json_get(a, "call", NULL);
    char text[160];
    if (call) {
        struct ct_mcp_words *words = ct_mcp_add_command(options, plan, "query");
        snprintf(text, sizeof text,
                 "SELECT printf('%%.*c', depth, ' ') || function AS call, id, duration, self, arguments, result "
                 "FROM subtree(%lld) ORDER BY id",
                 (long long)ct_json_i64(call, 0));
        if (ct_mcp_add_trace(options, plan, words, text_of(a, "trace")))
            ct_mcp_word(words, text);
        return;
    }
    struct ct_mcp_words *words = ct_mcp_add_command(options, plan, "replay");
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
    (void)ct_mcp_add_trace(options, plan, words, text_of(a, "trace"));
}

void ct_mcp_plan_diff(const struct ct_mcp_options *options, const struct ct_json_node *a, struct ct_mcp_plan *plan) {
    struct ct_mcp_words *words = ct_mcp_add_command(options, plan, "diff");
    if (ct_mcp_add_trace(options, plan, words, text_of(a, "before")))
        (void)ct_mcp_add_trace(options, plan, words, text_of(a, "after"));
}

void ct_mcp_plan_record(const struct ct_mcp_options *options, const struct ct_json_node *a, struct ct_mcp_plan *plan) {
    struct ct_mcp_words *words = ct_mcp_add_command(options, plan, "spawn");
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
        ct_mcp_refuse(plan, "\"program\" is a list: the path of a program, then its arguments");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of tools: runs their commands, one after the other, and joins what they print. */
#include "mcp/server.h"
#include "mcp/traces.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DAMAGED = 65 }; /* exit status of commands that have read what can be read */

void ct_mcp_result_free(struct ct_mcp_result *r) {
    ct_json_tree_free(r->tree);
    free(r->text);
    free(r->command);
}

/* The first lines of what a command complains about. */
static void explain(struct ct_mcp_result *r, const struct ct_mcp_run *run) {
    const char *text = run->error_length ? run->error : run->out;
    if (run->timed_out)
        snprintf(r->problem, sizeof r->problem,
                 "it took longer than %u s and was ended; ask for less (--from, --to, "
                 "limit), or start the server with a longer --timeout",
                 run->timeout_s);
    else if (run->exit > 128)
        snprintf(r->problem, sizeof r->problem, "the command ended by signal %d: %.300s", run->exit - 128, text);
    else
        snprintf(r->problem, sizeof r->problem, "%.*s", (int)sizeof r->problem - 1,
                 *text ? text : "the command failed");
}

static void append(char **to, size_t *length, const char *text, size_t size) {
    char *more = realloc(*to, *length + size + 2);
    if (!more)
        return;
    memcpy(more + *length, text, size);
    *length += size;
    more[*length] = 0;
    *to = more;
}

static void add_command(struct ct_mcp_result *r, const struct ct_mcp_words *words) {
    char *text = ct_mcp_words_text(words);
    size_t length = r->command ? strlen(r->command) : 0;
    if (text && length)
        append(&r->command, &length, "; ", 2);
    if (text)
        append(&r->command, &length, text, strlen(text));
    free(text);
}

/* ---- what is about the recorder itself ---- */

static bool begins(const char *line, const char *const *words) {
    for (; *words; words++)
        if (!strncmp(line, *words, strlen(*words)))
            return true;
    return false;
}

/* Leaves out lines and sections of `contrail info` that explain nothing about the program. */
static void make_brief(char *text, size_t *length) {
    static const char *const lines[] = {"Latency ", "Writing ", "Start ", "Memory ", "Size ", "Waited ", NULL};
    static const char *const sections[] = {"Modules (",         "Functions not hooked", "Not functions",
                                           "Code of no module", "Windows of detail",    NULL};
    char *to = text;
    bool skipped = false;
    for (char *line = text, *end; *line; line = end) {
        end = strchrnul(line, '\n');
        end += *end != 0;
        bool blank = *line == '\n';
        skipped = begins(line, sections) || (skipped && !blank);
        if (skipped || begins(line, lines) || (blank && to > text + 1 && to[-1] == '\n' && to[-2] == '\n'))
            continue;
        memmove(to, line, (size_t)(end - line));
        to += end - line;
    }
    *to = 0;
    *length = (size_t)(to - text);
}

/* Forgets what the command before has printed. */
static void reset(struct ct_mcp_run *run) {
    free(run->out);
    free(run->error);
    run->out = run->error = NULL;
    run->out_length = run->error_length = 0;
}

/* False: the next command has no use. */
static bool run_command(struct ct_mcp_call *call, const struct ct_mcp_words *words, bool last,
                        struct ct_mcp_result *r) {
    struct ct_mcp_run *run = &call->run;
    reset(run);
    int status = ct_mcp_run(run, words);
    if (status) {
        snprintf(r->problem, sizeof r->problem, "the command could not be started: %s", ct_status_text(status));
        return false;
    }
    r->exit = run->exit;
    bool failed = run->exit != 0 && run->exit != DAMAGED && !call->tool->records;
    if (failed && last) {
        explain(r, run);
        return false;
    }
    if (call->tool->json && !last)
        return true; /* it only prepares */
    add_command(r, words);
    if (call->tool->brief)
        make_brief(run->out, &run->out_length);
    append(&r->text, &r->length, run->out, run->out_length);
    if (run->error_length && !call->tool->json)
        append(&r->text, &r->length, run->error, run->error_length);
    r->cut |= run->cut;
    return true;
}

void ct_mcp_call_run(struct ct_mcp_server *s, struct ct_mcp_call *call, struct ct_mcp_result *r) {
    struct ct_mcp_plan plan;
    *r = (struct ct_mcp_result){0};
    if (!strcmp(call->tool->name, "list_traces")) {
        ct_mcp_list_traces(&s->options, &call->run, r);
    } else {
        ct_mcp_tool_plan(call->tool, &s->options, call->arguments, &plan);
        if (*plan.problem)
            snprintf(r->problem, sizeof r->problem, "%s", plan.problem);
        for (size_t i = 0; i < plan.count && !*r->problem; i++)
            if (!run_command(call, &plan.commands[i], i + 1 == plan.count, r))
                break;
        ct_mcp_plan_free(&plan);
    }
    if (!*r->problem && (!r->command || (!r->text && !(r->text = calloc(1, 1)))))
        snprintf(r->problem, sizeof r->problem, "out of memory");
    if (!*r->problem && call->tool->json && ct_json_parse(&r->tree, r->text, r->length, NULL) == 0)
        r->data = ct_json_root(r->tree);
}

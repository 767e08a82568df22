/* SPDX-License-Identifier: Apache-2.0 */
/* The traces of a directory: see traces.h. */
#include "mcp/traces.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LISTED = 20, DAMAGED = 65 };
#define SCHEME "contrail://trace/"
#define PREFIX "session_"

static int by_name_down(const struct dirent **a, const struct dirent **b) {
    return strcmp((*b)->d_name, (*a)->d_name);
}

static int is_session(const struct dirent *entry) {
    return !strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1);
}

/* The newest first: names are their times. -1: the directory cannot be read. */
static int find_sessions(const struct ct_mcp_options *options, struct dirent ***list) {
    return scandir(options->directory, list, is_session, by_name_down);
}

static void free_sessions(struct dirent **list, int count) {
    for (int i = 0; i < count; i++)
        free(list[i]);
    if (count >= 0)
        free(list);
}

/* ---- the tool ---- */

/* Processes of a session, as rows. */
static void put_session(const struct ct_mcp_options *options, struct ct_mcp_run *run, const char *name,
                        struct ct_json *json) {
    struct ct_mcp_words words = {0};
    struct ct_json_tree *tree = NULL;
    char *path = ct_mcp_trace_path(options, name);
    const char *const command[] = {options->program, "query", "--json", path ? path : "",
                                   "SELECT pid, program, command, ended, threads, events FROM processes ORDER BY id"};
    for (size_t i = 0; i < sizeof command / sizeof *command; i++)
        ct_mcp_word(&words, command[i]);
    free(run->out);
    free(run->error);
    run->out = run->error = NULL;
    run->out_length = run->error_length = 0;
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "trace", name);
    if (path && ct_mcp_run(run, &words) == 0 && (run->exit == 0 || run->exit == DAMAGED) &&
        ct_json_parse(&tree, run->out, run->out_length, NULL) == 0)
        ct_json_node_put(json, "processes", ct_json_root(tree));
    else
        ct_json_string(json, "problem", run->error_length ? run->error : "it cannot be read");
    if (run->exit == DAMAGED)
        ct_json_string(json, "problem", "parts of it are missing");
    ct_json_end(json, '}');
    ct_json_tree_free(tree);
    ct_mcp_words_free(&words);
    free(path);
}

void ct_mcp_list_traces(const struct ct_mcp_options *options, struct ct_mcp_run *run, struct ct_mcp_result *r) {
    struct dirent **list = NULL;
    struct ct_json json = {0};
    int count = find_sessions(options, &list);
    ct_json_begin(&json, NULL, '{');
    ct_json_string(&json, "directory", options->directory);
    ct_json_begin(&json, "traces", '[');
    for (int i = 0; i < count && i < MOST_LISTED && !run->cancelled; i++)
        put_session(options, run, list[i]->d_name, &json);
    ct_json_end(&json, ']');
    if (count > MOST_LISTED)
        ct_json_number(&json, "older", (uint64_t)(count - MOST_LISTED));
    if (count <= 0)
        ct_json_string(&json, "next", "there are none; record one with `contrail spawn PROGRAM`");
    ct_json_end(&json, '}');
    free_sessions(list, count);
    run->exit = 0;
    r->text = json.text;
    r->length = json.length;
    if (json.failed)
        snprintf(r->problem, sizeof r->problem, "out of memory");
    if (asprintf(&r->command, "ls -r %s", options->directory) < 0)
        r->command = NULL;
}

/* ---- resources ---- */

void ct_mcp_list_resources(const struct ct_mcp_options *options, struct ct_json *json) {
    struct dirent **list = NULL;
    char uri[512];
    int count = find_sessions(options, &list);
    for (int i = 0; i < count && i < MOST_LISTED; i++) {
        snprintf(uri, sizeof uri, SCHEME "%s", list[i]->d_name);
        ct_json_begin(json, NULL, '{');
        ct_json_string(json, "uri", uri);
        ct_json_string(json, "name", list[i]->d_name);
        ct_json_string(json, "description", "what the trace is of, and what happened");
        ct_json_string(json, "mimeType", "text/plain");
        ct_json_end(json, '}');
    }
    free_sessions(list, count);
}

void ct_mcp_list_templates(const struct ct_mcp_options *options, struct ct_json *json) {
    (void)options;
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "uriTemplate", SCHEME "{name}");
    ct_json_string(json, "name", "trace");
    ct_json_string(json, "description", "what a trace is of, and what happened; names are those of list_traces");
    ct_json_string(json, "mimeType", "text/plain");
    ct_json_end(json, '}');
}

bool ct_mcp_read_resource(const struct ct_mcp_options *options, const struct ct_json_node *params, struct ct_json *json,
                          char *problem, size_t size) {
    const char *uri = ct_json_text(ct_json_get(params, "uri", NULL), "");
    bool ours = !strncmp(uri, SCHEME, sizeof SCHEME - 1) && !strchr(uri + sizeof SCHEME - 1, '/');
    char *path = ours ? ct_mcp_trace_path(options, uri + sizeof SCHEME - 1) : NULL;
    struct ct_mcp_words words = {0};
    struct ct_mcp_run run;
    if (!path) {
        snprintf(problem, size, "there is no resource \"%.100s\"; resources/list lists them", uri);
        return false;
    }
    ct_mcp_word(&words, options->program);
    ct_mcp_word(&words, "info");
    ct_mcp_word(&words, path);
    ct_mcp_run_init(&run);
    run.timeout_s = options->timeout_s;
    bool read = ct_mcp_run(&run, &words) == 0 && (run.exit == 0 || run.exit == DAMAGED);
    if (read) {
        ct_json_begin(json, "contents", '[');
        ct_json_begin(json, NULL, '{');
        ct_json_string(json, "uri", uri);
        ct_json_string(json, "mimeType", "text/plain");
        ct_json_string(json, "text", run.out);
        ct_json_end(json, '}');
        ct_json_end(json, ']');
    } else {
        snprintf(problem, size, "%.180s", run.error_length ? run.error : "the trace cannot be read");
    }
    ct_mcp_run_free(&run);
    ct_mcp_words_free(&words);
    free(path);
    return read;
}

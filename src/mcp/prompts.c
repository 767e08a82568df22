/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts for the common investigations: see prompts.h. */
#include "mcp/prompts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct prompt {
    const char *name, *title, *text;
    const char *ask; /* %s: the trace */
} prompts[] = {
    {"crash", "Why did it crash?", "finds the call that made a program crash",
     "The program of the trace %s has crashed. Use explain_crash, find the function that made the bad value (follow it "
     "up through the callers and back through earlier calls with find_calls and call_tree), and say which call is "
     "guilty and what to change. Name the evidence: ids of calls, arguments, results."},
    {"slow", "Why is it slow?", "finds where the time went",
     "Find out why the program of the trace %s is slow. Use summarize and functions (sorted by self, then by total), "
     "look at the slowest calls of the functions that matter with find_calls and call_tree, and say what takes the "
     "time: computing, waiting for a lock, input and output, or too many calls."},
    {"hang", "Why does it hang?", "finds what threads wait for",
     "The program of the trace %s hangs. Use summarize, which lists threads that did nothing for long and what they "
     "are "
     "in. For a deadlock say which thread holds what the other wants. Use sql with stack_at for the stacks."},
    {"compare", "What changed?", "compares two traces",
     "Compare the traces %s and the one before it (list_traces). Use diff, and say which functions became slower or "
     "faster, by how much, and where the two runs diverge."},
};
enum { PROMPTS = sizeof prompts / sizeof *prompts };

void ct_mcp_list_prompts(const struct ct_mcp_options *options, struct ct_json *json) {
    (void)options;
    for (size_t i = 0; i < PROMPTS; i++) {
        ct_json_begin(json, NULL, '{');
        ct_json_string(json, "name", prompts[i].name);
        ct_json_string(json, "title", prompts[i].title);
        ct_json_string(json, "description", prompts[i].text);
        ct_json_begin(json, "arguments", '[');
        ct_json_begin(json, NULL, '{');
        ct_json_string(json, "name", "trace");
        ct_json_string(json, "description", "name of a trace; without it the newest");
        ct_json_bool(json, "required", false);
        ct_json_end(json, '}');
        ct_json_end(json, ']');
        ct_json_end(json, '}');
    }
}

static void put_prompt(const struct prompt *prompt, const char *trace, struct ct_json *json) {
    const char *blank = strstr(prompt->ask, "%s");
    char *text = NULL;
    if (asprintf(&text, "%.*s%s%s", (int)(blank - prompt->ask), prompt->ask, *trace ? trace : "(the newest)",
                 blank + 2) < 0)
        text = NULL;
    ct_json_string(json, "description", prompt->text);
    ct_json_begin(json, "messages", '[');
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "role", "user");
    ct_json_begin(json, "content", '{');
    ct_json_string(json, "type", "text");
    ct_json_string(json, "text", text ? text : prompt->ask);
    ct_json_end(json, '}');
    ct_json_end(json, '}');
    ct_json_end(json, ']');
    free(text);
}

bool ct_mcp_get_prompt(const struct ct_mcp_options *options, const struct ct_json_node *params, struct ct_json *json,
                       char *problem, size_t size) {
    const char *name = ct_json_text(ct_json_get(params, "name", NULL), "");
    (void)options;
    for (size_t i = 0; i < PROMPTS; i++)
        if (!strcmp(prompts[i].name, name)) {
            put_prompt(&prompts[i], ct_json_text(ct_json_get(params, "arguments", "trace", NULL), ""), json);
            return true;
        }
    snprintf(problem, size, "there is no prompt \"%.60s\"; prompts/list lists them", name);
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What a client has said about a tool is checked, and becomes its commands: see tools.h. */
#include "base/closest.h"
#include "mcp/tool_plans.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        ct_mcp_refuse(plan, "%s takes no \"%.40s\"%s%s%s", tool->name, value->key, close ? "; did you mean \"" : "",
                      close ? close : "", close ? "\"?" : "");
        return false;
    }
    if (!has_type(value, type))
        ct_mcp_refuse(plan, "\"%.40s\" must be %s", value->key, types[type]);
    return !*plan->problem;
}

static bool check_arguments(const struct ct_mcp_tool *tool, const struct ct_json_node *a, struct ct_mcp_plan *plan) {
    for (const struct ct_json_node *value = ct_json_first(a); value; value = value->next)
        if (!check_value(tool, value, plan))
            return false;
    for (size_t i = 0; i < parameter_count(tool); i++)
        if (tool->parameters[i].required && !ct_json_get(a, tool->parameters[i].name, NULL)) {
            ct_mcp_refuse(plan, "%s needs \"%s\": %s", tool->name, tool->parameters[i].name, tool->parameters[i].text);
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
        (void)ct_mcp_add_trace(options, plan, words, ct_json_text(value, ""));
    else if (!*p->name)
        ct_mcp_word(words, p->word);
    else if (value)
        add_value(words, p->use == CT_MCP_OPTION ? p->word : NULL, value);
}

static void plan_words(const struct ct_mcp_tool *tool, const struct ct_mcp_options *options,
                       const struct ct_json_node *a, struct ct_mcp_plan *plan) {
    struct ct_mcp_words *words = ct_mcp_add_command(options, plan, tool->words[0]);
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
        ct_mcp_refuse(plan, "%s changes recordings; start the server with `contrail mcp --allow-record` to allow that",
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

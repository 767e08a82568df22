/* SPDX-License-Identifier: Apache-2.0 */
/* The tools: which there are, what they take, and the commands that they are. */
#ifndef CT_MCP_TOOLS_H
#define CT_MCP_TOOLS_H

#include "base/json_read.h"
#include "base/json_write.h"
#include "mcp/mcp.h"
#include "mcp/run.h"

enum ct_mcp_type { CT_MCP_STRING, CT_MCP_INTEGER, CT_MCP_BOOLEAN, CT_MCP_STRINGS };

enum ct_mcp_parameter_use {
    CT_MCP_OPTION,  /* `word` and the value; of BOOLEAN, `word` alone */
    CT_MCP_OPERAND, /* the value alone, after all options */
    CT_MCP_TRACE,   /* a trace, after all options; without it the newest one */
    CT_MCP_OWN,     /* the tool's own function uses it */
};

struct ct_mcp_parameter {
    const char *name;
    enum ct_mcp_type type;
    enum ct_mcp_parameter_use use;
    const char *word; /* of the command line */
    bool required;
    const char *text;
};

enum { CT_MCP_PARAMETERS = 12, CT_MCP_COMMANDS = 3 };

/* The commands of a call of a tool, one after the other. */
struct ct_mcp_plan {
    struct ct_mcp_words commands[CT_MCP_COMMANDS];
    size_t count;
    char problem[256]; /* not "": why there are none, and what to do */
};

struct ct_mcp_tool {
    const char *name, *title, *text;
    bool json;            /* the command prints JSON: the result has it as data */
    bool records;         /* changes recordings: only where that is allowed */
    bool brief;           /* lines about the recorder itself are left out */
    unsigned tokens;      /* of a page, unless asked for otherwise */
    const char *words[6]; /* the command, with fixed options */
    struct ct_mcp_parameter parameters[CT_MCP_PARAMETERS];
    /* Makes the commands itself, when not NULL. */
    void (*plan)(const struct ct_mcp_options *options, const struct ct_json_node *arguments, struct ct_mcp_plan *plan);
};

const struct ct_mcp_tool *ct_mcp_tool_at(size_t index); /* NULL after the last */
const struct ct_mcp_tool *ct_mcp_tool_find(const char *name);
/* Name, description, schemas and hints, as an object of a list. */
void ct_mcp_tool_describe(const struct ct_mcp_tool *tool, struct ct_json *json);
/* Checks the arguments and makes the commands. */
void ct_mcp_tool_plan(const struct ct_mcp_tool *tool, const struct ct_mcp_options *options,
                      const struct ct_json_node *arguments, struct ct_mcp_plan *plan);
void ct_mcp_plan_free(struct ct_mcp_plan *plan);
/* Where a trace is: a path, or a name in the directory of traces; "": the newest. malloc'ed; NULL: there is none. */
char *ct_mcp_trace_path(const struct ct_mcp_options *options, const char *name);

#endif

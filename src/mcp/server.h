/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the server share. */
#ifndef CT_MCP_SERVER_H
#define CT_MCP_SERVER_H

#include "mcp/tools.h"

/* A call of a tool that runs. */
struct ct_mcp_call {
    const struct ct_mcp_tool *tool;
    const struct ct_json_node *arguments, *id;
    const struct ct_json_node *progress; /* what progress is reported with; NULL: it is not wanted */
    struct ct_mcp_peer *peer;
    struct ct_mcp_run run;
    struct ct_mcp_call *next;
};

struct ct_mcp_server {
    struct ct_mcp_options options;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    struct ct_mcp_call *calls;
    bool closing;
};

/* What a tool has found. */
struct ct_mcp_result {
    char problem[512]; /* not "": why there is nothing, and what to do */
    char *text;        /* what the commands have printed */
    size_t length;
    char *command; /* the command lines */
    int exit;      /* of the last one */
    bool failed, cut;
    struct ct_json_tree *tree;
    const struct ct_json_node *data; /* the text as JSON; NULL: it is none */
};

/* Runs the commands of a tool. */
void ct_mcp_call_run(struct ct_mcp_server *server, struct ct_mcp_call *call, struct ct_mcp_result *result);
void ct_mcp_result_free(struct ct_mcp_result *result);

/* A JSON-RPC id, or a token. */
void ct_mcp_put_id(struct ct_json *json, const char *key, const struct ct_json_node *id);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the server share. */
#ifndef CT_MCP_SERVER_H
#define CT_MCP_SERVER_H

#include "mcp/tools.h"

enum ct_mcp_error_code {
    CT_MCP_PARSE_ERROR = -32700,
    CT_MCP_INVALID_REQUEST = -32600,
    CT_MCP_NO_METHOD = -32601,
    CT_MCP_INVALID_PARAMS = -32602,
    CT_MCP_INTERNAL = -32603,
    CT_MCP_WRONG_HEADER = -32020,
    CT_MCP_UNKNOWN_VERSION = -32022,
};

/* A request. */
struct ct_mcp_request {
    struct ct_mcp_peer *peer;
    const struct ct_json_node *id, *params;
    bool alone; /* of the revision without `initialize`: it says all about itself, and so does its answer */
    int error;  /* code of its answer; 0: that is a result */
};

/* A call of a tool that runs. */
struct ct_mcp_call {
    const struct ct_mcp_request *request;
    const struct ct_mcp_tool *tool;
    const struct ct_json_node *arguments;
    const struct ct_json_node *progress; /* what progress is reported with; NULL: it is not wanted */
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

/* True for a revision of the protocol that is spoken. */
bool ct_mcp_is_version(const char *version);
/* The newest one, which has no `initialize`. */
bool ct_mcp_is_alone(const char *version);
/* Cancels all calls of a client. */
void ct_mcp_cancel_client(struct ct_mcp_server *server, const void *client);

/* Runs the commands of a tool. */
void ct_mcp_call_run(struct ct_mcp_server *server, struct ct_mcp_call *call, struct ct_mcp_result *result);
void ct_mcp_result_free(struct ct_mcp_result *result);

/* ---- answers (answers.c); all are malloc'ed, and NULL when there is no memory ---- */

/* A JSON-RPC id, or a token. */
void ct_mcp_put_id(struct ct_json *json, const char *key, const struct ct_json_node *id);
/* Name and version of the server. */
void ct_mcp_put_server(struct ct_json *json, const char *key);
char *ct_mcp_error(struct ct_mcp_request *request, int code, const char *text);
/* The same, with members of the error to come before ct_mcp_end_result. */
void ct_mcp_begin_error(struct ct_json *json, struct ct_mcp_request *request, int code, const char *text);
/* Members of the result follow. `keeps`: of a list, or a text, that clients may keep for a while. */
void ct_mcp_begin_result(struct ct_json *json, const struct ct_mcp_request *request, bool keeps);
char *ct_mcp_end_result(struct ct_json *json);
/* Ends a message that is no answer. */
char *ct_mcp_end_message(struct ct_json *json);
/* The answer of a tool: a mistake, or a page of what it has found. */
char *ct_mcp_tool_error(const struct ct_mcp_request *request, const char *text);
char *ct_mcp_tool_answer(const struct ct_mcp_call *call, const struct ct_mcp_result *result);

#endif

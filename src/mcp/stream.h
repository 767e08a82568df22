/* SPDX-License-Identifier: Apache-2.0 */
/* A request whose messages are sent as server-sent events: progress while it runs, then its answer. */
#ifndef CT_MCP_STREAM_H
#define CT_MCP_STREAM_H

#include "http/http.h"
#include "mcp/mcp.h"

/* Begins to handle the request. `client`: as of a peer; NULL: the stream is one by itself, and when it is closed, the
 * request is cancelled. False: out of memory. */
bool ct_mcp_stream_open(struct ct_http_stream *out, struct ct_mcp_server *server, const void *client, const char *text,
                        size_t length);

#endif

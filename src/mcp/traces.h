/* SPDX-License-Identifier: Apache-2.0 */
/* The traces of a directory: as a tool, and as resources. */
#ifndef CT_MCP_TRACES_H
#define CT_MCP_TRACES_H

#include "mcp/server.h"

/* The tool list_traces. */
void ct_mcp_list_traces(const struct ct_mcp_options *options, struct ct_mcp_run *run, struct ct_mcp_result *result);

/* Resources: contrail://trace/NAME. */
void ct_mcp_list_resources(const struct ct_mcp_options *options, struct ct_json *json);
void ct_mcp_list_templates(const struct ct_mcp_options *options, struct ct_json *json);
/* False: `problem` says why. */
bool ct_mcp_read_resource(const struct ct_mcp_options *options, const struct ct_json_node *params, struct ct_json *json,
                          char *problem, size_t size);

#endif

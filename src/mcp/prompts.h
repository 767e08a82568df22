/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts for the common investigations. */
#ifndef CT_MCP_PROMPTS_H
#define CT_MCP_PROMPTS_H

#include "mcp/server.h"

void ct_mcp_list_prompts(const struct ct_mcp_options *options, struct ct_json *json);
/* False: `problem` says why. */
bool ct_mcp_get_prompt(const struct ct_mcp_options *options, const struct ct_json_node *params, struct ct_json *json,
                       char *problem, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* How commands are made: what all tools use for that, and the tools that make theirs by a function of their own. */
#ifndef CT_MCP_TOOL_PLANS_H
#define CT_MCP_TOOL_PLANS_H

#include "mcp/tools.h"

/* Why there is no command, and what to do. */
void ct_mcp_refuse(struct ct_mcp_plan *plan, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Begins a command: contrail COMMAND. */
struct ct_mcp_words *ct_mcp_add_command(const struct ct_mcp_options *options, struct ct_mcp_plan *plan,
                                        const char *command);
/* Adds the path of a trace. False: there is none, and the plan says so. */
bool ct_mcp_add_trace(const struct ct_mcp_options *options, struct ct_mcp_plan *plan, struct ct_mcp_words *words,
                      const char *name);

void ct_mcp_plan_find_calls(const struct ct_mcp_options *options, const struct ct_json_node *a,
                            struct ct_mcp_plan *plan);
void ct_mcp_plan_sql(const struct ct_mcp_options *options, const struct ct_json_node *a, struct ct_mcp_plan *plan);
void ct_mcp_plan_source_lines(const struct ct_mcp_options *options, const struct ct_json_node *a,
                              struct ct_mcp_plan *plan);
void ct_mcp_plan_explain_crash(const struct ct_mcp_options *options, const struct ct_json_node *a,
                               struct ct_mcp_plan *plan);
void ct_mcp_plan_call_tree(const struct ct_mcp_options *options, const struct ct_json_node *a,
                           struct ct_mcp_plan *plan);
void ct_mcp_plan_diff(const struct ct_mcp_options *options, const struct ct_json_node *a, struct ct_mcp_plan *plan);
void ct_mcp_plan_record(const struct ct_mcp_options *options, const struct ct_json_node *a, struct ct_mcp_plan *plan);

#endif

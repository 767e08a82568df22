/* SPDX-License-Identifier: Apache-2.0 */
/* A flame graph on the terminal, for `contrail graph --flame`. */
#ifndef CT_CLI_GRAPH_FLAME_H
#define CT_CLI_GRAPH_FLAME_H

#include "report/flame.h"

/* Prints the stacks that begin at calls which the options select; `depth`: at most this many rows of calls, 0: all.
 * `glob`: what the user asked for, or NULL. Returns the exit code. */
int ct_graph_flame(struct ct_trace *trace, const struct ct_flame_options *options, uint64_t depth, const char *glob);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The prompt of `contrail query`: lines with history and completion where libedit or readline is installed. */
#ifndef CT_CLI_QUERY_PROMPT_H
#define CT_CLI_QUERY_PROMPT_H

#include "cli/query_run.h"

/* Reads and runs statements until the user leaves. Returns the exit code. */
int ct_query_prompt(struct ct_query_run *run);

/* For completion: the i-th word that begins with `text`, NULL: no more. `from`: the word before it is FROM or JOIN, so
 * only tables fit. */
const char *ct_query_complete(const char *text, bool tables, size_t i);

#endif

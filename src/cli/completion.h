/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts for shells, written from the tables of the commands. */
#ifndef CT_CLI_COMPLETION_H
#define CT_CLI_COMPLETION_H

#include "cli/command.h"

/* False for an unknown shell: bash and zsh are known. */
bool ct_completion_print(FILE *out, const char *shell, const struct ct_command *const *commands, size_t count);

#endif

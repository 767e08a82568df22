/* SPDX-License-Identifier: Apache-2.0 */
/* Talks to the contrail that records a process. */
#ifndef CT_CLI_CTL_H
#define CT_CLI_CTL_H

#include <stdbool.h>
#include <stddef.h>

/* Sends a command. On failure prints a message, sets the exit code and returns false. */
bool ct_ctl_ask(int pid, const char *command, char *answer, size_t size, int *code);

#endif

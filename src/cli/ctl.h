/* Talking to the contrail that records a process. */
#ifndef CT_CLI_CTL_H
#define CT_CLI_CTL_H

#include <stdbool.h>
#include <stddef.h>

/* Sends a command; false after a message, with the exit code. */
bool ct_ctl_ask(int pid, const char *command, char *answer, size_t size, int *code);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by stop.c (the caller) and stop_helper.c (the helper process).
 *
 * The helper shares the caller's memory. Two words carry the protocol; everything else is written by one side while the
 * other side waits:
 *   helper   written by the kernel (the helper's pid at its start, 0 at its end) and by the helper (HELPER_STOPPED)
 *   command  written by the caller */
#ifndef CT_OS_LINUX_STOP_H
#define CT_OS_LINUX_STOP_H

#include "seize.h"
#include "syscall.h"

enum { HELPER_GONE = 0, HELPER_STOPPED = -1 };
enum { COMMAND_NONE, COMMAND_STOP, COMMAND_RESUME };
enum { HELPER_STACK = 64 << 10 };

struct ct_os_stopped {
    int helper;
    int command;
    int helper_pid;
    int status; /* status of the stop, written by the helper */
    unsigned limit_ms;
    int dumpable; /* before the stop */
    bool named_tracer;
    uint64_t signal_mask; /* the caller's mask before the stop */
    struct seize_set set; /* all threads except the caller's */
    char stack[HELPER_STACK] __attribute__((aligned(CT_PAGE_SIZE)));
};

/* The helper's main function, on its own stack. Ends the process and does not return. */
void ct_stop_helper_run(void *stopped);

/* Waits until *word differs from `value`. False: `limit_ms` passed first (< 0: no limit). */
bool ct_stop_wait_while(int *word, int value, int limit_ms);
void ct_stop_set(int *word, int value);

#endif

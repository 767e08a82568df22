/* What stop.c (the caller) and stop_helper.c (the helper process) share.
 *
 * The helper shares the caller's memory. Two words carry the protocol; everything else is written by one side while the
 * other one waits:
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
    int status; /* of the stop, written by the helper */
    unsigned limit_ms;
    int dumpable; /* as it was */
    bool named_tracer;
    uint64_t signal_mask; /* of the caller, as it was */
    struct seize_set set; /* all threads but the caller's */
    char stack[HELPER_STACK] __attribute__((aligned(CT_PAGE_SIZE)));
};

/* The helper's life, on its own stack: returns by ending the process. */
void ct_stop_helper_run(void *stopped);

/* Waits until *word is no longer `value`, or `limit_ms` (< 0: for ever) is over: false. */
bool ct_stop_wait_while(int *word, int value, int limit_ms);
void ct_stop_set(int *word, int value);

#endif

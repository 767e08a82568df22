/* What stop.c (the caller), stop_helper.c (the helper process) and registers_<isa>.c share.
 *
 * The helper shares the caller's memory. Two words carry the protocol; everything else is written by one side while the
 * other one waits:
 *   helper   written by the kernel (the helper's pid at its start, 0 at its end) and by the helper (HELPER_STOPPED)
 *   command  written by the caller */
#ifndef CT_OS_LINUX_STOP_H
#define CT_OS_LINUX_STOP_H

#include "os/os.h"
#include "syscall.h"

enum { HELPER_GONE = 0, HELPER_STOPPED = -1 };
enum { COMMAND_NONE, COMMAND_STOP, COMMAND_RESUME };
enum { DIRECTORY_BUFFER = 16 << 10, HELPER_STACK = 64 << 10, FIRST_THREADS = 256 };

struct stop_thread {
    int tid;
    int signal;   /* taken from the thread by the stop, to be handed back when it resumes; 0: none */
    bool stopped; /* false: seized, and still running or already gone */
    bool gone;
    bool changed; /* regs differ from what the thread has */
    struct ct_os_regs regs;
    struct ct_os_regs original; /* what get_regs told first */
    uint64_t result, call;      /* registers that hold a system call's result and number */
};

struct ct_os_stopped {
    int helper;
    int command;
    int helper_pid;
    int status; /* of the stop, written by the helper */
    int pid;    /* of the process */
    int caller; /* the one thread that is not stopped */
    unsigned limit_ms;
    int dumpable; /* as it was */
    bool named_tracer;
    uint64_t signal_mask; /* of the caller, as it was */
    struct stop_thread *threads;
    size_t count, capacity;
    char directory[DIRECTORY_BUFFER];
    char stack[HELPER_STACK] __attribute__((aligned(CT_PAGE_SIZE)));
};

/* The helper's life, on its own stack: returns by ending the process. */
void ct_stop_helper_run(void *stopped);

/* Waits until *word is no longer `value`, or `limit_ms` (< 0: for ever) is over: false. */
bool ct_stop_wait_while(int *word, int value, int limit_ms);
void ct_stop_set(int *word, int value);

/* ---- registers_<isa>.c: of a thread that the calling process traces and that is stopped ---- */

/* Reads them, and makes the kernel repeat the system call that the stop has interrupted. */
int ct_stop_read_registers(struct stop_thread *thread);
/* Gives the thread what differs between regs and original. */
int ct_stop_write_registers(const struct stop_thread *thread);

#endif

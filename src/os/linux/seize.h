/* SPDX-License-Identifier: Apache-2.0 */
/* Seizes and stops every thread of a process, and accesses the registers of stopped threads. Shared by the stop of our
 * own threads (stop_helper.c) and by tracing another process (src/remote).
 *
 * Whatever happens to the tracer, the threads run on: the kernel detaches the tracees of a dead tracer. Stops are read
 * with WNOWAIT: if a signal-delivery stop were taken off the wait queue, its signal would be lost with the tracer. */
#ifndef CT_OS_LINUX_SEIZE_H
#define CT_OS_LINUX_SEIZE_H

#include "os/os.h" /* and not syscall.h: users of the libc include this too */

enum { SEIZE_DIRECTORY_BUFFER = 16 << 10, SEIZE_FIRST_THREADS = 256 };

/* What a thread does that is about to be stopped, as far as it can be seen (arm64; else nothing). */
struct seize_call {
    int64_t number; /* -1: it is in no call that is of interest */
    uint64_t arguments[6], sp, pc;
    uint64_t sleeps; /* how often it has gone to sleep */
};

struct seize_thread {
    int tid;
    int signal;   /* taken from the thread by the stop, handed back when it resumes; 0: none */
    bool stopped; /* false: seized, and still running or already gone */
    bool gone;
    bool changed; /* regs differ from what the thread has */
    struct seize_call before;
    bool repeats; /* it makes a call again that only the stop has ended, as far as was known then (arm64) */
    struct ct_registers regs;
    struct ct_registers original; /* what get_regs reports first */
};

struct seize_set {
    int pid;               /* the process */
    int except;            /* a thread that is left alone; 0: none */
    int holder;            /* the calling thread, if it may have seized threads already; 0: none are */
    int child;             /* the main thread if it is our own child, so that we must not reap its end; 0: it is not */
    unsigned long options; /* PTRACE_O_... */
    /* Sleeps. True: some thread may have news. False: the time slice is over. */
    bool (*sleep)(void);
    /* Reads the process's memory. */
    ct_registers_read_memory *read;
    const void *memory;
    struct seize_thread *threads;
    size_t count, capacity;
    uint64_t since_ns; /* CLOCK_BOOTTIME: when the first thread was asked to stop */
    char directory[SEIZE_DIRECTORY_BUFFER];
};

/* Allocates the threads; the caller fills in the other members. */
int ct_seize_prepare(struct seize_set *set);
void ct_seize_release(struct seize_set *set);
/* Adds a thread that the caller has seized; NULL: no memory. */
struct seize_thread *ct_seize_add(struct seize_set *set, int tid);

/* Stops every thread. On failure some are seized, stopped or not: check `stopped` before undoing a stop. The limit is
 * for threads that cannot stop; threads that only wait for the processor get CT_SEIZE_LIMITS times as long. */
enum { CT_SEIZE_LIMITS = 5 };
int ct_seize_all(struct seize_set *set, unsigned limit_ms);
/* A stopped thread ends only by SIGKILL, with all others, or by an exec that waits until nobody traces them any
 * more. */
bool ct_seize_were_killed(const struct seize_set *set);

/* Checks once whether the thread has stopped or ended; event: the PTRACE_EVENT_... of the stop, 0: none. */
int ct_seize_poll(const struct seize_set *set, struct seize_thread *thread, int *event);

/* Runs run(arg) in a process that shares our memory and descriptors, on a stack of its own. The calling thread waits
 * meanwhile. It gets the pid when that process has ended (or -E...), and must reap it with __WALL. */
long ct_seize_run_vforked(void *stack_top, void (*run)(void *arg), void *arg);

/* State ('R', 'S', 'Z', ...) of a thread and the pid of its tracer (0: none); false: it does not exist. */
bool ct_seize_task_state(int pid, int tid, char *state, int *tracer);
uint64_t ct_seize_now_ms(void);

/* ---- registers_<isa>.c: a stopped thread that the calling thread traces ---- */

/* Reads and writes them as the kernel has them; >= 0 or -E... */
long ct_registers_read(int tid, struct ct_registers *r);
long ct_registers_write(int tid, const struct ct_registers *r);
/* Reads them, and makes the kernel repeat the system call that the stop interrupted. */
int ct_seize_read_registers(struct seize_thread *thread);
/* The last thing before a thread is stopped: what does it do? */
void ct_seize_look_before(int pid, struct seize_thread *thread);
/* The last thing before a stopped thread resumes: a signal that has come meanwhile may end such a call after all. */
void ct_seize_look_again(const struct seize_thread *thread);
/* Writes what differs between regs and original, all at once. */
int ct_seize_write_registers(const struct seize_set *set, const struct seize_thread *thread);

#endif

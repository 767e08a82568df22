/* SPDX-License-Identifier: Apache-2.0 */
/* Another process, seen from outside: memory, maps, threads, registers, calls made in it.
 *
 * Ordinary C for the controller. Each stop has its own tracer, a process that shares our memory. So calls may come from
 * any thread, one at a time. The controller must not wait for unknown children with __WALL or __WCLONE.
 * Invariant: if we die at any moment, the process runs on as if we had never been there. We use no breakpoint
 * instruction and no single step, and each call made in it is followed by code that restores the interrupted state by
 * itself. */
#ifndef CT_REMOTE_REMOTE_H
#define CT_REMOTE_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "os/os.h" /* struct ct_os_map */
#include <contrail/cpu.h>

struct ct_remote;

/* Why something failed, for the user: one sentence with the remedy. Filled if a function below that takes it fails. */
struct ct_remote_error {
    char text[512];
};

/* ---- opening ---- */

/* Checks that the process can be traced: it exists, is no kernel thread, no zombie, not traced by somebody else, not
 * ourselves, of our architecture, and we may trace it. Opens its memory and a pidfd. Stops nothing. CT_ERR_NOT_FOUND,
 * CT_ERR_PERMISSION_DENIED, CT_ERR_BUSY (traced), CT_ERR_UNSUPPORTED (architecture), CT_ERR_ATTACH_FAILED */
int ct_remote_open(struct ct_remote **out, int pid, struct ct_remote_error *error);

struct ct_remote_spawn {
    const char *path;  /* with a slash, or to be looked up in PATH */
    char *const *argv; /* NULL-terminated */
    char *const *envp; /* NULL: ours */
    /* The program inherits our signals. A caller that has changed its own since it was started gives the earlier ones
     * here: bit n - 1 is signal n. */
    bool set_signals;
    uint64_t signal_mask, ignored_signals;
};

/* Starts a program as our child and stops it when the loader has relocated everything and no constructor has run
 * (static programs: at the entry point). To the program everything looks as if the shell had started it. For a script,
 * the program is its interpreter; a script with `#!/usr/bin/env NAME` is started as env would do it. If we die at any
 * time, the program simply runs on. Its threads count as stopped. CT_ERR_NOT_FOUND, CT_ERR_PERMISSION_DENIED,
 * CT_ERR_UNSUPPORTED (architecture), CT_ERR_SPAWN_FAILED (the text says why: script without interpreter, setuid, ...),
 * CT_ERR_TIMEOUT */
int ct_remote_spawn(struct ct_remote **out, const struct ct_remote_spawn *what, unsigned limit_ms,
                    struct ct_remote_error *error);

/* Called while the thread is stopped: is it the expected one? If so, `ready` lets it continue. */
struct ct_remote_exec {
    bool (*is_meant)(void *arg);
    void (*ready)(void *arg);
    /* The tracer calls it repeatedly until the exec: it must not take locks. NULL: never. */
    bool (*given_up)(void *arg);
    void *arg;
};
/* A thread of another process is about to execute a program and waits for us. We seize it and let it continue. When it
 * has executed the program, it is stopped where ct_remote_spawn stops. In all other cases it runs on, unseized.
 * CT_ERR_SPAWN_FAILED: its exec failed. CT_ERR_TIMEOUT: there was no exec in time, or given_up returned true.
 * CT_ERR_UNSUPPORTED: a program of another architecture. CT_ERR_NOT_FOUND: it is not the expected thread. */
int ct_remote_follow_exec(struct ct_remote **out, int pid, int tid, const struct ct_remote_exec *exec,
                          unsigned limit_ms, struct ct_remote_error *error);

/* Resumes the threads if they are stopped. The process of a failed spawn is not killed: it runs on. */
void ct_remote_close(struct ct_remote *remote);

int ct_remote_pid(const struct ct_remote *remote);
int ct_remote_pidfd(const struct ct_remote *remote);
/* How a process ended, as wait(2) reports it; -1: unknown. It need not be our child, nor open. */
int ct_remote_how_ended(int pidfd, int pid);
/* Is it still the same process image: not exited, no exec since it was opened (spawn: since it was stopped)? */
bool ct_remote_is_alive(const struct ct_remote *remote);
/* A descriptor of the other process, duplicated into ours (pidfd_getfd), or a negative status. */
int ct_remote_fetch_fd(const struct ct_remote *remote, int fd);
/* Value of an entry of the auxiliary vector (AT_ENTRY ...); 0: no such entry. */
uint64_t ct_remote_auxv(const struct ct_remote *remote, uint64_t type);

/* ---- memory: needs no stop ---- */

int ct_remote_read(const struct ct_remote *remote, uint64_t address, void *bytes, size_t size);
/* Writes whatever the protection. In a stopped process, threads see each page's part written at once. */
int ct_remote_write(const struct ct_remote *remote, uint64_t address, const void *bytes, size_t size);
/* CT_ERR_NOT_FOUND: the process has no memory any more. */
int ct_remote_each_map(struct ct_remote *remote, int (*each)(void *arg, const struct ct_os_map *map), void *arg);
/* Opens the file of a mapping as the other process sees it (other mount namespace, deleted file), read-only, O_CLOEXEC.
 * Returns a negative status if that fails. */
int ct_remote_open_mapped(const struct ct_remote *remote, const struct ct_os_map *map);

/* Number after a title ("TracerPid:") in /proc/PID/task/TID/status; -1: none. `last`: the number in the last column. */
long ct_remote_status_number(int pid, int tid, const char *title, bool last);

/* ---- how long the process may be stopped (patience.c) ---- */

/* Limits the time from each stop to the resume to `limit_ms` (from now on, if it is stopped already). After that, and
 * as soon as `given_up` returns true, every read of its memory and every call in it fails with CT_ERR_TIMEOUT. So
 * nothing in its memory can keep it stopped. `given_up` may be NULL; the thread that uses the remote calls it now and
 * then. 0: no limit. */
void ct_remote_limit(struct ct_remote *remote, unsigned limit_ms, bool (*given_up)(void *arg), void *arg);
/* Is the time of this stop over? Then a read that found nothing proves nothing. */
bool ct_remote_is_over(const struct ct_remote *remote);

/* ---- threads ---- */

/* Stops every thread. System calls that this interrupts are repeated on resume: no EINTR. A process that was stopped by
 * job control stays so after the resume. CT_ERR_TIMEOUT, CT_ERR_BUSY, CT_ERR_PERMISSION_DENIED, CT_ERR_NOT_FOUND (it
 * has ended): then everything runs again. */
int ct_remote_stop(struct ct_remote *remote, unsigned limit_ms, struct ct_remote_error *error);
/* Resumes every thread and, unless the process is watched, ends tracing. Signals that arrived meanwhile are
 * delivered. */
int ct_remote_resume(struct ct_remote *remote);
bool ct_remote_is_stopped(const struct ct_remote *remote);
/* When the last stop asked the first thread to stop (CLOCK_BOOTTIME, in ns): until then all ran. */
uint64_t ct_remote_stopped_since(const struct ct_remote *remote);

size_t ct_remote_thread_count(const struct ct_remote *remote);
/* The number in our pid namespace, and as the thread itself sees it (gettid). */
int ct_remote_thread_tid(const struct ct_remote *remote, size_t i);
int ct_remote_thread_inner_tid(const struct ct_remote *remote, size_t i);
/* As in os/registers.h: pc is the system call instruction if the stop interrupted a call (call_size != 0). A set takes
 * effect at once in the kernel's copy, so it holds even if we die before the resume. */
int ct_remote_get_regs(struct ct_remote *remote, size_t i, struct ct_registers *regs);
int ct_remote_set_regs(struct ct_remote *remote, size_t i, const struct ct_registers *regs);
/* What ct_os_thread_pointer returns in the thread with these registers. */
uint64_t ct_remote_thread_pointer(const struct ct_remote *remote, const struct ct_registers *regs);
/* Sets all threads at once: `regs` has one element for each. */
int ct_remote_set_all_regs(struct ct_remote *remote, const struct ct_registers *regs);

/* All general registers, pc and flags of a stopped thread (cpu_<isa>.c). In an interrupted system call they are those
 * with which the call will be made again: pc is the instruction, the result register holds the call's number. */
enum { CT_REMOTE_CPU_WORDS = 40 }; /* room for any machine */
struct ct_remote_cpu {
    _Alignas(8) unsigned char bytes[CT_REMOTE_CPU_WORDS * 8]; /* what ct_remote_cpu_context points to */
};
struct ct_cpu_context *ct_remote_cpu_context(struct ct_remote_cpu *cpu);
/* The general registers in the order of the machine's numbers, then pc and flags. Returns their count. */
size_t ct_remote_cpu_list(const struct ct_remote_cpu *cpu, uint64_t registers[CT_REMOTE_CPU_WORDS]);
/* The system call that a stopped thread with these registers is in. Where that looks the same (arm64), also one that it
 * is about to make. False: none. */
bool ct_remote_call_number(const struct ct_remote *remote, const struct ct_registers *regs, uint64_t *number);
/* Reads several threads at once; one that was killed meanwhile shows zeros. */
int ct_remote_get_cpus(struct ct_remote *remote, size_t first, size_t count, struct ct_remote_cpu *cpus);
/* Writes the registers that differ between the two. */
int ct_remote_set_cpu(struct ct_remote *remote, size_t i, const struct ct_remote_cpu *before,
                      struct ct_remote_cpu *after);

/* Does one of its threads have a seccomp filter that may forbid the calls of agents (filters.c: one that is not ours,
 * and that is not known to allow them)? Calls made in the process need a thread that has no filter or ours, or the
 * right to lift a filter for the moment (CAP_SYS_ADMIN, and no filter of our own). Otherwise they fail with
 * CT_ERR_PERMISSION_DENIED before anything is tried. (If we die in the middle of a call of such a thread, the filter
 * applies to it.) */
bool ct_remote_has_seccomp(struct ct_remote *remote);
/* Calls are made by this thread until the process runs again, under its filter. CT_ERR_PERMISSION_DENIED: that may
 * forbid the calls of agents. */
int ct_remote_choose(struct ct_remote *remote, size_t i);
/* For calls of code that may be the program's own: they are made by threads without a filter, or not at all. */
void ct_remote_keep_filters(struct ct_remote *remote, bool keep);

/* ---- a process that stays traced while it runs (watch.c) ---- */

struct ct_remote_thread {
    int tid;
    struct ct_remote_cpu cpu;
    struct ct_registers regs;
};

/* A signal that is about to be delivered to a thread. What the program does with it happens afterwards. */
struct ct_remote_signal {
    struct ct_remote_thread thread;
    int signal, code;
    int sender;             /* pid of the sender; 0: the kernel */
    uint64_t fault_address; /* 0: none */
    uint64_t counter;       /* CPU counter at the thread's stop */
    bool handled;           /* the program has a handler for it */
    bool fatal;             /* it has none, and the signal kills */
    /* If it is fatal: all other threads, which are stopped too (those that stopped in time). */
    const struct ct_remote_thread *others;
    size_t other_count;
};

/* What happens to the signal. */
enum ct_remote_verdict {
    CT_REMOTE_SIGNAL_AS_IS,
    CT_REMOTE_SIGNAL_SHOWN,   /* the registers were changed, for the report only */
    CT_REMOTE_SIGNAL_CHANGED, /* the registers were changed, for the report and the delivery */
    CT_REMOTE_SIGNAL_DROPPED, /* it is neither reported nor delivered; the thread continues with changed registers */
};

struct ct_remote_watch {
    uint64_t signals; /* to be reported, bit n - 1 is signal n */
    bool crashes;     /* also report faults and aborts, with or without a handler, and all signals that kill */
    /* Reports a signal. Runs on the tracer while the thread is stopped: it must not wait for a thread that uses this
     * remote. It may read memory. */
    void (*report)(void *arg, const struct ct_remote_signal *signal);
    /* Runs before `report`, and may change the thread's registers. May be NULL. */
    enum ct_remote_verdict (*judge)(void *arg, struct ct_remote_signal *signal);
    void *arg;
};

/* Keeps the process traced while it runs, and reports its signals: from now on if it runs, otherwise from the next
 * resume on. A second call changes the signals. The program notices only that nobody else can trace it. */
int ct_remote_watch(struct ct_remote *remote, const struct ct_remote_watch *watch);
/* Ends the watch: a process that runs continues untraced, a stopped one will after its resume. */
void ct_remote_unwatch(struct ct_remote *remote);
bool ct_remote_is_watched(const struct ct_remote *remote);
/* How a watched process ended, as wait(2) reports it; -1: it has not, or unknown. */
int ct_remote_exit_status(struct ct_remote *remote);

/* ---- calls made in the other process while it is stopped, by its first thread that can ---- */

/* *result is what the kernel returned (negative errno values included). */
int ct_remote_syscall(struct ct_remote *remote, long number, const uint64_t arguments[6], int64_t *result);
/* memfd_create, with a name that is listed with the mappings from the first one on. */
#define CT_REMOTE_MEMFD "contrail"
int ct_remote_memfd(struct ct_remote *remote, unsigned flags, int64_t *result);
/* Calls a function in the other process (System V ABI, integer arguments) with the stack pointer at `stack` (16-aligned
 * top of memory that is ours there). The function must be freestanding code of ours that uses no vector registers. */
int ct_remote_call(struct ct_remote *remote, uint64_t function, uint64_t stack, const uint64_t arguments[6],
                   uint64_t *result);
/* After CT_ERR_TIMEOUT: has the call begun? Then it goes on, and its thread returns by itself. */
bool ct_remote_is_late(const struct ct_remote *remote);

#endif

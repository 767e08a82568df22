/* Another process, seen from outside: memory, maps, threads, registers, calls made in it.
 *
 * Ordinary C for the controller. Each stop has a tracer of its own, a process that shares our memory, so calls may come from any
 * thread, one at a time. The controller must not wait for children that it does not know with __WALL or __WCLONE.
 * Invariant: whatever we are in the middle of, our death leaves the process running as if we had
 * never been there (no breakpoint instruction, no single step; behind calls made in it stands code that restores the
 * interrupted state by itself). */
#ifndef CT_REMOTE_REMOTE_H
#define CT_REMOTE_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "os/os.h" /* struct ct_os_map */
#include <contrail/cpu.h>

struct ct_remote;

/* Why something failed, for the user: one sentence with the remedy. Filled when a function below that takes it fails. */
struct ct_remote_error {
    char text[512];
};

/* ---- opening ---- */

/* Checks that the process can be traced (it exists, is no kernel thread, no zombie, not traced by somebody, not ourselves,
 * of our architecture, we may trace it) and opens its memory and a pidfd. Nothing is stopped.
 * CT_ERR_NOT_FOUND, CT_ERR_PERMISSION_DENIED, CT_ERR_BUSY (traced), CT_ERR_UNSUPPORTED (architecture), CT_ERR_ATTACH_FAILED */
int ct_remote_open(struct ct_remote **out, int pid, struct ct_remote_error *error);

struct ct_remote_spawn {
    const char *path;  /* with a slash, or looked up in PATH */
    char *const *argv; /* NULL-terminated */
    char *const *envp; /* NULL: ours */
    /* Signals are inherited from us. A caller that has changed its own since it was started gives here what was before: bit
     * n - 1 is signal n. */
    bool set_signals;
    uint64_t signal_mask, ignored_signals;
};

/* Starts a program as a child of ours and stops it where the loader has relocated everything and no constructor has run
 * (static programs: at the entry point). Everything that the program can see is as if the shell had started it. Of a script, that is its
 * interpreter; one that says `#!/usr/bin/env NAME` is started as env would do it. Should we die at any time it simply runs on. Its threads count as stopped. CT_ERR_NOT_FOUND, CT_ERR_PERMISSION_DENIED,
 * CT_ERR_UNSUPPORTED (architecture), CT_ERR_SPAWN_FAILED (text tells: script without interpreter, setuid, ...), CT_ERR_TIMEOUT */
int ct_remote_spawn(struct ct_remote **out, const struct ct_remote_spawn *what, unsigned limit_ms,
                    struct ct_remote_error *error);

/* While the thread is stopped: is it the one that is meant? Then `ready` gives it our word. */
struct ct_remote_exec {
    bool (*is_meant)(void *arg);
    void (*ready)(void *arg);
    bool (*given_up)(
        void *arg); /* asked by the tracer again and again until it has executed: takes no lock; NULL: never */
    void *arg;
};
/* A thread of another process is about to execute a program, and waits for our word: it is seized, gets it, and when it has
 * executed the program it is stopped where ct_remote_spawn stops. In every other case it runs on, unseized.
 * CT_ERR_SPAWN_FAILED: its exec has failed. CT_ERR_TIMEOUT: none came in time, or it was given up. CT_ERR_UNSUPPORTED: a program of another architecture. CT_ERR_NOT_FOUND: it is not
 * the one that is meant. */
int ct_remote_follow_exec(struct ct_remote **out, int pid, int tid, const struct ct_remote_exec *exec,
                          unsigned limit_ms, struct ct_remote_error *error);

/* Resumes what is stopped. The process of a failed spawn is not killed: it runs on. */
void ct_remote_close(struct ct_remote *remote);

int ct_remote_pid(const struct ct_remote *remote);
int ct_remote_pidfd(const struct ct_remote *remote);
/* Of a process that has ended, as wait(2) tells it; -1: not known. It need not be a child of ours, nor open. */
int ct_remote_how_ended(int pidfd, int pid);
/* The same process image still: not exited, no exec since it was opened (spawn: since it was stopped). */
bool ct_remote_is_alive(const struct ct_remote *remote);
/* A descriptor of the other process, duplicated into ours (pidfd_getfd), or a negative status. */
int ct_remote_fetch_fd(const struct ct_remote *remote, int fd);
/* Value of an entry of the auxiliary vector (AT_ENTRY ...), 0 when it has none. */
uint64_t ct_remote_auxv(const struct ct_remote *remote, uint64_t type);

/* ---- memory: needs no stop ---- */

int ct_remote_read(const struct ct_remote *remote, uint64_t address, void *bytes, size_t size);
/* Whatever the protection. Each page's part is written at once as far as threads of a stopped process can tell. */
int ct_remote_write(const struct ct_remote *remote, uint64_t address, const void *bytes, size_t size);
/* CT_ERR_NOT_FOUND: it has no memory any more. */
int ct_remote_each_map(struct ct_remote *remote, int (*each)(void *arg, const struct ct_os_map *map), void *arg);
/* Opens the file behind a mapping as the other process sees it (other mount namespace, deleted file), read-only, O_CLOEXEC.
 * A negative status when it cannot be had. */
int ct_remote_open_mapped(const struct ct_remote *remote, const struct ct_os_map *map);

/* Number after a title ("TracerPid:") of /proc/PID/task/TID/status, -1 when there is none. `last`: of the last column. */
long ct_remote_status_number(int pid, int tid, const char *title, bool last);

/* ---- how long it may stand still (patience.c) ---- */

/* From each stop to the resume (from now on, when it is stopped already) there are `limit_ms`. After that, and as soon as `given_up`
 * says so, every read of its memory and every call in it fails with CT_ERR_TIMEOUT: so nothing that lies in its memory keeps it
 * stopped. `given_up` may be NULL; it is asked now and then, by the thread that uses the remote. 0: no limit. */
void ct_remote_limit(struct ct_remote *remote, unsigned limit_ms, bool (*given_up)(void *arg), void *arg);
/* Is this stop's time over? Then what a read has not found may be there all the same. */
bool ct_remote_is_over(const struct ct_remote *remote);

/* ---- threads ---- */

/* Stops every thread. System calls that this interrupts are repeated on resume: no EINTR. A process that was stopped by job
 * control stays so when it is resumed. CT_ERR_TIMEOUT, CT_ERR_BUSY, CT_ERR_PERMISSION_DENIED, CT_ERR_NOT_FOUND (it has ended):
 * then everything runs again. */
int ct_remote_stop(struct ct_remote *remote, unsigned limit_ms, struct ct_remote_error *error);
/* Lets every thread go and, unless the process is watched, ends tracing. Signals that came meanwhile are delivered. */
int ct_remote_resume(struct ct_remote *remote);
bool ct_remote_is_stopped(const struct ct_remote *remote);

size_t ct_remote_thread_count(const struct ct_remote *remote);
/* In our pid namespace; and as the thread itself sees it (gettid). */
int ct_remote_thread_tid(const struct ct_remote *remote, size_t i);
int ct_remote_thread_inner_tid(const struct ct_remote *remote, size_t i);
/* As in os/os.h: pc is the system call instruction when the stop interrupted one (call_size != 0). A set takes effect at once
 * in the kernel's copy, so that it holds even if we die before the resume. */
int ct_remote_get_regs(struct ct_remote *remote, size_t i, struct ct_registers *regs);
int ct_remote_set_regs(struct ct_remote *remote, size_t i, const struct ct_registers *regs);
/* What ct_os_thread_pointer returns in the thread with these registers. */
uint64_t ct_remote_thread_pointer(const struct ct_remote *remote, const struct ct_registers *regs);
/* Of all threads at once: `regs` has one for each. */
int ct_remote_set_all_regs(struct ct_remote *remote, const struct ct_registers *regs);

/* All general registers, pc and flags of a stopped thread (cpu_<isa>.c). In an interrupted system call they are those
 * with which it will be made again: pc is the instruction, the result register holds the call's number. */
enum { CT_REMOTE_CPU_WORDS = 40 }; /* room for any machine */
struct ct_remote_cpu {
    _Alignas(8) unsigned char bytes[CT_REMOTE_CPU_WORDS * 8]; /* what ct_remote_cpu_context points to */
};
struct ct_cpu_context *ct_remote_cpu_context(struct ct_remote_cpu *cpu);
/* The general registers in the order of the machine's numbers, then pc and flags: their count. */
size_t ct_remote_cpu_list(const struct ct_remote_cpu *cpu, uint64_t registers[CT_REMOTE_CPU_WORDS]);
/* Of several threads at once; one that has been killed meanwhile shows zeros. */
int ct_remote_get_cpus(struct ct_remote *remote, size_t first, size_t count, struct ct_remote_cpu *cpus);
/* Puts back what differs between the two. */
int ct_remote_set_cpu(struct ct_remote *remote, size_t i, const struct ct_remote_cpu *before,
                      struct ct_remote_cpu *after);

/* Does a thread of it have a seccomp filter that may forbid what agents call (filters.c: one that is not ours, and that is not known
 * to allow it)? Calls made in it need a thread with no filter or ours, or the right to lift one for the time being (CAP_SYS_ADMIN,
 * and no filter of our own): without it they fail with CT_ERR_PERMISSION_DENIED, and nothing has been tried. (Should we die in the
 * very middle of a call of such a thread, the filter judges it.) */
bool ct_remote_has_seccomp(struct ct_remote *remote);
/* For calls of code that may be the program's own: they are made by threads without a filter, or not at all. */
void ct_remote_keep_filters(struct ct_remote *remote, bool keep);

/* ---- a process that stays traced while it runs (watch.c) ---- */

struct ct_remote_thread {
    int tid;
    struct ct_remote_cpu cpu;
    struct ct_registers regs;
};

/* A signal that is about to be delivered to a thread; whatever the program has decided to do with it happens afterwards. */
struct ct_remote_signal {
    struct ct_remote_thread thread;
    int signal, code;
    int sender;             /* pid of who sent it; 0: the kernel did */
    uint64_t fault_address; /* 0: it has none */
    uint64_t counter;       /* of the CPU, now that the thread stands */
    bool handled;           /* the program has a handler for it */
    bool fatal;             /* there is none, and it kills */
    /* When it is fatal: all other threads, which stand still too (those that did so in time). */
    const struct ct_remote_thread *others;
    size_t other_count;
};

/* What becomes of it. */
enum ct_remote_verdict {
    CT_REMOTE_SIGNAL_AS_IS,
    CT_REMOTE_SIGNAL_SHOWN,   /* the registers were changed: so it is told */
    CT_REMOTE_SIGNAL_CHANGED, /* and delivered */
    CT_REMOTE_SIGNAL_DROPPED, /* it is neither told nor delivered; the thread goes on with changed registers */
};

struct ct_remote_watch {
    uint64_t signals; /* to be told, bit n - 1 is signal n */
    bool crashes;     /* also: faults and aborts, whether there is a handler or not, and whatever kills */
    /* Runs on the tracer, while the thread stands: it must not wait for a thread that uses the same remote. It may read memory. */
    void (*told)(void *arg, const struct ct_remote_signal *signal);
    /* The same, before: may change the thread's registers. May be NULL. */
    enum ct_remote_verdict (*judge)(void *arg, struct ct_remote_signal *signal);
    void *arg;
};

/* From now on (while it runs) or from the next resume on (while it is stopped, or has yet to be) ct_remote_resume keeps the
 * process traced, and signals are told. Again: other signals. The program notices nothing but that nobody else can trace it. */
int ct_remote_watch(struct ct_remote *remote, const struct ct_remote_watch *watch);
/* The end of it: a process that runs goes on untraced, one that is stopped will. */
void ct_remote_unwatch(struct ct_remote *remote);
bool ct_remote_is_watched(const struct ct_remote *remote);
/* How a watched process has ended, as wait(2) tells it; -1: it has not, or it is not known. */
int ct_remote_exit_status(struct ct_remote *remote);

/* ---- calls made in the other process, while it is stopped, on its first thread that can ---- */

/* *result is what the kernel returned (negative errno values included). */
int ct_remote_syscall(struct ct_remote *remote, long number, const uint64_t arguments[6], int64_t *result);
/* memfd_create, with a name by which the memory is found in the list of mappings from the first one on. */
#define CT_REMOTE_MEMFD "contrail"
int ct_remote_memfd(struct ct_remote *remote, unsigned flags, int64_t *result);
/* Calls a function in the other process (System V ABI, integer arguments) with the stack pointer at `stack` (16-aligned
 * top of memory that is ours there). It must be freestanding code of ours that uses no vector registers. */
int ct_remote_call(struct ct_remote *remote, uint64_t function, uint64_t stack, const uint64_t arguments[6],
                   uint64_t *result);

#endif

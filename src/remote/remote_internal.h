/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this layer.
 *
 * ptrace belongs to a thread, and a tracee that runs cannot be detached. But when its tracer ends, everything is
 * detached at once. So each stop has a tracer (tracer.c): it lives from stop to resume and makes all ptrace requests.
 * Functions whose names end in _traced run in it, as jobs: one at a time, while the caller waits. */
#ifndef CT_REMOTE_REMOTE_INTERNAL_H
#define CT_REMOTE_REMOTE_INTERNAL_H

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/types.h>

#include <contrail/status.h>
#include "isa/host.h"
#include "os/linux/seize.h"
#include CT_HOST_HEADER(call)
#include "remote/remote.h"

enum { CT_REMOTE_AUXV = 64 };

struct tracer {
    pthread_t thread;
    int tid;
    void *stack;
    bool vforked; /* a process of its own; false: a thread */
    bool running, quit, lost;
    bool blocked; /* waits for the process, not for a job: must be woken for one */
    bool working; /* runs a job, while the caller waits */
    sem_t go, done;
    int (*job)(struct ct_remote *remote, void *arg);
    void *arg;
    int status;
};

struct watch {
    bool on;          /* requested: the next resume keeps the process traced */
    bool running;     /* all threads are seized and run; owned by the tracer */
    bool job_stopped; /* stopped by job control, since the last SIGCONT */
    bool own_child;   /* our child, traced by a thread of ours: the tracer must not reap its end */
    int exit_status;  /* -1: unknown */
    struct ct_remote_watch what;
    struct seize_set *others;         /* threads that are stopped while a crash is reported */
    struct ct_remote_thread *threads; /* their registers, for the report */
    size_t thread_room;
};

struct patience {
    unsigned limit_ms; /* 0: no limit */
    uint64_t until_ms, next_ask_ms;
    bool (*given_up)(void *arg);
    void *arg;
    bool running, over; /* since the stop */
};

struct ct_remote_range {
    uint64_t start, end;
};

struct ct_remote {
    int pid;
    int view; /* a thread of it that has not ended: /proc shows the memory only under its number */
    int pidfd;
    int mem; /* /proc/PID/mem: bound to the image that it was opened for */
    bool spawned;
    bool stopped;
    bool inner_numbers; /* threads have other numbers in their own pid namespace */
    uint64_t auxv[CT_REMOTE_AUXV][2];
    size_t auxv_count;
    uint64_t gadget; /* where our code may be written for a moment; 0: not searched yet */
    bool late;       /* ct_remote_is_late */
    size_t worker;   /* the thread that makes calls, chosen at the first call of this stop; valid if worker_ready */
    bool worker_ready;
    struct ct_remote_range *ranges; /* readable memory, by address, at this stop (frames) */
    size_t range_count, range_room;
    struct seize_set set;
    struct tracer tracer;
    struct watch watch;
    struct patience patience;
    bool keep_filters; /* seccomp filters are not lifted for calls */
    /* Does it come from where we come from, so that filters which it has not got elsewhere are ours too (filters.c)? */
    enum { KIN_UNKNOWN, KIN_YES, KIN_NO } kin;
};

/* ---- explain.c ---- */

/* Formats the sentence; returns `status`. `error` may be NULL. */
int ct_remote_say(struct ct_remote_error *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The sentence for a process that may not be traced: who owns it, and what forbids it. */
int ct_remote_say_forbidden(struct ct_remote_error *error, int pid);
int ct_remote_say_traced(struct ct_remote_error *error, int pid, int tracer);

/* ---- proc.c: files below /proc ---- */

/* ct_remote_status_number for many threads of a process: the first function opens its directory of threads. */
int ct_remote_open_tasks(int pid);
long ct_remote_task_number(int tasks, int pid, int tid, const char *title);
/* Is it in a pid namespace below ours, where its threads have other numbers? */
bool ct_remote_has_inner_numbers(int pid);
/* State letter of the process (of any thread); 0: it does not exist. */
char ct_remote_state(int pid, int tid);
/* How long we wait for another tracer to leave. Contrail itself traces for a moment only, and a killed controller
 * leaves a tracer that ends soon (tracer.c: LAST_WORK_S). A debugger stays. */
unsigned ct_remote_patience_ms(int tracer);
/* A thread that has not ended, the main one if possible; 0: none. */
int ct_remote_find_view(int pid);
int ct_remote_read_auxv(struct ct_remote *remote);
/* Why we cannot record this ELF file: "a 32-bit program", "an arm64 program", ...; NULL: we can. */
const char *ct_remote_foreign(const uint8_t *header, size_t size);
/* Does the beginning of this ELF file show that it is a program for Android? Its threads use the word that is ours. */
bool ct_remote_is_bionic(const uint8_t *file, size_t size);
enum { CT_REMOTE_HEAD = 4096 };
#define CT_REMOTE_BIONIC "for Android (its C library is Bionic): contrail records programs with glibc or musl only"

/* ---- filters.c: seccomp ---- */

/* Checks our own filters, once. Call it before the other functions, and not on the tracer. */
void ct_filters_prepare(void);
bool ct_filters_are_on_us(void);
/* Does the thread have exactly our filters, and do those allow the calls that recording needs? */
bool ct_filters_are_ours(struct ct_remote *remote, int tid);
/* Is it known that the stopped thread's filters allow the calls of an agent? Only a tracer that may lift filters can
 * know. */
bool ct_filters_allow_agents_traced(int tid);

/* ---- open.c ---- */

int ct_remote_allocate(struct ct_remote **out, int pid);
/* Opens the memory of the current image; -errno on failure. */
int ct_remote_open_image(struct ct_remote *remote);
void ct_remote_free(struct ct_remote *remote);

/* ---- patience.c ---- */

/* Called after the process has stopped, and before it is resumed. */
void ct_patience_begin(struct ct_remote *remote);
void ct_patience_end(struct ct_remote *remote);
/* ct_remote_is_over, for the caller that waits for the tracer. */
bool ct_patience_ask(struct ct_remote *remote);
/* The earlier of the deadline and the end of this stop's time. */
uint64_t ct_patience_deadline(const struct ct_remote *remote, uint64_t deadline_ms);

/* ---- tracer.c ---- */

/* `vforked`: as a process of its own, if possible. */
int ct_tracer_start(struct ct_remote *remote, bool vforked);
int ct_tracer_run(struct ct_remote *remote, int (*job)(struct ct_remote *remote, void *arg), void *arg);
/* When this returns, everything that was traced runs. */
void ct_tracer_end(struct ct_remote *remote);

/* For a tracer that waits for something else than a job: is there a job, or nobody left to give one? */
enum tracer_news { TRACER_NONE, TRACER_JOB, TRACER_ORPHAN };
enum tracer_news ct_tracer_news(struct ct_remote *remote);

/* Called before every step that changes the other process, for tests in which we die at each step. */
extern void (*ct_remote_step)(void);
/* Called between the request to stop and the read of a thread's registers, for the same tests. */
extern void (*ct_remote_waiting)(void);
/* For tests of systems where only ancestors may trace. */
extern bool ct_remote_never_vfork;

/* ptrace without errno: >= 0 or -E... */
long ct_trace(int request, int tid, uint64_t address, uint64_t data);
/* Converts such a result; CT_ERR_NOT_FOUND: the thread was killed. */
int ct_trace_status(long result);

enum stop_kind { STOP_GONE, STOP_EVENT, STOP_SIGNAL, STOP_CALL };
struct stop {
    enum stop_kind kind;
    int number;       /* of the event, or of the signal */
    bool job_control; /* a PTRACE_EVENT_STOP because the process must be stopped until SIGCONT */
};
/* Describes what wait reported about a thread. */
void ct_trace_describe(const siginfo_t *info, struct stop *stop);
/* The thread's stop or end, without waiting and without taking it off the wait queue; false: it runs. */
bool ct_trace_look(int tid, struct stop *stop);
/* Waits for the thread's next stop without taking it off the wait queue. CT_ERR_TIMEOUT */
int ct_trace_wait(int tid, uint64_t deadline_ms, struct stop *stop);
/* Has the instruction at which the thread is stopped caused a fault that is yet to be delivered? Its handler would see
 * that address, even if the thread's registers are changed before. */
bool ct_trace_has_fault(int tid);
/* Runs such a thread from a PTRACE_EVENT_STOP to the stop of the fault's signal. */
int ct_trace_come_to_fault(int tid, uint64_t deadline_ms, struct stop *stop);
/* Brings a thread from any stop to a PTRACE_EVENT_STOP without running any instruction of the program. The signal is
 * delivered: the thread is then at its handler. CT_ERR_NOT_FOUND: the thread has ended. */
int ct_trace_settle(int tid, int signal, uint64_t deadline_ms);
/* Brings a thread there that runs, or is in a stop of job control. */
int ct_trace_halt(int tid, uint64_t deadline_ms);

/* ---- threads.c ---- */

/* Makes the only thread of a process that we have just started the stopped set. */
int ct_remote_adopt_traced(struct ct_remote *remote);

/* ---- watch.c ---- */

/* Handles the events of the watched process until there is a job, or nobody left to give one, or it has ended
 * (TRACER_NONE). */
enum tracer_news ct_watch_run(struct ct_remote *remote);
/* Stop and resume a watched process, on the tracer. A resume undoes a stop that failed. */
int ct_watch_stop_traced(struct ct_remote *remote, unsigned limit_ms);
int ct_watch_resume_traced(struct ct_remote *remote, void *arg);
void ct_watch_free(struct ct_remote *remote);

/* ---- cpu.c ---- */

/* Reads and writes them as the kernel has them. */
int ct_remote_read_registers_traced(int tid, struct ct_registers *regs);
int ct_remote_write_registers_traced(int tid, const struct ct_registers *regs);
/* The thread continues at pc, and makes no system call before. */
void ct_remote_divert(struct ct_registers *regs, uint64_t pc);
/* Reads a thread in any stop. */
int ct_remote_read_thread_traced(int tid, struct ct_remote_thread *thread);
/* Writes its general registers, pc and flags. */
int ct_remote_write_thread_traced(const struct ct_remote_thread *thread);

/* ---- cpu_<isa>.c ---- */

/* Converts a thread's registers to what is shown. */
void ct_remote_cpu_show(const struct ct_registers *regs, struct ct_remote_cpu *cpu);
bool ct_remote_cpu_differ(const struct ct_remote_cpu *a, const struct ct_remote_cpu *b);
/* Puts all that `cpu` has into the registers; an interrupted call stays interrupted. */
void ct_remote_cpu_put(const struct ct_remote_cpu *cpu, struct ct_registers *regs);
/* Puts only what differs from what was shown before. */
void ct_remote_cpu_change(const struct ct_remote_cpu *before, const struct ct_remote_cpu *cpu,
                          struct ct_registers *regs);

/* ---- frames_<isa>.c ---- */

/* The frame of a signal handler in a copy of a stack: offsets of the interrupted code's pc and stack pointer. */
struct ct_remote_frame_at {
    size_t pc, sp;
    size_t next; /* where the search continues; 0: at the beginning */
};
/* False: there are no more. */
bool ct_remote_next_frame(struct ct_remote *remote, const uint8_t *bytes, size_t size,
                          struct ct_remote_frame_at *found);

/* ---- gadget.c ---- */

/* Finds CT_REMOTE_GADGET_ROOM executable bytes that belong to nothing. */
int ct_remote_find_gadget(struct ct_remote *remote);
struct saved;
/* Finds CT_REMOTE_NEAR such bytes from which this way back reaches its end, outside the gadget; 0: there are none. */
uint64_t ct_remote_find_near(struct ct_remote *remote, const struct saved *saved);

/* ---- call_<isa>.c ---- */

struct call {
    bool is_syscall;
    uint64_t function; /* or the number of the system call */
    uint64_t stack;
    uint64_t arguments[6];
    uint64_t result;
};

/* The state to which a thread returns, and the code and data with which it can do so by itself. */
struct saved {
    struct ct_registers regs; /* as the kernel has them: the kernel repeats an interrupted call */
    uint64_t mask;
    uint64_t near; /* the last few bytes of the way back, where the code does not reach; 0: none */
    uint8_t code[CT_REMOTE_GADGET_ROOM];
};

/* Can this thread make calls for us? */
bool ct_call_possible(const struct ct_registers *regs);
/* Must the way back end with some bytes that are nearer than the code to where it leads? Does it reach from there?
 * ct_call_write_near makes these bytes. */
bool ct_call_needs_near(const struct saved *saved, uint64_t gadget);
bool ct_call_near_fits(const struct saved *saved, uint64_t near);
void ct_call_write_near(const struct saved *saved, uint64_t near, uint8_t code[CT_REMOTE_NEAR]);
/* Fills code from what was saved, to run at `gadget`. */
void ct_call_write_code(struct saved *saved, uint64_t gadget);
/* Address of the name of shared memory in that code. */
uint64_t ct_call_name(uint64_t gadget);
/* Is this such code, and where does it return to? */
bool ct_call_is_code(const uint8_t bytes[CT_REMOTE_GADGET_ROOM], uint64_t *pc, uint64_t *sp);
/* The registers that start the call. */
void ct_call_registers(const struct call *call, const struct saved *saved, uint64_t gadget, struct ct_registers *regs);
/* The end of the call: the address after the system call instruction at whose stop the result can be read, and whether
 * it is the stop at the call's exit. */
uint64_t ct_call_end(const struct call *call, uint64_t gadget, bool *at_exit);
/* Reads the result at that stop; false: the kernel wants to repeat the call. */
bool ct_call_result(struct call *call, const struct ct_registers *regs);

#endif

/* What the files of this layer share.
 *
 * ptrace belongs to a thread, and a tracee that runs cannot be let go; but the end of its tracer lets everything go, at once.
 * So each stop has a tracer (tracer.c): it lives from stop to resume, and all ptrace requests are made in it. Functions whose
 * name ends in _traced run there, as jobs: one at a time, while the caller waits. */
#ifndef CT_REMOTE_REMOTE_INTERNAL_H
#define CT_REMOTE_REMOTE_INTERNAL_H

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/types.h>

#include <contrail/status.h>
#include "os/linux/seize.h"
#include "remote/remote.h"

enum { CT_REMOTE_AUXV = 64 };

struct tracer {
    pthread_t thread;
    int tid;
    void *stack;
    bool vforked; /* a process of its own, else a thread */
    bool running, quit, lost;
    bool blocked; /* waits for the process, not for a job: whoever has one wakes it */
    bool working; /* at a job, while the caller waits */
    sem_t go, done;
    int (*job)(struct ct_remote *remote, void *arg);
    void *arg;
    int status;
};

struct watch {
    bool on;          /* asked for: the next resume stays with the process */
    bool running;     /* all threads are seized and run; the tracer's */
    bool job_stopped; /* by job control, since the last SIGCONT */
    bool own_child;   /* ours, and we trace it as a thread of ours: its end is not the tracer's to reap */
    int exit_status;  /* -1: not known */
    struct ct_remote_watch what;
    struct seize_set *others;         /* threads that stand while a crash is looked at */
    struct ct_remote_thread *threads; /* the same, for who is told */
    size_t thread_room;
};

struct patience {
    unsigned limit_ms; /* 0: there is no limit */
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
    int view; /* a thread of it that has not ended: /proc shows the memory under its number only */
    int pidfd;
    int mem; /* /proc/PID/mem: bound to the image that it was opened for */
    bool spawned;
    bool stopped;
    bool inner_numbers; /* threads have other numbers in their own pid namespace */
    uint64_t auxv[CT_REMOTE_AUXV][2];
    size_t auxv_count;
    uint64_t gadget; /* where code of ours may be put for a moment; 0: not looked for yet */
    size_t worker;   /* the thread that makes calls, valid with worker_ready: since the first call of this stop */
    bool worker_ready;
    struct ct_remote_range *ranges; /* readable memory, by address, as of this stop (frames) */
    size_t range_count, range_room;
    struct seize_set set;
    struct tracer tracer;
    struct watch watch;
    struct patience patience;
    bool keep_filters; /* seccomp filters are not lifted for calls */
    /* Does it come from where we do, so that filters it has not got from elsewhere are ours too (filters.c)? */
    enum { KIN_UNKNOWN, KIN_YES, KIN_NO } kin;
};

/* ---- explain.c ---- */

/* Formats the sentence; returns `status`. `error` may be NULL. */
int ct_remote_say(struct ct_remote_error *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a process that may not be traced: whose it is, and what forbids it. */
int ct_remote_say_forbidden(struct ct_remote_error *error, int pid);
int ct_remote_say_traced(struct ct_remote_error *error, int pid, int tracer);

/* ---- proc.c: files below /proc ---- */

/* Does it live in a pid namespace below ours, where its threads have other numbers? */
bool ct_remote_has_inner_numbers(int pid);
/* The process's (any thread's) state letter, 0 when it does not exist. */
char ct_remote_state(int pid, int tid);
/* For how long somebody who wants to trace a process waits for the one who does. Of our own kind are those that look at it for a
 * moment, and what a killed controller has left (tracer.c: LAST_WORK_S); a debugger stays. */
unsigned ct_remote_patience_ms(int tracer);
/* A thread that has not ended, the main one if possible; 0: none. */
int ct_remote_find_view(int pid);
int ct_remote_read_auxv(struct ct_remote *remote);
/* Why an ELF header is not for us: NULL when it is, else "a 32-bit program", "an arm64 program", ... */
const char *ct_remote_foreign(const uint8_t *header, size_t size);

/* ---- filters.c: seccomp ---- */

/* Looks at our own filters, once. Before the other function, and not on the tracer. */
void ct_filters_prepare(void);
bool ct_filters_are_on_us(void);
/* Is the thread filtered just as we are, and are the calls that recording needs allowed then? */
bool ct_filters_are_ours(struct ct_remote *remote, int tid);
/* Is it known that the stopped thread's filters allow what an agent calls? Only who may lift them can know. */
bool ct_filters_allow_agents_traced(int tid);

/* ---- open.c ---- */

int ct_remote_allocate(struct ct_remote **out, int pid);
/* Opens the memory of the image that runs now; -errno when it fails. */
int ct_remote_open_image(struct ct_remote *remote);
void ct_remote_free(struct ct_remote *remote);

/* ---- patience.c ---- */

/* The process has just been stopped; it is about to be resumed. */
void ct_patience_begin(struct ct_remote *remote);
void ct_patience_end(struct ct_remote *remote);
/* The same question as ct_remote_is_over, from the caller who waits for the tracer. */
bool ct_patience_ask(struct ct_remote *remote);
/* The earlier of the two. */
uint64_t ct_patience_deadline(const struct ct_remote *remote, uint64_t deadline_ms);

/* ---- tracer.c ---- */

/* Apart: in a process of its own, when that is possible. */
int ct_tracer_start(struct ct_remote *remote, bool vforked);
int ct_tracer_run(struct ct_remote *remote, int (*job)(struct ct_remote *remote, void *arg), void *arg);
/* Everything that is traced runs on when this returns. */
void ct_tracer_end(struct ct_remote *remote);

/* For the tracer while it waits for something else than a job: is there one, or nobody left to give one? */
enum tracer_news { TRACER_NONE, TRACER_JOB, TRACER_ORPHAN };
enum tracer_news ct_tracer_news(struct ct_remote *remote);

/* Called before every step that changes the other process; for tests that let us die at each of them. */
extern void (*ct_remote_step)(void);
/* The same for the time between the request to stop and the look at a thread's registers. */
extern void (*ct_remote_waiting)(void);
/* For tests of what is done where only ancestors may trace. */
extern bool ct_remote_never_vfork;

/* ptrace without errno: >= 0 or -E... */
long ct_trace(int request, int tid, uint64_t address, uint64_t data);
/* What such a result means: CT_ERR_NOT_FOUND when the thread has been killed. */
int ct_trace_status(long result);

enum stop_kind { STOP_GONE, STOP_EVENT, STOP_SIGNAL, STOP_CALL };
struct stop {
    enum stop_kind kind;
    int number;       /* of the event, or the signal */
    bool job_control; /* a PTRACE_EVENT_STOP because the process is to stand still until SIGCONT */
};
/* What wait has told of a thread. */
void ct_trace_describe(const siginfo_t *info, struct stop *stop);
/* The thread's stop, or end, without waiting and without taking it off the wait queue; false: it runs. */
bool ct_trace_look(int tid, struct stop *stop);
/* Waits for the thread's next stop without taking it off the wait queue. CT_ERR_TIMEOUT */
int ct_trace_wait(int tid, uint64_t deadline_ms, struct stop *stop);
/* Is the fault of the instruction where the stopped thread stands still to be delivered? Whatever the thread's registers are by then, its
 * handler would be told that it happened there. */
bool ct_trace_has_fault(int tid);
/* From a PTRACE_EVENT_STOP of such a thread to the stop of the fault's signal. */
int ct_trace_come_to_fault(int tid, uint64_t deadline_ms, struct stop *stop);
/* Brings a thread from any stop to a PTRACE_EVENT_STOP without any instruction of the program being run. The signal is
 * delivered: the thread then stands at its handler. CT_ERR_NOT_FOUND: the thread has ended. */
int ct_trace_settle(int tid, int signal, uint64_t deadline_ms);
/* The same for a thread that runs, or stands in a stop of job control. */
int ct_trace_halt(int tid, uint64_t deadline_ms);

/* ---- threads.c ---- */

/* Makes the one thread of a process that we have just started the stopped set. */
int ct_remote_adopt_traced(struct ct_remote *remote);

/* ---- watch.c ---- */

/* Handles what happens to the watched process until there is a job, or nobody to give one, or (TRACER_NONE) it has ended. */
enum tracer_news ct_watch_run(struct ct_remote *remote);
/* Stop and resume of a process that is watched, on the tracer. A stop that failed is undone by a resume. */
int ct_watch_stop_traced(struct ct_remote *remote, unsigned limit_ms);
int ct_watch_resume_traced(struct ct_remote *remote, void *arg);
void ct_watch_free(struct ct_remote *remote);

/* ---- cpu.c ---- */

/* As the kernel has them. */
int ct_remote_read_registers_traced(int tid, struct ct_registers *regs);
int ct_remote_write_registers_traced(int tid, const struct ct_registers *regs);
/* The thread goes on there, and makes no system call before. */
void ct_remote_divert(struct ct_registers *regs, uint64_t pc);
/* Of a thread in any stop. */
int ct_remote_read_thread_traced(int tid, struct ct_remote_thread *thread);
/* Its general registers, pc and flags. */
int ct_remote_write_thread_traced(const struct ct_remote_thread *thread);

/* ---- cpu_<isa>.c ---- */

/* What is shown of a thread's registers. */
void ct_remote_cpu_show(const struct ct_registers *regs, struct ct_remote_cpu *cpu);
bool ct_remote_cpu_differ(const struct ct_remote_cpu *a, const struct ct_remote_cpu *b);
/* Puts all that `cpu` has into the registers; an interrupted call stays as it is. */
void ct_remote_cpu_put(const struct ct_remote_cpu *cpu, struct ct_registers *regs);
/* Puts what differs from what was shown before. */
void ct_remote_cpu_change(const struct ct_remote_cpu *before, const struct ct_remote_cpu *cpu,
                          struct ct_registers *regs);

/* ---- frames_<isa>.c ---- */

/* The frame of a signal handler in a copy of a stack: where pc and stack pointer of what it interrupted are. */
struct ct_remote_frame_at {
    size_t pc, sp;
    size_t next; /* the search goes on here; 0: it begins */
};
/* False: there is no further one. */
bool ct_remote_next_frame(struct ct_remote *remote, const uint8_t *bytes, size_t size,
                          struct ct_remote_frame_at *found);

/* ---- gadget.c ---- */

/* Finds executable bytes that belong to nothing, CT_REMOTE_GADGET_ROOM of them. */
enum { CT_REMOTE_GADGET_ROOM = 384 };
int ct_remote_find_gadget(struct ct_remote *remote);

/* ---- call_<isa>.c ---- */

struct call {
    bool is_syscall;
    uint64_t function; /* or the number */
    uint64_t stack;
    uint64_t arguments[6];
    uint64_t result;
};

/* What a thread goes back to, and the code and data that let it do so by itself. */
struct saved {
    struct ct_registers regs; /* as the kernel has them: an interrupted call is the kernel's to repeat */
    uint64_t mask;
    uint8_t code[CT_REMOTE_GADGET_ROOM];
};

/* Can this thread be made to call something? */
bool ct_call_possible(const struct ct_registers *regs);
/* Fills code from regs and mask, for a place at `gadget`. */
void ct_call_write_code(struct saved *saved, uint64_t gadget);
/* Where that has the name of memory that is shared. */
uint64_t ct_call_name(uint64_t gadget);
/* Is this such code, and where does it lead back to? */
bool ct_call_is_code(const uint8_t bytes[CT_REMOTE_GADGET_ROOM], uint64_t *pc, uint64_t *sp);
/* The registers that start the call. */
void ct_call_registers(const struct call *call, const struct saved *saved, uint64_t gadget, struct ct_registers *regs);
/* Where the call is over: the address behind the system call instruction at whose stop its result can be read, and whether
 * it is the stop at the instruction's end. */
uint64_t ct_call_end(const struct call *call, uint64_t gadget, bool *at_exit);
/* The result at that stop; false: the kernel wants to repeat the call. */
bool ct_call_result(struct call *call, const struct ct_registers *regs);

#endif

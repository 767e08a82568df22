/* Seizing and stopping every thread of a process, and the registers of stopped threads: what stopping one's own threads
 * (stop_helper.c) and tracing another process (src/remote) share.
 *
 * Whatever happens to the tracer, the threads go on: the kernel detaches what a dead tracer leaves. Stops are looked at with
 * WNOWAIT: a signal whose delivery-stop was taken off the wait queue would be lost with the tracer. */
#ifndef CT_OS_LINUX_SEIZE_H
#define CT_OS_LINUX_SEIZE_H

#include "os/os.h" /* and not syscall.h: users of the libc include this too */

enum { SEIZE_DIRECTORY_BUFFER = 16 << 10, SEIZE_FIRST_THREADS = 256 };

struct seize_thread {
    int tid;
    int signal;   /* taken from the thread by the stop, to be handed back when it resumes; 0: none */
    bool stopped; /* false: seized, and still running or already gone */
    bool gone;
    bool changed; /* regs differ from what the thread has */
    struct ct_registers regs;
    struct ct_registers original; /* what get_regs reports first */
};

struct seize_set {
    int pid;    /* of the process */
    int except; /* a thread that is left alone; 0: none */
    int holder; /* number of a tracer that may have seized threads already, the calling one; 0: there is none */
    int child;  /* the main thread when it is our own child, whose end is not ours to reap; 0: it is not */
    unsigned long options; /* PTRACE_O_... */
    /* Sleeps until some thread may have news: true, or a while is over: false. */
    bool (*sleep)(void);
    /* Reads the process's memory. */
    ct_registers_read_memory *read;
    const void *memory;
    struct seize_thread *threads;
    size_t count, capacity;
    char directory[SEIZE_DIRECTORY_BUFFER];
};

/* Memory for the threads; the other members are the caller's to fill in. */
int ct_seize_prepare(struct seize_set *set);
void ct_seize_release(struct seize_set *set);
/* Adds a thread that the caller has seized himself, or NULL. */
struct seize_thread *ct_seize_add(struct seize_set *set, int tid);

/* Stops every thread. On failure some are seized, stopped or not: whoever ends a stop looks at `stopped`. The limit is for threads
 * that cannot stop; those that only wait for the processor have CT_SEIZE_LIMITS of them. */
enum { CT_SEIZE_LIMITS = 5 };
int ct_seize_all(struct seize_set *set, unsigned limit_ms);
/* A stopped thread only ends by SIGKILL, with all others, or by an exec that waits until nobody traces them any more. */
bool ct_seize_were_killed(const struct seize_set *set);

/* Looks once whether the thread has stopped or ended; event: the PTRACE_EVENT_... of the stop, 0: none. */
int ct_seize_poll(const struct seize_set *set, struct seize_thread *thread, int *event);

/* A process that shares our memory and descriptors and runs run(arg) on a stack of its own, and as long as it does takes the
 * place of the calling thread, which gets its pid when it has ended (or -E...) and has to reap it, with __WALL. */
long ct_seize_run_vforked(void *stack_top, void (*run)(void *arg), void *arg);

/* State ('R', 'S', 'Z', ...) of a thread and the pid of its tracer (0: none); false when it does not exist. */
bool ct_seize_task_state(int pid, int tid, char *state, int *tracer);
uint64_t ct_seize_now_ms(void);

/* ---- registers_<isa>.c: of a thread that the calling thread traces and that is stopped ---- */

/* As the kernel has them, and back; >= 0 or -E... */
long ct_registers_read(int tid, struct ct_registers *r);
long ct_registers_write(int tid, const struct ct_registers *r);
/* Reads them, and makes the kernel repeat the system call that the stop has interrupted. */
int ct_seize_read_registers(struct seize_thread *thread);
/* Gives the thread what differs between regs and original, all at once. */
int ct_seize_write_registers(const struct seize_set *set, const struct seize_thread *thread);

#endif

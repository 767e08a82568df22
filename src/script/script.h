/* SPDX-License-Identifier: Apache-2.0 */
/* Scripting a process from outside: hooks whose callbacks run in the controller, and work done by the threads that wait
 * for them.
 *
 * A callback is a request in memory that the agent (agent/script_agent.c, in the target) and the controller share. The
 * thread of the target waits in the agent; the controller looks at its registers, lets it do work (call a function),
 * and answers. A thread never waits for a controller that is dead, nor longer than the time limit: then it goes on
 * unchanged, and is counted.
 *
 * Threads: every function may be called from any thread of the controller, except where it says otherwise; what would
 * collide waits inside. Functions return 0 (or a count) or a negative code of contrail/status.h. After a failure
 * ct_script_error has one sentence for the user. Addresses are the target's. */
#ifndef CT_SCRIPT_SCRIPT_H
#define CT_SCRIPT_SCRIPT_H

#include <contrail/cpu.h>
#include <contrail/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ct_script;

/* ---- one target ---- */

struct ct_script_options {
    uint32_t size;       /* of this structure */
    uint32_t timeout_ms; /* how long a thread waits for an answer, or for the next work; 0: 1,000 */
    uint32_t spin_us; /* how long both sides look for news before they sleep; 0: 30; UINT32_MAX: they sleep at once */
    uint32_t sleeps;  /* 1: ct_script_wait sleeps at once; another thread looks for news, with ct_script_look */
    /* ct_script_spawn, for a controller that has changed its own, as Node does: the program ignores these signals (bit
     * 0: signal 1) and no others, and its limit of open files is this one; 0: as ours. */
    uint32_t set_signals, open_files;
    uint64_t ignored_signals;
};

/* Gets into a running process. Nothing is hooked afterwards, and the process runs. `options` may be NULL. On failure
 * `error` (may be NULL) gets one sentence. CT_ERR_BUSY: somebody follows or scripts it already. If it is recorded, the
 * script runs beside the recording, with up to three others: functions that are recorded can be hooked, not replaced;
 * nothing can be followed; when the recording ends, so does the script (CT_SCRIPT_ALONE). */
int ct_script_attach(struct ct_script **out, int pid, const struct ct_script_options *options, char *error,
                     size_t error_size);
/* Starts a program (`path`: with a slash, or looked up in PATH; argv and envp end with NULL; envp NULL: ours), which
 * stops before its first constructor, until ct_script_resume. Its standard streams are ours. */
int ct_script_spawn(struct ct_script **out, const char *path, char *const *argv, char *const *envp,
                    const struct ct_script_options *options, char *error, size_t error_size);
/* For the recorder itself, in whose process it is: `remote` is its own, with the target stopped, and stays so. Only
 * work that needs no controller can be done there: native listeners. The handle ends with ct_script_abandon, after the
 * recording or before it. */
struct ct_remote;
int ct_script_join(struct ct_script **out, struct ct_remote *remote, char *error, size_t error_size);
/* Frees the handle, and leaves the target as it is: the recorder takes everything out. */
void ct_script_abandon(struct ct_script *s);
/* Lets a spawned process run. CT_ERR_BAD_STATE: it does already. */
int ct_script_resume(struct ct_script *s);
/* Everything leaves the target: threads that wait go on unchanged, hooks are removed, memory is unmapped, the same maps
 * as before (but memory that ct_script_alloc gave is unmapped too, and that which work has mapped is not). Then the
 * handle is freed, whatever is returned. A spawned process that was not resumed is resumed. No other call may be under
 * way, except ct_script_wait and ct_script_run: they return CT_ERR_NOT_FOUND; call ct_script_shut first and wait for
 * them. CT_ERR_BUSY: a thread is still inside a hooked function; hooks are gone, some of our memory stays in the
 * target, and does no harm. */
int ct_script_close(struct ct_script *s);
/* From now on ct_script_wait and ct_script_run return CT_ERR_NOT_FOUND at once. Threads that wait go on unchanged. */
void ct_script_shut(struct ct_script *s);

/* Another time limit, from now on. 0: as at the start. */
int ct_script_set_timeout(struct ct_script *s, uint32_t timeout_ms);

/* The sentence for what failed last, on any thread. The text is copied: at most `size` bytes, always ended. */
void ct_script_error(struct ct_script *s, char *text, size_t size);
/* There is no such sentence until something fails again. */
void ct_script_forget_error(struct ct_script *s);

enum ct_script_life {
    CT_SCRIPT_STOPPED, /* spawned, and not resumed */
    CT_SCRIPT_RUNNING,
    CT_SCRIPT_ENDED,    /* exited or killed */
    CT_SCRIPT_REPLACED, /* it has executed another program: nothing of ours is in it */
    CT_SCRIPT_ALONE,    /* it runs, but the recording beside which it was scripted has ended */
};
struct ct_script_state {
    uint32_t life;       /* enum ct_script_life */
    int32_t exit_status; /* as wait(2) reports it; -1: unknown. Of a spawned process it is known once it has ended */
    int32_t pid, pad;
    uint64_t timeouts;    /* callbacks whose thread went on without an answer */
    uint64_t unserved;    /* callbacks that found no free slot in time (224 wait at a time): their threads went on */
    uint64_t lost_events; /* of the Stalker: the ring was full */
    uint64_t hooks;       /* installed now */
    uint64_t main_base;   /* load address of the program */
};
int ct_script_get_state(struct ct_script *s, struct ct_script_state *out);

/* ---- what is in the target: reads files and maps, stops nothing unless it says so ---- */

struct ct_script_thread {
    int32_t tid;
    char state; /* R S D T Z ... */
    char name[16];
    char pad[3];
};
/* *out is one allocation: release with free(). Threads of our own (the worker) are left out. */
int ct_script_threads(struct ct_script *s, struct ct_script_thread **out, size_t *count);

struct ct_script_module {
    uint64_t base, size; /* first mapped byte; to the end of the last segment */
    uint64_t bias;       /* address = bias + address in the file */
    char *path;          /* freed with the list */
};
/* The program first, then by address. Released with ct_script_free_modules. */
int ct_script_modules(struct ct_script *s, struct ct_script_module **out, size_t *count);
void ct_script_free_modules(struct ct_script_module *modules, size_t count);

enum ct_script_symbol_flags {
    CT_SCRIPT_FUNCTION = 1, /* else a variable */
    CT_SCRIPT_GLOBAL = 2,
    CT_SCRIPT_WEAK = 4,
    CT_SCRIPT_IFUNC = 8,      /* address is that of the resolver */
    CT_SCRIPT_UNDEFINED = 16, /* an import: address is where it is bound to, 0: not known */
    CT_SCRIPT_TLS = 32,       /* address is an offset in the module's thread-local storage */
    CT_SCRIPT_OLD = 64,       /* a version of the name for programs that were linked with an older library */
};
struct ct_script_symbol {
    uint64_t address, size;
    uint64_t slot; /* imports, and functions that are chosen at run time: the pointer in the GOT; 0: not known */
    uint32_t flags;
    uint32_t section;    /* number of its section in the file; 0: none */
    const char *name;    /* as in the table, without a version */
    const char *version; /* imports: module or version that it comes from; "" when not known */
};
enum ct_script_list {
    CT_SCRIPT_EXPORTS, /* what .dynsym defines */
    CT_SCRIPT_IMPORTS, /* what .dynsym leaves undefined */
    CT_SCRIPT_SYMBOLS, /* .symtab, or that of the separate debug file; .dynsym when there is none */
};
/* Symbols of the module that is mapped at `base`. One allocation, names included: release with free(). */
int ct_script_symbols(struct ct_script *s, uint64_t base, enum ct_script_list list, struct ct_script_symbol **out,
                      size_t *count);

struct ct_script_range {
    uint64_t start, end, offset;
    uint32_t protection; /* PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4 */
    uint32_t shared;
    const char *path; /* "" when anonymous */
};
/* Mappings, without those of ours. One allocation: release with free(). */
int ct_script_ranges(struct ct_script *s, struct ct_script_range **out, size_t *count);

/* What is at an address. All texts are "" when not known. CT_ERR_NOT_FOUND: no module is there. */
struct ct_script_place {
    uint64_t function; /* where it begins; 0: not known */
    uint64_t module_base;
    uint32_t line, column;
    char name[512];   /* demangled */
    char module[256]; /* file name without directories */
    char file[512];
};
int ct_script_describe(struct ct_script *s, uint64_t address, struct ct_script_place *out);
/* Functions by name (as in a symbol table, or demangled without parameters) or by glob, in all modules; debug symbols
 * too. Writes at most `room` addresses, ordered by module; returns how many there are. */
int64_t ct_script_find_functions(struct ct_script *s, const char *name_or_glob, uint64_t *addresses, size_t room);

/* The stack of a thread, innermost frame first: pc of it, then return addresses (the real ones, hooked or not).
 * `slot`: of a thread that waits: from its registers, without a stop. Else CT_SCRIPT_NO_SLOT, and `tid` is stopped for
 * the moment. `fuzzy`: every word of the stack that looks like a return address. Returns the number of frames. */
int ct_script_backtrace(struct ct_script *s, uint32_t slot, int32_t tid, bool fuzzy, uint64_t *frames, size_t room);

/* ---- memory ---- */

/* Whatever the protection. A part that is not mapped: CT_ERR_NOT_MAPPED; nothing has been written then. */
int ct_script_read(struct ct_script *s, uint64_t address, void *bytes, size_t size);
int ct_script_write(struct ct_script *s, uint64_t address, const void *bytes, size_t size);
/* As ct_script_read, but returns how many bytes could be read from `address` on. */
int64_t ct_script_read_some(struct ct_script *s, uint64_t address, void *bytes, size_t size);
/* Whole pages; `near` 0: anywhere; else within 1 GiB of it. It is ours: freed by ct_script_free, or at the end. The
 * process is stopped for a moment, unless `slot` is of a thread that waits: then that one does it. `protection` as
 * above; executable and writable at once is refused where the system refuses it (CT_ERR_PERMISSION_DENIED). */
int ct_script_alloc(struct ct_script *s, uint32_t slot, uint64_t near, uint64_t size, uint32_t protection,
                    uint64_t *address);
int ct_script_free(struct ct_script *s, uint32_t slot, uint64_t address);
/* *before (may be NULL) is what the first page had. */
int ct_script_protect(struct ct_script *s, uint32_t slot, uint64_t address, uint64_t size, uint32_t protection,
                      uint32_t *before);

/* ---- hooks ---- */

enum ct_script_hook_flags { CT_SCRIPT_ON_ENTER = 1, CT_SCRIPT_ON_LEAVE = 2 };

struct ct_script_hook {
    uint64_t address; /* first byte of a function */
    uint32_t flags;   /* which callbacks become requests */
    int32_t status;   /* result: 0, or why it has no hook; ct_script_error explains the first one */
    uint32_t id;      /* result: of the hook, in requests; never used again for another function */
    uint32_t pad;
    uint64_t native_enter; /* instead of a request: a function in the target (CModule), 0: none. Called as */
    uint64_t native_leave; /*   void f(struct ct_cpu_context *, struct ct_hook_call *) on the thread, native speed */
    uint64_t user;         /* ct_hook_call.user of these */
    uint64_t replacement;  /* calls go here instead; 0: none. flags and natives are ignored then */
    uint64_t original;     /* result: calling this runs the function as it was, unhooked */
};
/* Installs them under one stop of the process. Returns the number that were installed, or a negative code if none could
 * be tried. CT_ERR_ALREADY_HOOKED per hook: one hook a function; to change it, call again with CT_SCRIPT_ON_... and the
 * same address after ct_script_unhook, or use ct_script_change. CT_ERR_NOT_FUNCTION, CT_ERR_HOOK_FAILED (too short,
 * branched into, watched by the engine itself, ...). CT_ERR_UNSUPPORTED: its returns are not seen (dlopen, setjmp). */
int ct_script_hook(struct ct_script *s, struct ct_script_hook *hooks, size_t count);
/* Could this function be hooked, with these callbacks (enum ct_script_hook_flags)? Stops nothing; 0, or a status as
 * above. */
int ct_script_check_hook(struct ct_script *s, uint64_t address, uint32_t flags);
/* Other callbacks for a hook: flags, natives and user are set at once, no thread is stopped. */
int ct_script_change(struct ct_script *s, const struct ct_script_hook *hook);
/* Puts the bytes back, under one stop. Calls that are open return correctly, without on_leave. */
int ct_script_unhook(struct ct_script *s, const uint32_t *ids, size_t count);

/* A function in the target that calls us: a request of kind CT_SCRIPT_CALLBACK each time. The answer's result registers
 * (rax, xmm0; x0, d0) are what it returns. Memory of it is freed at the end. *id names it in requests. */
int ct_script_callback(struct ct_script *s, uint32_t slot, uint64_t *address, uint32_t *id);

/* ---- requests ---- */

#define CT_SCRIPT_NO_SLOT UINT32_MAX

enum ct_script_kind {
    CT_SCRIPT_ENTER = 1,     /* a hooked function is called: cpu as in on_call of contrail/hook.h */
    CT_SCRIPT_LEAVE = 2,     /* it returns: cpu as in on_return */
    CT_SCRIPT_CALLBACK = 3,  /* ct_script_callback */
    CT_SCRIPT_CALLOUT = 4,   /* of a transformed block; id: the callout's */
    CT_SCRIPT_PROBE = 5,     /* id: the call probe's */
    CT_SCRIPT_TRANSFORM = 6, /* a block is to be translated; ct_script_block has it */
    CT_SCRIPT_EXCEPTION = 7, /* ct_script_watch_faults: an answer with changes: the thread goes on with them */
    CT_SCRIPT_EVENTS = 8,    /* no thread waits; ct_script_events takes them */
    CT_SCRIPT_GONE = 9,      /* no thread waits: the process has ended, or executes another program. Once, and last */
    CT_SCRIPT_MODULES = 10,  /* ct_script_watch_modules; ct_script_modules_seen says that they were looked at */
};

struct ct_script_request {
    uint32_t slot;   /* of the waiting thread; CT_SCRIPT_NO_SLOT: none waits */
    uint32_t kind;   /* enum ct_script_kind */
    uint32_t id;     /* of the hook, callback, callout, probe */
    int32_t tid;     /* as the controller sees it, like /proc/PID/task */
    uint32_t depth;  /* ENTER, LEAVE: hooked frames that are open below on this thread */
    uint32_t parent; /* slot whose work (ct_script_run) has led here; CT_SCRIPT_NO_SLOT: none */
    uint64_t ticket; /* of this request: an answer with an old one is refused */
    uint64_t call;   /* ENTER and LEAVE of one call have the same number, which no other open call has */
    uint64_t function, return_address;
    uint64_t fault, address; /* EXCEPTION: the signal, and the memory that was accessed; id: enum ct_script_operation */
    /* address of the saved vector registers in the target (XSAVE image; arm64: q0, q1, ...), while it waits */
    uint64_t vectors;
    uint64_t vectors_size; /* 0: they were not saved */
    struct {
        uint64_t gpr[16];  /* x86_64: as struct ct_cpu_x64. arm64: x0 to x15 */
        uint64_t more[16]; /* arm64: x16 to x28, fp, lr, sp */
        uint64_t pc, flags;
    } cpu;
};
/* The registers of a thread that does not wait for us, in `cpu` of *out, and its tid; it is stopped for the moment. */
int ct_script_registers(struct ct_script *s, int32_t tid, struct ct_script_request *out);

/* Waits for the next request, and takes it: it must be answered. Several threads may wait; each request goes to one.
 * Requests that work has caused (parent) go to the ct_script_run that did it, and never here. 0; CT_ERR_TIMEOUT (after
 * timeout_ms; 0: looks only; UINT32_MAX: for ever); CT_ERR_NOT_FOUND: ct_script_shut, or after CT_SCRIPT_GONE.
 * A request may be withdrawn before it is answered: its time limit is over. */
int ct_script_wait(struct ct_script *s, uint32_t timeout_ms, struct ct_script_request *request);
/* For one thread, which expects the next request soon: it looks for up to spin_us, and does not sleep. Meanwhile, and
 * after it has got a request, a thread in ct_script_wait gets nothing and is not woken: whoever has got one looks again
 * when it is handled, or calls ct_script_rest. 0; CT_ERR_TIMEOUT: none has come, and ct_script_wait gets the next one;
 * CT_ERR_NOT_FOUND: as there. */
int ct_script_look(struct ct_script *s, struct ct_script_request *request);
/* The thread that has looked does not look again for now: ct_script_wait gets the next request. */
void ct_script_rest(struct ct_script *s);
/* Lets the thread go on. `changed`: the request, with registers changed in cpu; NULL: unchanged. Of a hook pc and sp
 * are ignored. CT_ERR_TIMEOUT: it went on already, and what was changed has no effect. CT_ERR_NOT_FOUND: the process
 * is gone, or the thread. */
int ct_script_answer(struct ct_script *s, const struct ct_script_request *request, bool changed);
/* The thread waits longer: its time limit begins again. */
int ct_script_extend(struct ct_script *s, const struct ct_script_request *request);

/* Vector register n of a waiting thread: 16 bytes (xmm; v of arm64). Written ones take effect with the answer. */
int ct_script_read_vector(struct ct_script *s, const struct ct_script_request *request, unsigned n, void *bytes);
int ct_script_write_vector(struct ct_script *s, const struct ct_script_request *request, unsigned n, const void *bytes);

/* ---- libraries that come and go ---- */

/* From now on (or, `on` false, no longer) there is a request of kind MODULES when the program has loaded or unloaded
 * libraries. No slot waits for it, but the program's thread does, inside the dynamic linker and before constructors
 * run, until ct_script_modules_seen, at most for the time limit; not while ct_script_run is under way.
 * CT_ERR_UNSUPPORTED: the program has no dynamic linker that is known, or is recorded. */
int ct_script_watch_modules(struct ct_script *s, bool on);
void ct_script_modules_seen(struct ct_script *s, const struct ct_script_request *request);

/* ---- faults ---- */

enum ct_script_operation { CT_SCRIPT_NO_MEMORY, CT_SCRIPT_READS, CT_SCRIPT_WRITES, CT_SCRIPT_EXECUTES };

/* From now on SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP and SIGABRT of any thread become requests of kind EXCEPTION (or,
 * `on` false, no longer), before the program's own handlers or the kernel see them. `return_address` is the address of
 * the kernel's struct ucontext. The program sees its own actions as before. Not seen: signals that the program ignores,
 * and those of threads that block them. The process is stopped for a moment. CT_ERR_UNSUPPORTED: its sigaction is not
 * known. */
int ct_script_watch_faults(struct ct_script *s, bool on);

/* ---- work ---- */

struct ct_script_call {
    uint64_t function; /* 0: a system call: integers[0] is its number, six arguments follow; result is the kernel's */
    uint64_t integers[6]; /* arm64: 8, the last two in more_integers */
    uint64_t more_integers[2];
    uint64_t reals[8];    /* bits of double, or of float in the low half */
    uint32_t real_count;  /* in registers: what a variadic callee reads in al */
    uint32_t stack_count; /* further arguments, as eightbytes in their order; at most 64 */
    uint64_t stack[64];
    uint64_t errno_function; /* address of __errno_location; 0: errno is not wanted */
    uint64_t place;          /* arm64: x8, where a result goes that registers cannot hold */
    /* results */
    uint64_t result, result_high; /* rax, rdx; x0, x1 */
    uint64_t real, real_high;     /* xmm0, xmm1 (low halves); d0, d1 */
    uint64_t more_reals[2];       /* arm64: d2, d3 */
    int32_t error;                /* errno after the call; it was 0 before */
    int32_t fault;                /* signal number: the function faulted, see below; 0: it returned */
};
/* How the caller of ct_script_run serves requests that come from the running work: it answers each. */
typedef void ct_script_serve(void *arg, const struct ct_script_request *request);

/* Has the waiting thread of `slot` (request->slot) make the call, and waits for its end, however long it takes.
 * Requests of that thread that come meanwhile (hooked functions that the call reaches) are given to `serve` on the
 * calling thread; NULL: they go on unchanged.
 * `request` NULL: a worker thread makes it, which the target's own pthread_create has made at the first such call;
 * CT_ERR_UNSUPPORTED: the target has no pthread_create; CT_ERR_BUSY: no thread can be borrowed to call it now;
 * CT_ERR_BAD_STATE: the target is stopped (spawned, not resumed).
 * CT_ERR_TIMEOUT: the thread has gone on already. CT_ERR_NOT_FOUND: the process has ended, or ct_script_shut.
 * A fault in the called function is the program's own affair: its handler runs, or the process dies. */
int ct_script_run(struct ct_script *s, const struct ct_script_request *request, struct ct_script_call *call,
                  ct_script_serve *serve, void *arg);

/* ---- Stalker ---- */

enum ct_script_event_mask { /* the same bits as enum ct_stalker_event_kind */
                            CT_SCRIPT_EVENT_CALL = 1,
                            CT_SCRIPT_EVENT_RET = 2,
                            CT_SCRIPT_EVENT_EXEC = 4,
                            CT_SCRIPT_EVENT_BLOCK = 8,
                            CT_SCRIPT_EVENT_COMPILE = 16,
};
struct ct_script_follow {
    uint32_t mask;      /* enum ct_script_event_mask */
    uint32_t summary;   /* calls are counted instead of listed: batches of struct ct_script_call_count */
    uint32_t transform; /* 1: each new block becomes a request of kind CT_SCRIPT_TRANSFORM */
    uint32_t pad;
    /* Functions in the target (CModule), instead of requests and batches; 0: none */
    uint64_t native_transform; /* void f(GumStalkerIterator *, GumStalkerOutput *, void *user) */
    uint64_t native_on_event;  /* void f(const GumEvent *, GumCpuContext *, void *user) */
    uint64_t user;
};
/* `request`: of a waiting thread: it is followed from its answer on. NULL: thread `tid`, from now on. */
int ct_script_follow(struct ct_script *s, const struct ct_script_request *request, int32_t tid,
                     const struct ct_script_follow *what);
int ct_script_unfollow(struct ct_script *s, const struct ct_script_request *request, int32_t tid);
int ct_script_exclude(struct ct_script *s, uint64_t start, uint64_t size);
/* Holds at once. */
int ct_script_set_trust(struct ct_script *s, int32_t threshold);
/* `capacity`: events that are kept before they are handed over; interval 0: only by flush, or when it is full. They
 * hold for threads that are followed later. */
int ct_script_set_queue(struct ct_script *s, uint32_t capacity, uint32_t interval_ms);
int ct_script_invalidate(struct ct_script *s, int32_t tid, uint64_t address);
/* Followed threads hand over what they have recorded so far, but to sinks in C. */
int ct_script_flush(struct ct_script *s);
/* Frees translated code that was given up. Returns the number of bytes. */
int64_t ct_script_collect(struct ct_script *s);
int ct_script_add_probe(struct ct_script *s, uint64_t target, uint64_t native, uint64_t user, uint32_t *id);
int ct_script_remove_probe(struct ct_script *s, uint32_t id);

/* As struct ct_stalker_event. */
struct ct_script_event {
    uint32_t kind;
    int32_t depth;
    uint64_t location, target, timestamp;
};
struct ct_script_call_count {
    uint64_t target, count;
};
struct ct_script_events {
    int32_t tid;
    uint32_t summary; /* `bytes` are struct ct_script_call_count; else struct ct_script_event */
    size_t count;
    size_t bytes;  /* of all of them */
    uint64_t lost; /* events that were lost before these */
    const void *data;
};
/* The oldest batch that is not taken; CT_ERR_NOT_FOUND: none. `data` stays until ct_script_events_done. */
int ct_script_events(struct ct_script *s, struct ct_script_events *out);
void ct_script_events_done(struct ct_script *s, const struct ct_script_events *events);

/* ---- transforms: the answer to CT_SCRIPT_TRANSFORM ---- */

struct ct_script_insn {
    uint64_t address;
    uint32_t length, flags;
    uint8_t bytes[16];
};
/* The block of the request: its instructions, at most `room`; returns how many there are. */
int ct_script_block(struct ct_script *s, const struct ct_script_request *request, struct ct_script_insn *insns,
                    size_t room);
enum ct_script_edit_kind {
    CT_SCRIPT_KEEP = 1,        /* the instruction `insn` (index in the block). What no edit keeps is left out */
    CT_SCRIPT_BYTES = 2,       /* machine code as it is, `length` bytes of `bytes`: does not depend on its address */
    CT_SCRIPT_PUT_CALLOUT = 3, /* a request of kind CT_SCRIPT_CALLOUT with this id; or `address`: native callout */
    CT_SCRIPT_PUT_COUNT = 4,   /* adds one to the word at `address` */
    CT_SCRIPT_PUT_LABEL = 5,   /* `id`: the place after all edits before it */
    CT_SCRIPT_PUT_JUMP = 6,    /* forward to the label `id`; `user`: the machine's condition, 16: always. At most 64 */
    CT_SCRIPT_PUT_COPY = 7,    /* a copy of the instruction at `address`, not a branch */
};
struct ct_script_edit {
    uint32_t kind, insn;
    uint32_t id, length;
    uint64_t address, user;
    uint8_t bytes[64];
};
/* Answers a transform. NULL, 0: everything is kept. */
int ct_script_transform(struct ct_script *s, const struct ct_script_request *request,
                        const struct ct_script_edit *edits, size_t count);

/* ---- code of one's own in the target (CModule) ---- */

struct ct_script_name {
    const char *name;
    uint64_t address;
};
/* Loads a relocatable ELF object (freestanding, of the target's machine) into the target: allocated sections, linked
 * against `names` (what the script gives) and then functions that modules of the target export (not those with a
 * resolver, like strlen: give their addresses). `ct_counter_NAME` is a counter: see
 * ct_script_counter. CT_ERR_BAD_FILE with a sentence: not such an object, or a symbol that nobody has. */
struct ct_script_object;
int ct_script_load(struct ct_script *s, const void *bytes, size_t size, const struct ct_script_name *names,
                   size_t count, struct ct_script_object **out);
uint64_t ct_script_object_symbol(const struct ct_script_object *object, const char *name); /* 0: it has none */
/* What the object defines, by index; NULL after the last. */
const char *ct_script_object_next(const struct ct_script_object *object, size_t index, uint64_t *address);
/* A word that a C module counts in (`ct_counter_NAME`), by index in the order of appearance; it can be read for as long
 * as the handle is there, also after the target's end. NULL: there are no more. */
const char *ct_script_counter(struct ct_script *s, size_t index, uint64_t *value);
/* The handle is freed. The code stays in the target until the script leaves it: a thread may be inside. */
int ct_script_unload(struct ct_script *s, struct ct_script_object *object);

#ifdef __cplusplus
}
#endif
#endif

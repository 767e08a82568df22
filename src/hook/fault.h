/* SPDX-License-Identifier: Apache-2.0 */
/* Faults in our code, shown as the program would have had them.
 *
 * A function's first instructions run in its stub. A handler, a core file or a stack walker that looks at a fault there
 * must see the address that the instruction has in the function. And a stub's own pushes may reach the end of a stack
 * that the program itself would not have reached yet: then the call is not recorded, and the program goes on.
 *
 * Handlers: the kernel gets ct_fault_entry in place of the program's fault handlers, with the program's flags, mask and
 * restorer. It corrects the signal frame and jumps to the program's handler, which runs on the same stack, with the
 * same arguments, and none of our frames is seen. A handler that lets a moved instruction run again names its original
 * address, which may be in the middle of our patch. For these faults alone the handler returns through us, by an entry
 * on the shadow stack like that of any other frame: unwinders, detaching and handlers that jump away find what they
 * know. Handlers that are already there are taken over when we come (ct_fault_take); later ones come through sigaction,
 * which is a service. When the program asks for its handlers, it gets its own.
 *
 * A listener (ct_fault_watch) sees faults before the program does, with the program's registers. Then the kernel gets
 * our entry in place of its own action too, which ends the process: the program sees that none is installed, and dies
 * of the signal all the same, unless the listener says that it goes on.
 *
 * Freestanding. Owner of the table of handlers: the thread that calls sigaction. A program that races with itself may
 * see the other thread's handler. */
#ifndef CT_HOOK_FAULT_H
#define CT_HOOK_FAULT_H

#include "hook/runtime.h"
#include "hook/stub.h"

/* SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV */
#define CT_FAULT_SIGNALS (1u << 4 | 1u << 5 | 1u << 7 | 1u << 8 | 1u << 11)
/* The same and SIGABRT: what a listener sees. */
#define CT_FAULT_WATCHED (CT_FAULT_SIGNALS | 1u << 6)

/* How the process that had the fault is read. */
struct ct_fault_world {
    ct_stub_read *code; /* of our regions only */
    ct_stub_read *data;
    void *arg;
    uint64_t hooks; /* its table of struct ct_hook_entry */
    uint64_t block; /* the thread's */
};

struct ct_fault_state {
    uint64_t gpr[CT_FRAME_REGISTERS]; /* in the order of the machine's numbers */
    uint64_t pc, flags;
    uint64_t stub; /* result: the stub of the function */
};

enum ct_fault_place {
    CT_FAULT_ELSEWHERE, /* not in a stub, or not known: nothing was changed */
    CT_FAULT_MOVED,     /* at the copy of an instruction */
    CT_FAULT_ENTERING,  /* a stub was working on a call: as if the function was about to begin */
    CT_FAULT_LEAVING,   /* a stub was working on a return: as if the function had returned */
};

/* Changes *state to what the program would have without us. */
enum ct_fault_place ct_fault_recover(const struct ct_fault_world *world, struct ct_fault_state *state);
void ct_fault_load(const struct ct_cpu_context *cpu, struct ct_fault_state *state);
void ct_fault_store(const struct ct_fault_state *state, struct ct_cpu_context *cpu);
uint64_t ct_fault_sp(const struct ct_fault_state *state);
/* CT_FAULT_ENTERING: where the function begins without being recorded. */
uint64_t ct_fault_unrecorded(const struct ct_fault_state *state);

/* ---- in the process itself ---- */

struct ct_fault_context;

struct ct_fault {
    uint64_t signal;
    const uint64_t *info;             /* the kernel's struct siginfo */
    struct ct_fault_context *context; /* of the signal frame */
    struct ct_fault_state state;      /* the program's registers */
};
/* True: the thread goes on with `state` as the listener has left it. */
typedef bool ct_fault_listener(struct ct_fault *fault);

/* What a fault of memory was about: false: it was not about memory. */
enum ct_fault_operation { CT_FAULT_READ = 1, CT_FAULT_WRITE, CT_FAULT_EXECUTE };
bool ct_fault_access(const struct ct_fault *fault, uint64_t *address, enum ct_fault_operation *operation);

/* Where the kernel goes, and the program's handlers by signal; the rest is room to read and write actions from outside
 * (abi/boot_abi.h). */
extern struct ct_boot_faults ct_fault_table;

/* Takes over the handlers that are there. They are given back from outside (inject/eject.c). */
void ct_fault_take(struct ct_runtime *rt);
/* sigaction(signal, *new_action, *old_action) is about to run; changes the arguments with which it does. `own_table`:
 * the table belongs to this process, which may change it. */
void ct_fault_sigaction(bool own_table, uint64_t signal, uint64_t *new_action, uint64_t *old_action);

/* From now on the listener sees faults first, until the handlers are given back. No thread may be about to call
 * sigaction. Signals that the program ignores are left alone: it may execute another program, which would ignore them
 * too. */
int ct_fault_watch(ct_fault_listener *listener);

/* fault_context_<isa>.c: the kernel's struct ucontext. */
void ct_fault_context_load(const struct ct_fault_context *context, struct ct_fault_state *state);
void ct_fault_context_store(struct ct_fault_context *context, const struct ct_fault_state *state);
uint64_t *ct_fault_context_pc(struct ct_fault_context *context);
/* That of the handler whose frame has this slot. */
struct ct_fault_context *ct_fault_context_at(uint64_t slot);
/* The frame's return unblocks the signal. */
void ct_fault_context_unblock(struct ct_fault_context *context, uint64_t signal);
/* Its vector registers, as struct ct_cpu_context has them; 0: in another form. */
uint64_t ct_fault_context_vectors(const struct ct_fault_context *context);
/* What the kernel needs to return from a handler, where programs bring it themselves; 0: nothing. */
uint64_t ct_fault_restorer(void);
/* Did our own use of the stack cause the fault? */
bool ct_fault_is_stack_end(const struct ct_fault_context *context, const struct ct_fault_state *state);

/* fault_entry_<isa>.S */
extern const uint8_t ct_fault_entry[], ct_fault_stub[];

#endif

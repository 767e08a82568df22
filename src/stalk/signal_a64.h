/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of a signal, Linux/arm64. See signal_x64.h for what each function is for. */
#ifndef CT_STALK_SIGNAL_A64_H
#define CT_STALK_SIGNAL_A64_H

#include "os/linux/syscall.h"
#include "os/os.h"
#include "stalk/signals.h"

/* The kernel's struct ucontext; siginfo is below it, at the handler's stack pointer. */
struct context {
    uint64_t flags, link, stack[3];
    uint64_t mask, unused[16];
    uint64_t fault_address, x[31], sp, pc, pstate;
};
_Static_assert(offsetof(struct context, fault_address) == 176, "uc_mcontext");

enum { SIGINFO_SIZE = 128, BRANCH_TYPE = 3 << 10 };

static inline void read_context(const struct context *c, struct stalk_regs *r) {
    for (unsigned i = 0; i < 31; i++)
        r->gpr[i] = c->x[i];
    r->gpr[STALK_SP] = c->sp;
    r->pc = c->pc;
    r->flags = c->pstate;
}

/* A branch of ours, which has no landing pad, may have been the last instruction. */
static inline void write_context(struct context *c, const struct stalk_regs *r) {
    for (unsigned i = 0; i < 31; i++)
        c->x[i] = r->gpr[i];
    c->sp = r->gpr[STALK_SP];
    c->pc = r->pc;
    c->pstate &= ~(uint64_t)BRANCH_TYPE;
}

/* What ct_stalk_signal_entry keeps on the stack (entry_a64.S); signal.c knows the address of the mask. */
enum { ENTRY_X29 = -6, ENTRY_X30 = -5 };

static inline void begin_registers(uint64_t *gpr, uint64_t signal, const void *info, const struct context *c,
                                   const uint64_t *entry) {
    gpr[0] = signal;
    gpr[1] = (uint64_t)info;
    gpr[2] = (uint64_t)c;
    gpr[29] = entry[ENTRY_X29];
    gpr[STALK_LR] = entry[ENTRY_X30];
    gpr[STALK_SP] = (uint64_t)c - SIGINFO_SIZE;
}

static inline uint64_t *handler_return(struct context *c, uint64_t *entry) {
    (void)c;
    return &entry[ENTRY_X30];
}

static inline uint64_t handler_slot(const struct context *c) {
    return (uint64_t)c - SIGINFO_SIZE - 8;
}

static inline void resume_translated(struct context *c, struct stalk_area *a, uint64_t code) {
    a->gpr[STALK_X18] = c->x[STALK_X18];
    c->x[STALK_X18] = (uint64_t)a;
    c->pc = code;
}

static inline void resume_original(struct context *c, const struct stalk_area *a, uint64_t address) {
    c->x[STALK_X18] = a->gpr[STALK_X18];
    c->pc = address;
}

static inline bool interrupted_return(const struct context *c, uint64_t *address) {
    *address = c->x[STALK_LR];
    return true;
}

static inline uint64_t interrupted_slot(const struct context *c) {
    return c->sp - 8;
}

static inline struct context *sigreturn_frame(const uint64_t *gpr) {
    return (struct context *)(gpr[STALK_SP] + SIGINFO_SIZE);
}

static inline bool calls_sigreturn(const struct stalk_regs *r) {
    uint32_t code;
    return r->gpr[8] == __NR_rt_sigreturn && !ct_os_peek(r->pc, &code, sizeof code) && code == 0xd4000001;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of a signal, Linux/x86_64. For signal.c. */
#ifndef CT_STALK_SIGNAL_X64_H
#define CT_STALK_SIGNAL_X64_H

#include "os/linux/syscall.h"
#include "os/os.h"
#include "stalk/signals.h"

/* The kernel's struct ucontext. */
struct context {
    uint64_t flags, link, stack[3];
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, sp, pc, eflags;
    uint64_t segments, error, trap, oldmask, cr2, fpstate, reserved[8];
    uint64_t mask;
};
_Static_assert(offsetof(struct context, mask) == 296, "uc_sigmask");

static inline void read_context(const struct context *c, struct stalk_regs *r) {
    const uint64_t in_order[16] = {c->rax, c->rcx, c->rdx, c->rbx, c->sp,  c->rbp, c->rsi, c->rdi,
                                   c->r8,  c->r9,  c->r10, c->r11, c->r12, c->r13, c->r14, c->r15};
    for (unsigned i = 0; i < 16; i++)
        r->gpr[i] = in_order[i];
    r->pc = c->pc;
    r->flags = c->eflags;
}

static inline void write_context(struct context *c, const struct stalk_regs *r) {
    uint64_t *in_order[16] = {&c->rax, &c->rcx, &c->rdx, &c->rbx, &c->sp,  &c->rbp, &c->rsi, &c->rdi,
                              &c->r8,  &c->r9,  &c->r10, &c->r11, &c->r12, &c->r13, &c->r14, &c->r15};
    for (unsigned i = 0; i < 16; i++)
        *in_order[i] = r->gpr[i];
    c->pc = r->pc;
}

/* The handler's registers. `entry`: the mask in the frame of ct_stalk_signal_entry. */
static inline void begin_registers(uint64_t *gpr, uint64_t signal, const void *info, const struct context *c,
                                   const uint64_t *entry) {
    enum { RAX = 0, RDX = 2, RSP = 4, RSI = 6, RDI = 7 };
    (void)entry;
    gpr[RAX] = 0;
    gpr[RDI] = signal;
    gpr[RSI] = (uint64_t)info;
    gpr[RDX] = (uint64_t)c;
    gpr[RSP] = (uint64_t)c - 8; /* where the restorer's address is */
}

/* Where the restorer's address is when the handler begins, and the handler's slot in the order of frames. */
static inline uint64_t *handler_return(struct context *c, uint64_t *entry) {
    (void)entry;
    return (uint64_t *)c - 1;
}

static inline uint64_t handler_slot(const struct context *c) {
    return (uint64_t)c - 8;
}

/* The frame leads to translated code from now on, and back. */
static inline void resume_translated(struct context *c, struct stalk_area *a, uint64_t code) {
    (void)a;
    c->pc = code;
}

static inline void resume_original(struct context *c, const struct stalk_area *a, uint64_t address) {
    (void)a;
    c->pc = address;
}

/* The return address, if the interrupted thread was about to begin a function. */
static inline bool interrupted_return(const struct context *c, uint64_t *address) {
    return !ct_os_peek(c->sp, address, sizeof *address);
}

static inline uint64_t interrupted_slot(const struct context *c) {
    return c->sp;
}

/* The frame of an rt_sigreturn that is about to be made with these registers. */
static inline struct context *sigreturn_frame(const uint64_t *gpr) {
    return (struct context *)gpr[4];
}

static inline bool calls_sigreturn(const struct stalk_regs *r) {
    uint8_t code[2];
    return r->gpr[0] == __NR_rt_sigreturn && !ct_os_peek(r->pc, code, sizeof code) && code[0] == 0x0f &&
           code[1] == 0x05;
}

#endif

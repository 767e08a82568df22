/* SPDX-License-Identifier: Apache-2.0 */
/* Signal frames, x86_64: see fault.h. No state. */
#include "hook/fault.h"

_Static_assert(CT_STUB_NUMBER == CT_STUB_RESUME + 7 && CT_STUB_BODY == CT_STUB_NUMBER + 4,
               "ct_fault_stub: a jump of 5 bytes and 2 of padding, then the number");

enum { PAGE_FAULT = 14, STUB_STACK = 1024, ERROR_WRITE = 2, ERROR_FETCH = 16 };

/* The kernel's struct ucontext, as far as it matters. */
struct ct_fault_context {
    uint64_t flags, link, stack[3];
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
    uint64_t segments, error, trap, oldmask, cr2, vectors, reserved[8], mask;
};

static void exchange_registers(struct ct_fault_context *c, struct ct_fault_state *s, bool write) {
    uint64_t *const order[16] = {&c->rax, &c->rcx, &c->rdx, &c->rbx, &c->rsp, &c->rbp, &c->rsi, &c->rdi,
                                 &c->r8,  &c->r9,  &c->r10, &c->r11, &c->r12, &c->r13, &c->r14, &c->r15};
    for (unsigned i = 0; i < 16; i++)
        if (write)
            *order[i] = s->gpr[i];
        else
            s->gpr[i] = *order[i];
    if (write) {
        c->rip = s->pc;
        c->eflags = s->flags;
    } else {
        s->pc = c->rip;
        s->flags = c->eflags;
    }
}

void ct_fault_context_load(const struct ct_fault_context *c, struct ct_fault_state *state) {
    exchange_registers((struct ct_fault_context *)(uint64_t)c, state, false);
}

void ct_fault_context_store(struct ct_fault_context *c, const struct ct_fault_state *state) {
    exchange_registers(c, (struct ct_fault_state *)(uint64_t)state, true);
}

uint64_t *ct_fault_context_pc(struct ct_fault_context *c) {
    return &c->rip;
}

/* It begins just above the handler's return address. */
struct ct_fault_context *ct_fault_context_at(uint64_t slot) {
    return (struct ct_fault_context *)(slot + 8);
}

/* Did our own use of the stack cause the fault? The kernel gives siginfo only to handlers that ask for it, but this to
 * all. */
bool ct_fault_is_stack_end(const struct ct_fault_context *c, const struct ct_fault_state *s) {
    enum { RSP = 4 };
    return c->trap == PAGE_FAULT && c->cr2 < s->gpr[RSP] && s->gpr[RSP] - c->cr2 < STUB_STACK;
}

void ct_fault_context_unblock(struct ct_fault_context *c, uint64_t signal) {
    c->mask &= ~(1ull << (signal - 1));
}

uint64_t ct_fault_context_vectors(const struct ct_fault_context *c) {
    return c->vectors;
}

/* An address that no memory can have is a general protection fault: the machine does not say which, nor what for. */
bool ct_fault_access(const struct ct_fault *f, uint64_t *address, enum ct_fault_operation *operation) {
    enum { SIGBUS_ = 7, SIGSEGV_ = 11, ADDRESS = 2 };
    const struct ct_fault_context *c = f->context;
    if (f->signal != SIGBUS_ && f->signal != SIGSEGV_)
        return false;
    bool known = c->trap == PAGE_FAULT;
    *address = known ? c->cr2 : f->info[ADDRESS];
    *operation = !known                   ? CT_FAULT_READ
                 : c->error & ERROR_FETCH ? CT_FAULT_EXECUTE
                 : c->error & ERROR_WRITE ? CT_FAULT_WRITE
                                          : CT_FAULT_READ;
    return true;
}

extern const uint8_t ct_fault_restore[] __attribute__((visibility("hidden"))); /* fault_entry_x64.S */

uint64_t ct_fault_restorer(void) {
    return (uint64_t)ct_fault_restore;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Signal frames, arm64: see fault.h. No state. */
#include "hook/fault.h"

enum { SP = 31, STUB_STACK = 2048, INFO = 128 };

/* The kernel's struct ucontext, as far as it matters. */
struct ct_fault_context {
    uint64_t flags, link, stack[3], mask;
    uint64_t unused[16];
    uint64_t fault_address;
    uint64_t x[31], sp, pc, pstate;
    uint8_t records[4096] __attribute__((aligned(16))); /* each begins with its number and size */
};

void ct_fault_context_load(const struct ct_fault_context *c, struct ct_fault_state *state) {
    for (unsigned i = 0; i < SP; i++)
        state->gpr[i] = c->x[i];
    state->gpr[SP] = c->sp;
    state->pc = c->pc;
    state->flags = c->pstate;
    state->stub = 0;
}

void ct_fault_context_store(struct ct_fault_context *c, const struct ct_fault_state *state) {
    for (unsigned i = 0; i < SP; i++)
        c->x[i] = state->gpr[i];
    c->sp = state->gpr[SP];
    c->pc = state->pc;
    c->pstate = state->flags;
}

uint64_t *ct_fault_context_pc(struct ct_fault_context *c) {
    return &c->pc;
}

/* The handler's stack pointer is the start of the frame: siginfo, then this. */
struct ct_fault_context *ct_fault_context_at(uint64_t slot) {
    return (struct ct_fault_context *)(slot + 8 + INFO);
}

/* The kernel reports the address for faults of memory only; else it is 0, or an older one. */
bool ct_fault_is_stack_end(const struct ct_fault_context *c, const struct ct_fault_state *s) {
    return c->fault_address < s->gpr[SP] && s->gpr[SP] - c->fault_address < STUB_STACK;
}

void ct_fault_context_unblock(struct ct_fault_context *c, uint64_t signal) {
    c->mask &= ~(1ull << (signal - 1));
}

/* NULL: there is none. */
static const uint32_t *find_record(const struct ct_fault_context *c, uint32_t number) {
    for (size_t at = 0; at + 16 <= sizeof c->records;) {
        const uint32_t *record = (const uint32_t *)(c->records + at);
        if (record[0] == number)
            return record;
        if (!record[0] || record[1] < 16)
            return NULL;
        at += record[1];
    }
    return NULL;
}

/* Number, size, fpsr and fpcr (32 bits each) come before q0; what callbacks have comes after q31. */
uint64_t ct_fault_context_vectors(const struct ct_fault_context *c) {
    enum { VECTORS_RECORD = 0x46508001 };
    const uint32_t *record = find_record(c, VECTORS_RECORD);
    return record ? (uint64_t)(record + 4) : 0;
}

/* Of the exception; 0: it is not known. */
static uint64_t syndrome(const struct ct_fault_context *c) {
    enum { ESR_RECORD = 0x45535201 };
    const uint32_t *record = find_record(c, ESR_RECORD);
    return record ? *(const uint64_t *)(record + 2) : 0;
}

bool ct_fault_access(const struct ct_fault *f, uint64_t *address, enum ct_fault_operation *operation) {
    enum { SIGBUS_ = 7, SIGSEGV_ = 11, ADDRESS = 2, CLASS = 26, FETCH = 0x20, FETCH_SAME = 0x21, WRITES = 1 << 6 };
    if (f->signal != SIGBUS_ && f->signal != SIGSEGV_)
        return false;
    uint64_t esr = syndrome(f->context), class = esr >> CLASS & 0x3f;
    *address = f->info[ADDRESS];
    *operation = class == FETCH || class == FETCH_SAME ? CT_FAULT_EXECUTE
                 : esr & WRITES                        ? CT_FAULT_WRITE
                                                       : CT_FAULT_READ;
    return true;
}

uint64_t ct_fault_restorer(void) {
    return 0; /* the kernel's own code */
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Where the program was when our code had a fault, x86_64: see fault.h. No state.
 *
 * A stub that is abandoned half-way is nothing new: handlers may always jump out of it (stubs_x64.S). So nothing of
 * what it has done is undone here; if the function begins again, its old entry is found dead. S is the address of the
 * slot that holds the return address. */
#include "hook/fault.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11 };
enum {
    MAX_WORDS = 16, /* at most, that the shared code pushes below S */
    MAX_ENTRIES = 4096,
    SAVED_FLAGS = 0xd5, /* the flags that lahf reads */
    OVERFLOW = 0x800,
    DIRECTION = 0x400,
};

static bool word_at(const struct ct_fault_world *w, uint64_t at, uint64_t *value) {
    return w->data(w->arg, at, value, sizeof *value);
}

static bool function_of(const struct ct_fault_world *w, uint64_t stub, uint64_t *function) {
    uint32_t number;
    return w->code(w->arg, stub + CT_STUB_NUMBER, &number, sizeof number) && number != CT_HOOK_NONE &&
           word_at(
               w, w->hooks + number * sizeof(struct ct_hook_entry) + __builtin_offsetof(struct ct_hook_entry, function),
               function) &&
           *function;
}

/* ---- in a stub ---- */

static enum ct_fault_place in_stub(const struct ct_fault_world *w, uint64_t stub, struct ct_fault_state *s) {
    uint64_t function, offset;
    if (!function_of(w, stub, &function))
        return CT_FAULT_ELSEWHERE;
    s->stub = stub;
    if (s->pc == stub) { /* the call that pushes the stub word */
        s->pc = function + ct_stub_lead(w->code, w->arg, stub);
        return CT_FAULT_ENTERING;
    }
    offset = ct_stub_original(w->code, w->arg, stub, s->pc);
    if (offset == UINT64_MAX)
        return CT_FAULT_ELSEWHERE;
    s->pc = function + offset;
    return CT_FAULT_MOVED;
}

/* ---- in the shared code ---- */

/* The part of the stack that is ours: from `low` up to the word that identifies the stub. */
struct pushed {
    uint64_t low, word, stub;
    bool entering;
};

/* Is it a push of a register? Then registers still have their old values. Otherwise a slow path is about to be
 * called. */
static bool is_push(const struct ct_fault_world *w, uint64_t pc) {
    uint8_t b[2];
    if (!w->code(w->arg, pc, b, sizeof b))
        return false;
    uint8_t opcode = b[0] == 0x41 ? b[1] : b[0];
    return (opcode & 0xf8) == 0x50;
}

/* Is it the store by which stubs that need more stack check that it is there? mov %rcx, -x(%rsp) */
static bool is_touch(const struct ct_fault_world *w, uint64_t pc) {
    uint8_t b[4];
    return w->code(w->arg, pc, b, sizeof b) && b[0] == 0x48 && b[1] == 0x89 && b[2] == 0x4c && b[3] == 0x24;
}

/* Is it an instruction of CALL_SLOW? pushfq, call *%gs:x or *x(%r11), test %al, -x(%rsp) */
static bool is_slow_call(const struct ct_fault_world *w, uint64_t pc) {
    uint8_t b[3];
    if (!w->code(w->arg, pc, b, sizeof b))
        return false;
    return b[0] == 0x9c || ((b[0] == 0x65 || b[0] == 0x41) && b[1] == 0xff) ||
           (b[0] == 0x84 && b[1] == 0x84 && b[2] == 0x24);
}

static bool find_word(const struct ct_fault_world *w, uint64_t low, struct pushed *p) {
    uint64_t word;
    for (uint64_t at = low; at < low + 8 * MAX_WORDS && word_at(w, at, &word); at += 8) {
        bool entering = ct_stub_is_at(w->code, w->arg, word - CT_STUB_AFTER_ENTER);
        if (!entering && !ct_stub_is_at(w->code, w->arg, word - CT_STUB_RESUME))
            continue;
        uint64_t stub = word - (entering ? CT_STUB_AFTER_ENTER : CT_STUB_RESUME);
        *p = (struct pushed){.low = low, .word = at, .stub = stub, .entering = entering};
        return true;
    }
    return false;
}

/* Restores what PROLOGUE has pushed so far: rax, flags, rdx, rcx, and r11 if it points to the block now. */
static void restore_first(const struct ct_fault_world *w, const struct pushed *p, struct ct_fault_state *s) {
    uint64_t count = (p->word - p->low) / 8, flags;
    if (count >= 1)
        (void)word_at(w, p->word - 8, &s->gpr[RAX]);
    if (count >= 2 && word_at(w, p->word - 16, &flags)) {
        s->flags &= ~(uint64_t)(SAVED_FLAGS | OVERFLOW);
        s->flags |= (flags >> 8 & SAVED_FLAGS) | (flags & 1 ? OVERFLOW : 0);
    }
    if (count >= 3)
        (void)word_at(w, p->word - 24, &s->gpr[RDX]);
    if (count >= 4)
        (void)word_at(w, p->word - 32, &s->gpr[RCX]);
    if (count >= 5 && s->gpr[R11] == w->block)
        (void)word_at(w, p->word - 40, &s->gpr[R11]);
}

/* Restores what PUSH_REST has pushed, all of which is there; rbp points to it. */
static void restore_rest(const struct ct_fault_world *w, uint64_t rbp, struct ct_fault_state *s) {
    static const uint8_t order[] = {RBP, R11, R10, R9, R8, RDI, RSI};
    uint64_t flags;
    if (s->gpr[RSP] < rbp && word_at(w, rbp - 8, &flags))
        s->flags = (s->flags & ~(uint64_t)DIRECTION) | (flags & DIRECTION);
    for (unsigned i = 0; i < sizeof order; i++)
        (void)word_at(w, rbp + 8 * i, &s->gpr[order[i]]);
}

/* Where the frame at S really returns to: each frame in a chain of tail calls returns to the stub of the one before. */
static uint64_t real_return(const struct ct_fault_world *w, uint64_t slot, uint64_t resume) {
    uint64_t top, base, first = resume;
    if (!w->block || !word_at(w, w->block + CT_BLOCK_TOP, &top) || !word_at(w, w->block + CT_BLOCK_BASE, &base))
        return 0;
    for (unsigned n = 0; n < MAX_ENTRIES && top > base + CT_SHADOW_SIZE; n++) {
        struct ct_shadow e;
        top -= CT_SHADOW_SIZE;
        if (!w->data(w->arg, top, &e, sizeof e))
            return 0;
        if (((e.slot + 7) & ~7ull) == slot && ct_shadow_resume(&e) == resume)
            resume = e.ret;
    }
    return resume == first ? 0 : resume;
}

/* Where the program would be, when a stub was working on its call or return. 0: not known. */
static uint64_t place_of(const struct ct_fault_world *w, const struct pushed *p) {
    uint64_t pc;
    if (!p->entering)
        return real_return(w, p->word, p->stub + CT_STUB_RESUME);
    return function_of(w, p->stub, &pc) ? pc + ct_stub_lead(w->code, w->arg, p->stub) : 0;
}

static enum ct_fault_place in_shared(const struct ct_fault_world *w, struct ct_fault_state *s) {
    struct pushed p;
    bool slow = is_slow_call(w, s->pc), touch = is_touch(w, s->pc);
    uint64_t low = slow ? s->gpr[RBP] + 56 : s->gpr[RSP];
    if (!slow && !touch && !is_push(w, s->pc))
        return CT_FAULT_ELSEWHERE;
    if (touch)
        low += CT_NOTE_SIZE; /* may not be there */
    uint64_t pc = find_word(w, low, &p) ? place_of(w, &p) : 0;
    if (!pc)
        return CT_FAULT_ELSEWHERE;
    if (slow)
        restore_rest(w, s->gpr[RBP], s);
    restore_first(w, &p, s);
    s->gpr[RSP] = p.word + 8;
    s->stub = p.stub;
    s->pc = pc;
    return p.entering ? CT_FAULT_ENTERING : CT_FAULT_LEAVING;
}

enum ct_fault_place ct_fault_recover(const struct ct_fault_world *w, struct ct_fault_state *s) {
    uint8_t byte;
    if (!w->code(w->arg, s->pc, &byte, 1))
        return CT_FAULT_ELSEWHERE;
    uint64_t stub = ct_stub_around(w->code, w->arg, s->pc);
    return stub ? in_stub(w, stub, s) : in_shared(w, s);
}

/* ---- the thread's registers ---- */

void ct_fault_load(const struct ct_cpu_context *cpu, struct ct_fault_state *state) {
    const struct ct_cpu_x64 *x64 = (const struct ct_cpu_x64 *)cpu;
    for (unsigned i = 0; i < CT_FRAME_REGISTERS; i++)
        state->gpr[i] = x64->gpr[i];
    state->pc = x64->pc;
    state->flags = x64->flags;
    state->stub = 0;
}

void ct_fault_store(const struct ct_fault_state *state, struct ct_cpu_context *cpu) {
    struct ct_cpu_x64 *x64 = (struct ct_cpu_x64 *)cpu;
    for (unsigned i = 0; i < CT_FRAME_REGISTERS; i++)
        x64->gpr[i] = state->gpr[i];
    x64->pc = state->pc;
    x64->flags = state->flags;
}

uint64_t ct_fault_sp(const struct ct_fault_state *state) {
    return state->gpr[RSP];
}

uint64_t ct_fault_unrecorded(const struct ct_fault_state *state) {
    return state->stub + CT_STUB_BODY;
}

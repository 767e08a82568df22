/* SPDX-License-Identifier: Apache-2.0 */
/* Where the program was when our code had a fault, arm64: see fault.h. No state.
 *
 * A stub that is abandoned half-way is nothing new: handlers may always jump out of it (stubs_a64.S). So nothing of
 * what it has done is undone here; if the function begins again, its old entry is found dead. Only stores that save
 * registers, and the loads and stores that check for room on the stack, reach memory that may not be there. Flags are
 * as they were: the shared code does not change them. S is the caller's stack pointer. */
#include "hook/fault.h"

enum { X16 = 16, LR = 30, SP = 31 };
enum {
    MAX_WORDS = 40, /* at most, that the shared code has below S */
    MAX_ENTRIES = 4096,
    FIRST_STORE = 0xa9bd0fe2u, /* stp x2, x3, [sp, #-48]! */
    PUSH_FIRST = 0xa90017e4u,  /* stp x4, x5, [sp]: all registers that are saved next are as they were */
    PROBE_NOTE = 0xf90003ffu,  /* str xzr, [sp] */
    PROBE_SLOW = 0xf9400210u,  /* ldr x16, [x16] */
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
    offset = ct_stub_original(w->code, w->arg, stub, s->pc);
    if (offset == UINT64_MAX)
        return CT_FAULT_ELSEWHERE;
    s->pc = function + offset;
    return CT_FAULT_MOVED;
}

/* ---- in the shared code ---- */

/* What the stub was doing. */
struct work {
    uint64_t sp; /* S */
    uint64_t stub;
    uint64_t back; /* entering: where the caller goes on */
    bool entering;
};

static bool is_entering(const struct ct_fault_world *w, uint64_t word) {
    return ct_stub_is_at(w->code, w->arg, word - CT_STUB_AFTER_ENTER);
}

static bool is_leaving(const struct ct_fault_world *w, uint64_t word) {
    return ct_stub_is_at(w->code, w->arg, word - CT_STUB_RESUME);
}

/* Nothing has been saved yet. */
static bool find_at_start(const struct ct_fault_world *w, const struct ct_fault_state *s, struct work *found) {
    *found = (struct work){.sp = s->gpr[SP], .back = s->gpr[X16], .entering = is_entering(w, s->gpr[LR])};
    found->stub = (found->entering ? s->gpr[LR] : s->gpr[X16]) - CT_STUB_AFTER_ENTER;
    return found->entering || is_entering(w, s->gpr[X16]);
}

/* Where what was saved begins: the stack pointer may be below the end of the stack already. */
static uint64_t saved_from(uint64_t sp, uint32_t word) {
    enum { NOTE_ROOM = 32 };
    return sp + (word == PUSH_FIRST ? CT_REST_SIZE : word == PROBE_NOTE ? NOTE_ROOM : 0);
}

/* Registers are saved from `low` on: the words that identify the stub are the last but one below S. */
static bool find_saved(const struct ct_fault_world *w, uint64_t low, struct work *found) {
    uint64_t word, back;
    for (uint64_t at = low; at < low + 8 * MAX_WORDS && word_at(w, at, &word) && word_at(w, at + 8, &back); at += 16) {
        bool entering = is_entering(w, word);
        if (!entering && !is_leaving(w, word))
            continue;
        uint64_t stub = word - (entering ? CT_STUB_AFTER_ENTER : CT_STUB_RESUME);
        *found = (struct work){.sp = at + 16, .stub = stub, .back = back, .entering = entering};
        return true;
    }
    return false;
}

static void restore_saved(const struct ct_fault_world *w, const struct work *found, struct ct_fault_state *s) {
    uint64_t low = found->sp - CT_SAVED_SIZE;
    (void)word_at(w, low, &s->gpr[2]);
    (void)word_at(w, low + 8, &s->gpr[3]);
    (void)word_at(w, low + 16, &s->gpr[0]);
    (void)word_at(w, low + 24, &s->gpr[1]);
}

/* Where the frame at the slot really returns to: each frame in a chain of tail calls returns to the stub of the one
 * before. */
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

/* Where the program would be: at the function's entry, before it has signed anything, or after the call. 0: not
 * known. */
static uint64_t place_of(const struct ct_fault_world *w, const struct work *found) {
    uint64_t pc;
    if (!found->entering)
        return real_return(w, found->sp - 8, found->stub + CT_STUB_RESUME);
    return function_of(w, found->stub, &pc) ? pc : 0;
}

static enum ct_fault_place in_shared(const struct ct_fault_world *w, struct ct_fault_state *s) {
    struct work found;
    uint32_t word;
    if (!w->code(w->arg, s->pc, &word, sizeof word))
        return CT_FAULT_ELSEWHERE;
    bool start = word == FIRST_STORE, slow = word == PUSH_FIRST || word == PROBE_SLOW;
    if (!start && !slow && word != PROBE_NOTE)
        return CT_FAULT_ELSEWHERE;
    bool known = start ? find_at_start(w, s, &found) : find_saved(w, saved_from(s->gpr[SP], word), &found);
    uint64_t pc = known ? place_of(w, &found) : 0;
    if (!pc)
        return CT_FAULT_ELSEWHERE;
    if (word == PROBE_SLOW) {
        (void)word_at(w, s->gpr[SP], &s->gpr[4]);
        (void)word_at(w, s->gpr[SP] + 8, &s->gpr[5]);
    }
    if (!start)
        restore_saved(w, &found, s);
    if (found.entering)
        s->gpr[LR] = found.back;
    s->gpr[SP] = found.sp;
    s->stub = found.stub;
    s->pc = pc;
    return found.entering ? CT_FAULT_ENTERING : CT_FAULT_LEAVING;
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
    enum { PC = 32, PSTATE = 33 }; /* see cpu_a64.c */
    const uint64_t *words = (const uint64_t *)cpu;
    for (unsigned i = 0; i < CT_FRAME_REGISTERS; i++)
        state->gpr[i] = words[i];
    state->pc = words[PC];
    state->flags = words[PSTATE];
    state->stub = 0;
}

void ct_fault_store(const struct ct_fault_state *state, struct ct_cpu_context *cpu) {
    enum { PC = 32, PSTATE = 33 };
    uint64_t *words = (uint64_t *)cpu;
    for (unsigned i = 0; i < CT_FRAME_REGISTERS; i++)
        words[i] = state->gpr[i];
    words[PC] = state->pc;
    words[PSTATE] = state->flags;
}

uint64_t ct_fault_sp(const struct ct_fault_state *state) {
    return state->gpr[SP];
}

uint64_t ct_fault_unrecorded(const struct ct_fault_state *state) {
    return state->stub + CT_STUB_BODY;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of the stack walk through Contrail's own code in a recorded process, x86_64: a stub, the code that stubs share,
 * and the agent's slow paths, which that code calls. A busy recorded program spends most of its time there.
 *
 * S is the address of the slot that holds a frame's return address. */
#include "inspect/process_x64.h"
#include "hook/runtime.h"
#include "hook/stub.h"
#include <string.h>

/* ---- stubs ---- */

static bool in_anonymous_code(struct ct_walk *w, uint64_t address) {
    const struct ct_process_code *code = ct_process_code_at(w->process, address);
    return code && code->anonymous;
}

static bool read_code(void *walk, uint64_t at, void *to, size_t size) {
    return in_anonymous_code(walk, at) && !ct_walk_read(walk, at, to, size);
}

static bool is_stub(struct ct_walk *w, uint64_t stub) {
    return ct_stub_is_at(read_code, w, stub);
}

/* The stub that contains pc, or 0. */
static uint64_t stub_around(struct ct_walk *w, uint64_t pc) {
    return ct_stub_around(read_code, w, pc);
}

/* The place in the function whose copy contains pc; otherwise the start of the function. */
static uint64_t place_of(struct ct_walk *w, uint64_t stub, uint64_t pc) {
    uint64_t function = ct_walk_shadow_function(w, stub + CT_STUB_AFTER_ENTER);
    uint64_t offset = function ? ct_stub_original(read_code, w, stub, pc) : UINT64_MAX;
    return offset == UINT64_MAX ? function : function + offset;
}

static bool entry_at(struct ct_walk *w, uint64_t slot, struct ct_walk_entry *e) {
    return ct_walk_shadow_innermost(w, slot, e) && e->slot == slot;
}

/* The slot does not hold the return address now; its entry does. */
static bool return_by_entry(struct ct_walk *w, uint64_t slot) {
    struct ct_walk_entry e;
    if (!entry_at(w, slot, &e))
        return false;
    ct_walk_set(w, DWARF_PC, ct_walk_shadow_return(w, slot, e.stub + CT_AFTER_TO_RESUME));
    ct_walk_set(w, DWARF_RSP, slot + 8);
    w->is_return = true;
    return true;
}

/* pc is in the stub itself: before the call is recorded, between that and the body, in the moved body, or after it. */
static bool step_in_stub(struct ct_walk *w, uint64_t stub) {
    uint64_t pc = ct_walk_pc(w), sp = ct_walk_sp(w), place = pc - stub, slot = sp;
    uint8_t call = 0;
    struct ct_walk_prologue p = {0};
    struct ct_walk_entry e;
    ct_walk_read(w, stub + CT_STUB_CALL_BODY, &call, 1);
    if (place >= CT_STUB_BODY) {
        ct_walk_read_prologue(w, stub + CT_STUB_BODY, pc, &p);
        slot = sp + p.depth;
        if (!p.whole && ct_walk_shadow_innermost(w, sp, &e) && e.stub == stub + CT_STUB_AFTER_ENTER)
            slot = e.slot;
        ct_walk_restore_saved(w, &p, slot);
    } else if (place >= CT_STUB_AFTER_ENTER && call == 0xe8) {
        return return_by_entry(w, sp - 8); /* popped: the slot's content means nothing */
    }
    return ct_walk_return_through(w, slot);
}

/* ---- shared code ---- */

/* The state at pc, if pc is in a copy of the shared code. */
static const struct ct_shared_state *shared_state(struct ct_walk *w, uint64_t pc) {
    enum { ALIGNMENT = 16, COMPARED = 56, BEHIND = 8 }; /* the first word may lead to the other form */
    const uint8_t *code[CT_SHARED_FORMS];
    size_t size[CT_SHARED_FORMS], largest = 0;
    uint8_t bytes[COMPARED];
    for (unsigned form = 0; form < CT_SHARED_FORMS; form++) {
        size[form] = ct_shared_code(form, &code[form]);
        largest = size[form] > largest ? size[form] : largest;
    }
    if (!in_anonymous_code(w, pc))
        return NULL;
    for (uint64_t start = pc / ALIGNMENT * ALIGNMENT; pc - start < largest; start -= ALIGNMENT)
        for (unsigned form = 0; form < CT_SHARED_FORMS; form++)
            if (pc - start < size[form] && !ct_walk_read(w, start + BEHIND, bytes, sizeof bytes) &&
                !memcmp(bytes, code[form] + BEHIND, sizeof bytes))
                return ct_shared_state_at(form, pc - start);
    return NULL;
}

/* The stub for which the shared code runs; 0: unknown. On the way in, the stub's address is below the slot, until the
 * body's address replaces it. */
static uint64_t find_stub(struct ct_walk *w, const struct ct_shared_state *s, uint64_t slot) {
    struct ct_walk_entry e;
    uint64_t word, stub = 0;
    if (s->entering && ct_walk_word(w, slot - 8, &word) && in_anonymous_code(w, word))
        stub = stub_around(w, word);
    if (stub)
        return stub + CT_STUB_AFTER_ENTER;
    return entry_at(w, slot, &e) ? e.stub : 0;
}

/* Restores every register that the shared code has saved, and finds the hooked function. */
static bool step_from_shared(struct ct_walk *w, const struct ct_shared_state *s, uint64_t slot,
                             struct ct_walk_frame *frame) {
    uint64_t word, stub = find_stub(w, s, slot);
    frame->is_stub = true;
    frame->function = stub ? ct_walk_shadow_function(w, stub) : 0;
    if ((s->known & CT_SHARED_SAVED_RBX) && ct_walk_word(w, slot - (uint64_t)(int64_t)s->saved_rbx, &word))
        ct_walk_set(w, DWARF_RBX, word);
    if ((s->known & CT_SHARED_SAVED_RBP) && ct_walk_word(w, slot - (uint64_t)(int64_t)s->saved_rbp, &word))
        ct_walk_set(w, DWARF_RBP, word);
    if (s->entering && ct_walk_word(w, slot, &word) && word == stub)
        return return_by_entry(w, slot); /* on its way to the stub, through the slot itself */
    return ct_walk_return_through(w, slot);
}

static bool step_in_shared(struct ct_walk *w, const struct ct_shared_state *s, struct ct_walk_frame *frame) {
    uint64_t slot;
    if (s->known & CT_SHARED_RSP)
        slot = ct_walk_sp(w) + (uint64_t)(int64_t)s->rsp;
    else if (s->known & CT_SHARED_RBP)
        slot = w->regs.value[DWARF_RBP] + (uint64_t)(int64_t)s->rbp;
    else if (s->known & CT_SHARED_RBX)
        slot = w->regs.value[DWARF_RBX] + (uint64_t)(int64_t)s->rbx;
    else
        return false;
    return step_from_shared(w, s, slot, frame);
}

/* ---- slow paths ---- */

/* Has the entry been released, so that only detail is left to capture? Then the slot holds where the function returns
 * to. */
static bool has_returned(struct ct_walk *w, uint64_t slot) {
    uint64_t word;
    if (!ct_walk_word(w, slot, &word))
        return false;
    const struct ct_process_code *code = ct_process_code_at(w->process, word);
    return code && (!code->anonymous || is_stub(w, word - CT_STUB_RESUME));
}

/* The agent has no unwind tables here. The shared code called it, after aligning rsp to 16; rbp was 8 or 16 above that
 * (CALL_SLOW). The checks find out which, and reject stale words. */
static bool step_over_agent(struct ct_walk *w, struct ct_walk_frame *frame) {
    enum { MAX_WORDS = 1024 };
    uint64_t word, below, sp = ct_walk_sp(w);
    struct ct_walk_entry e;
    const struct ct_shared_state *leaving = NULL;
    uint64_t left = 0;
    for (uint64_t at = sp; at < sp + 8 * MAX_WORDS && ct_walk_word(w, at, &word); at += 8) {
        const struct ct_shared_state *s = in_anonymous_code(w, word) ? shared_state(w, word) : NULL;
        if (!s || !(s->known & CT_SHARED_RBP))
            continue;
        for (uint64_t rbp = at + 16; rbp <= at + 24; rbp += 8) {
            uint64_t slot = rbp + (uint64_t)(int64_t)s->rbp;
            bool enters = s->entering && ct_walk_word(w, slot - 8, &below) && is_stub(w, below - CT_STUB_AFTER_ENTER);
            if (enters || (!s->entering && entry_at(w, slot, &e)))
                return step_from_shared(w, s, slot, frame);
            if (!leaving && !s->entering && has_returned(w, slot)) {
                leaving = s;
                left = slot;
            }
        }
    }
    return leaving && step_from_shared(w, leaving, left, frame);
}

/* Is this the agent's code? If not, it is a JIT's. */
static bool in_agent(struct ct_walk *w, uint64_t pc) {
    const struct ct_process_code *code = ct_process_code_at(w->process, pc);
    uint64_t slow;
    return code && code->anonymous && ct_walk_word(w, w->block + CT_BLOCK_FN_ENTER, &slow) && slow >= code->start &&
           slow < code->end;
}

bool ct_walk_step_stub(struct ct_walk *w, struct ct_walk_frame *frame) {
    uint64_t stub, pc = ct_walk_pc(w);
    struct ct_walk_entry e;
    if (!w->block)
        return false;
    const struct ct_shared_state *s = shared_state(w, pc);
    if (s)
        return step_in_shared(w, s, frame);
    if (!w->is_return && (stub = stub_around(w, pc))) {
        frame->is_stub = true;
        frame->function = place_of(w, stub, pc);
        return step_in_stub(w, stub);
    }
    if (!in_agent(w, pc))
        return false;
    if (step_over_agent(w, frame))
        return true;
    /* The agent runs on its own stack: the program continues at its innermost frame. */
    frame->is_stub = true;
    return ct_walk_shadow_innermost(w, 0, &e) && ct_walk_return_through(w, e.slot);
}

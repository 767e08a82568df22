/* SPDX-License-Identifier: Apache-2.0 */
/* Plans hooks, arm64: see plan.h.
 *
 * One instruction at the entry becomes a branch to the stub; a landing pad (bti, paciasp) stays before it. Where the
 * stub is out of a branch's reach, three instructions lead there. A function that signs its return address before the
 * branch gets the plain one back in the stub, and its body signs again: no stub's address is ever signed but by the
 * function itself. Branches from inside the function to its entry must not look like calls: they are redirected to the
 * body where they reach it. */
#include "hook/pad_a64.h"
#include "hook/plan.h"
#include "hook/springboard.h"
#include "hook/stub.h"
#include "isa/a64/encode.h"
#include "isa/a64/relocate.h"
#include <string.h>

#define WORD      4u
#define FAR_WORDS 3u /* adrp, add, br */

/* ---- patches ---- */

static struct ct_patch *add_patch(const struct ct_scan *s, struct ct_plan *plan, uint64_t at, size_t size) {
    if (plan->patch_count == CT_PATCHES_MAX)
        return NULL;
    struct ct_patch *p = &plan->patches[plan->patch_count++];
    *p = (struct ct_patch){.at = at, .size = (uint8_t)size};
    memcpy(p->original, ct_scan_bytes(s, at), size);
    memcpy(p->bytes, p->original, size);
    return p;
}

/* Where the patch leads: to what is before the stub. */
static uint64_t way_in(const struct ct_plan *plan, bool signs) {
    return plan->stub - (signs ? CT_STUB_LEAD_IN : CT_STUB_LEAD_IN - WORD);
}

static bool put_entry(struct ct_patch *p, uint64_t target) {
    struct ct_code_buf out = {.bytes = p->bytes, .capacity = p->size, .address = p->at};
    if (p->size == WORD) {
        ct_a64_b(&out, target);
        return !out.overflow;
    }
    ct_a64_adrp_add(&out, CT_A64_X16, target);
    if (out.length == WORD) /* the start of a page needs no add */
        ct_a64_nop(&out);
    ct_a64_br(&out, CT_A64_X16);
    return !out.overflow;
}

/* A branch from inside the function to its entry: it now goes to the body, after the pad's copy if it went to what is
 * after the pad. */
static bool redirect_loop(const struct ct_scan *s, struct ct_plan *plan, const struct ct_scan_loop *loop, bool signs) {
    struct ct_a64_insn insn;
    if (ct_a64_decode(ct_pad_word(s, loop->branch), &insn) || insn.kind != CT_INSN_JMP)
        return false;
    bool after_pad = signs && ct_a64_target(&insn, loop->branch) == plan->place;
    uint32_t word = ct_a64_redirect(insn.word, loop->branch, plan->body + (after_pad ? WORD : 0), CT_A64_REACH_B);
    struct ct_patch *p = word ? add_patch(s, plan, loop->branch, WORD) : NULL;
    if (!p)
        return false;
    memcpy(p->bytes, &word, WORD);
    return true;
}

static bool redirect_loops(const struct ct_plan_request *r, struct ct_plan *plan, uint64_t covered_end, bool signs) {
    const struct ct_scan *s = r->scan;
    for (size_t i = 0; i < s->loop_count; i++) {
        const struct ct_scan_loop *loop = &s->loops[i];
        bool ours = s->funcs[loop->function].start == r->function;
        if (ours && loop->branch >= covered_end && !redirect_loop(s, plan, loop, signs))
            return false;
    }
    return true;
}

/* ---- the stub ---- */

static uint32_t branch_word(bool link, uint64_t from, uint64_t to) {
    return ct_a64_redirect(link ? 0x94000000u : 0x14000000u, from, to, CT_A64_REACH_B);
}

/* The first two instructions. The second one does not depend on the action. */
static uint64_t stub_word(const struct ct_plan_request *r, uint64_t stub, bool link, uint64_t target) {
    uint32_t second = branch_word(!r->entry_only && !r->detour, stub + CT_STUB_CALL_BODY, stub + CT_STUB_BODY);
    return branch_word(link, stub, target) | (uint64_t)second << 32;
}

uint64_t ct_plan_word(const struct ct_plan_request *r, const struct ct_plan *plan) {
    if (r->action == CT_ACTION_REPLACE)
        return stub_word(r, plan->stub, false, plan->stub + CT_STUB_BODY);
    if (r->action == CT_ACTION_PASS)
        return stub_word(r, plan->stub, false, plan->body);
    return stub_word(r, plan->stub, true, ct_plan_enter(r));
}

/* Everything up to the body; with a detour, a jump to it comes first. */
static void emit_head(const struct ct_plan_request *r, struct ct_code_buf *out, struct ct_plan *plan, uint32_t pad) {
    uint32_t aut = pad == CT_PACIASP ? CT_AUTIASP : CT_AUTIBSP;
    ct_a64_put(out, ct_pad_signs(pad) ? aut : CT_A64_NOP);
    ct_a64_mov(out, CT_A64_X16, CT_A64_LR);
    plan->stub = ct_code_here(out);
    ct_code_u64(out, 0); /* word_on, once the body is known */
    ct_a64_adr(out, CT_A64_X16, plan->stub + CT_STUB_AFTER_ENTER);
    ct_a64_b(out, ct_plan_leave(r));
    ct_code_u32(out, 0); /* where the moves are, once the body is there */
    ct_code_u32(out, r->number);
    if (r->detour) {
        ct_a64_mov64(out, CT_A64_X16, r->detour);
        ct_a64_br(out, CT_A64_X16);
    }
    plan->body = ct_code_here(out);
    if (ct_pad_signs(pad))
        ct_a64_put(out, pad);
}

static void finish_head(const struct ct_plan_request *r, struct ct_code_buf *out, size_t at, struct ct_plan *plan) {
    plan->word_on = ct_plan_word(r, plan);
    /* off for the user; the detour that the engine needs for an unwinder stays */
    bool keeps_detour = r->detour && r->action != CT_ACTION_REPLACE;
    plan->word_off = stub_word(r, plan->stub, false, keeps_detour ? plan->stub + CT_STUB_BODY : plan->body);
    if (!out->overflow)
        memcpy(out->bytes + at, &plan->word_on, 8);
}

static enum ct_hook_skip_reason skip_of(int status) {
    return status == CT_ERR_BAD_INSTRUCTION ? CT_HOOK_SKIP_UNDECODABLE : CT_HOOK_SKIP_UNMOVABLE;
}

static void keep_moves(struct ct_plan *plan, const struct ct_a64_moved *moved, size_t first) {
    plan->move_count = 0;
    for (unsigned i = 0; i < moved->count && plan->move_count < CT_SPRINGBOARD_MOVES; i++) {
        plan->move_from[plan->move_count] = (uint8_t)(i * WORD);
        plan->move_to[plan->move_count++] = (uint16_t)(first + moved->to[i]);
    }
}

/* Emits the table after the body: which of its instructions is which of the function's (stub.h). The last one is the
 * jump back, if that is one instruction. */
static void emit_moves(const struct ct_plan_request *r, struct ct_code_buf *out, size_t stub,
                       const struct ct_plan *plan) {
    uint64_t back = plan->place + plan->move_count * WORD, last = ct_code_here(out) - WORD;
    size_t at = out->length - stub, body = (size_t)(plan->body - plan->stub);
    bool jumps = !out->overflow && ct_a64_word(out->bytes + out->length - WORD) == branch_word(false, last, back);
    size_t count = plan->move_count + (size_t)jumps, size = CT_STUB_MOVES_HEAD + count * CT_STUB_MOVE_SIZE;
    if (out->overflow || out->capacity - out->length < size + WORD || at > UINT16_MAX)
        return;
    memcpy(out->bytes + stub + CT_STUB_MOVES, &(uint16_t){(uint16_t)at}, 2);
    ct_code_byte(out, (uint8_t)(plan->place - r->function));
    ct_code_byte(out, (uint8_t)count);
    for (size_t i = 0; i < count; i++) {
        size_t from = i < plan->move_count ? plan->move_from[i] : plan->move_count * WORD;
        size_t to = i < plan->move_count ? body + plan->move_to[i] : at - WORD;
        ct_code_byte(out, (uint8_t)from);
        ct_code_byte(out, (uint8_t)to);
        ct_code_byte(out, (uint8_t)(to >> 8));
    }
}

/* Emits the stub with a body that has `count` instructions from `place` on. */
static enum ct_hook_skip_reason emit_stub(const struct ct_plan_request *r, struct ct_code_buf *out,
                                          struct ct_plan *plan, size_t count) {
    struct ct_a64_moved moved;
    size_t before = out->length;
    uint32_t pad = plan->place > r->function ? ct_pad_word(r->scan, r->function) : 0;
    emit_head(r, out, plan, pad);
    int status = ct_a64_relocate_range(out, ct_scan_bytes(r->scan, plan->place), count, plan->place, CT_A64_X17, &moved);
    if (status || out->overflow) {
        out->length = before;
        return status ? skip_of(status) : CT_HOOK_SKIP_UNMOVABLE;
    }
    size_t stub = before + CT_STUB_LEAD_IN;
    keep_moves(plan, &moved, ct_pad_signs(pad) ? WORD : 0);
    finish_head(r, out, stub, plan);
    emit_moves(r, out, stub, plan);
    return CT_HOOK_SKIP_NONE;
}

/* ---- the two ways ---- */

/* Does anything come to the instructions after the first one? What a jump through a register leads to is not known. */
static bool is_entered_within(const struct ct_plan_request *r, uint64_t from, uint64_t to) {
    for (uint64_t at = from; at < to && at < r->scan->end; at += WORD)
        if (ct_scan_bit(r->scan, r->scan->landing, at))
            return true;
    return r->scan_flags & CT_SCAN_INDIRECT;
}

static enum ct_hook_skip_reason plan_words(const struct ct_plan_request *r, struct ct_code_buf *out,
                                           struct ct_plan *plan, size_t count) {
    uint64_t end = plan->place + count * WORD;
    bool signs = plan->place > r->function && ct_pad_signs(ct_pad_word(r->scan, r->function));
    if (end > r->end || end > r->scan->end)
        return CT_HOOK_SKIP_TOO_SHORT;
    if (count > 1 && is_entered_within(r, plan->place + WORD, end))
        return CT_HOOK_SKIP_BRANCH_INTO;
    enum ct_hook_skip_reason reason = emit_stub(r, out, plan, count);
    if (reason)
        return reason;
    struct ct_patch *p = add_patch(r->scan, plan, plan->place, count * WORD);
    if (!put_entry(p, way_in(plan, signs)))
        return CT_HOOK_SKIP_OUT_OF_REACH;
    if ((r->scan_flags & CT_SCAN_LOOPED) && !redirect_loops(r, plan, end, signs))
        return CT_HOOK_SKIP_LOOP_ENTRY;
    return CT_HOOK_SKIP_NONE;
}

uint64_t ct_plan_moved(const struct ct_plan *plan, uint64_t pc, bool in_call) {
    if (pc < plan->place || (pc == plan->place && !in_call))
        return 0;
    for (unsigned m = 0; m < plan->move_count; m++)
        if (plan->move_from[m] == pc - plan->place)
            return plan->body + plan->move_to[m];
    return 0;
}

void ct_plan_release(const struct ct_plan_request *r, struct ct_plan *plan) {
    (void)r, (void)plan;
}

static void start_over(struct ct_code_buf *out, size_t length, struct ct_plan *plan) {
    out->length = length;
    out->overflow = false;
    plan->patch_count = 0;
}

enum ct_hook_skip_reason ct_plan_hook(const struct ct_plan_request *r, struct ct_code_buf *out, struct ct_plan *plan) {
    static const uint8_t breakpoint[4] = {0x00, 0x00, 0x20, 0xd4};
    size_t before = out->length;
    *plan = (struct ct_plan){.function = r->function,
                              .place = ct_pad_place(r->scan, r->function, r->end),
                              .signs = (uint8_t)ct_scan_signs(r->scan_flags)};
    if ((r->function & 3) || plan->place + WORD > r->end || plan->place + WORD > r->scan->end)
        return CT_HOOK_SKIP_TOO_SHORT;
    if (!memcmp(ct_scan_bytes(r->scan, plan->place), breakpoint, sizeof breakpoint))
        return CT_HOOK_SKIP_UNMOVABLE; /* a debugger's breakpoint must stay where it was set */
    enum ct_hook_skip_reason reason = plan_words(r, out, plan, 1);
    if (reason == CT_HOOK_SKIP_OUT_OF_REACH) {
        start_over(out, before, plan);
        reason = plan_words(r, out, plan, FAR_WORDS);
    }
    if (reason)
        start_over(out, before, plan);
    return reason;
}

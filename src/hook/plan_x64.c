/* SPDX-License-Identifier: Apache-2.0 */
/* Plans hooks, x86_64: see plan.h.
 *
 * Ways to get from the entry to the stub, tried in this order: a 5-byte jump, over the function's first instructions
 * and, when it is short, the padding after it; a 2-byte jump to a springboard nearby, in padding or in the bytes of a
 * hooked neighbour (springboard.h); a 5-byte jump over bytes that the function itself branches to, when the whole
 * function can be moved, so that no branch is left behind. A guarded landing pad (endbr64) stays the first instruction.
 * Branches from inside the function to its entry must not look like calls: they are redirected to the body. */
#include "hook/plan.h"
#include "hook/springboard.h"
#include "hook/stub.h"
#include "isa/x64/encode.h"
#include "isa/x64/relocate.h"
#include <stdlib.h>
#include <string.h>

#define JUMP_SIZE       5u
#define SHORT_JUMP_SIZE 2u
#define REACH_SHORT     127
#define MAX_WHOLE       256u

/* ---- what the function is like ---- */

static bool any_within(const struct ct_scan *s, const uint64_t *map, uint64_t from, uint64_t to) {
    for (uint64_t at = from; at < to && at < s->end; at++)
        if (ct_scan_bit(s, map, at))
            return true;
    return false;
}

static void take_padding(struct ct_scan *s, uint64_t from, uint64_t to) {
    for (uint64_t at = from; at < to; at++)
        ct_scan_set(s, s->taken, at);
}

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

static void put_rel32(uint8_t *place, uint64_t next, uint64_t target) {
    int32_t displacement = (int32_t)(target - next);
    memcpy(place, &displacement, 4);
}

static void put_jump(struct ct_patch *p, size_t offset, uint64_t target) {
    p->bytes[offset] = 0xe9;
    put_rel32(&p->bytes[offset + 1], p->at + offset + JUMP_SIZE, target);
}

static bool springboard_patch(struct ct_scan *s, struct ct_plan *plan, uint64_t next, uint64_t target, uint64_t *host,
                              uint64_t *board) {
    *board = plan->patch_count < CT_PATCHES_MAX ? ct_springboards_take(s, next, host) : 0;
    struct ct_patch *p = *board ? add_patch(s, plan, *board, JUMP_SIZE) : NULL;
    if (!p)
        return false;
    put_jump(p, 0, target);
    p->forward = target;
    return true;
}

/* Redirects one branch from inside the function to its entry: it now goes to the body. */
static bool redirect_loop(struct ct_scan *s, struct ct_plan *plan, const struct ct_scan_loop *loop,
                          uint64_t second_jump) {
    uint64_t next = loop->branch + loop->length;
    struct ct_patch *p;
    if (loop->length > CT_TWO_JUMPS)
        return false;
    if (loop->disp_size == 4) {
        if (!(p = add_patch(s, plan, loop->branch, loop->length)))
            return false;
        put_rel32(&p->bytes[loop->length - 4], next, plan->body);
        return true;
    }
    uint64_t target = second_jump;
    int64_t distance = (int64_t)(target - next);
    if (!target || distance < -128 || distance > REACH_SHORT) {
        if (!springboard_patch(s, plan, next, plan->body, NULL, &target))
            return false;
        distance = (int64_t)(target - next);
    }
    if (!(p = add_patch(s, plan, loop->branch, loop->length)))
        return false;
    p->bytes[loop->length - 1] = (uint8_t)distance;
    return true;
}

static bool redirect_loops(const struct ct_plan_request *r, struct ct_plan *plan, uint64_t covered_end,
                           uint64_t second_jump) {
    struct ct_scan *s = r->scan;
    for (size_t i = 0; i < s->loop_count; i++) {
        const struct ct_scan_loop *loop = &s->loops[i];
        bool ours = s->funcs[loop->function].start == r->function;
        if (ours && loop->branch >= covered_end && !redirect_loop(s, plan, loop, second_jump))
            return false;
    }
    return true;
}

/* ---- the stub ---- */

/* call/jmp target; nop3 */
static uint64_t stub_word(uint8_t opcode, uint64_t stub, uint64_t target) {
    uint64_t displacement = (uint32_t)(target - (stub + JUMP_SIZE));
    return opcode | displacement << 8 | 0x001f0full << 40;
}

uint64_t ct_plan_word(const struct ct_plan_request *r, const struct ct_plan *plan) {
    if (r->action == CT_ACTION_REPLACE)
        return stub_word(0xe9, plan->stub, plan->stub + CT_STUB_BODY);
    if (r->action == CT_ACTION_PASS)
        return stub_word(0xe9, plan->stub, plan->body);
    return stub_word(0xe8, plan->stub, ct_plan_enter(r));
}

/* Everything up to the body; with a detour, a jump to it comes first. */
static void emit_head(const struct ct_plan_request *r, struct ct_code_buf *out, struct ct_plan *plan) {
    plan->stub = ct_code_here(out);
    uint64_t first = plan->stub + CT_STUB_BODY;
    ct_code_u64(out, 0); /* word_on, once the body is known */
    ct_code_byte(out, r->entry_only || r->detour ? 0xe9 : 0xe8);
    ct_code_u32(out, (uint32_t)(first - (plan->stub + CT_STUB_RESUME)));
    ct_x64_emit_jmp(out, ct_plan_leave(r));
    ct_code_byte(out, 0); /* where the moves are, once the body is there */
    ct_code_byte(out, 0);
    ct_code_u32(out, r->number);
    if (r->detour)
        ct_x64_emit_jmp(out, r->detour);
    plan->body = ct_code_here(out);
}

static void finish_head(const struct ct_plan_request *r, struct ct_code_buf *out, size_t at, struct ct_plan *plan) {
    plan->word_on = ct_plan_word(r, plan);
    /* off for the user; the detour that the engine needs for an unwinder stays */
    bool keeps_detour = r->detour && r->action != CT_ACTION_REPLACE;
    plan->word_off = stub_word(0xe9, plan->stub, keeps_detour ? plan->stub + CT_STUB_BODY : plan->body);
    if (!out->overflow)
        memcpy(out->bytes + at, &plan->word_on, 8);
}

static enum ct_hook_skip_reason skip_of(int status) {
    if (status == CT_ERR_BAD_INSTRUCTION || status == CT_ERR_TRUNCATED)
        return CT_HOOK_SKIP_UNDECODABLE;
    return CT_HOOK_SKIP_UNMOVABLE;
}

static bool keep_all_moves(struct ct_plan *plan, const struct ct_x64_moved *moved) {
    plan->whole = malloc(sizeof *plan->whole + moved->count * sizeof plan->whole->at[0]);
    if (!plan->whole)
        return false;
    plan->whole->count = moved->count;
    for (unsigned i = 0; i < moved->count; i++) {
        plan->whole->at[i].from = moved->at[i].from;
        plan->whole->at[i].to = moved->at[i].to;
    }
    return true;
}

static void keep_moves(struct ct_plan *plan, const struct ct_x64_moved *moved) {
    plan->move_count = 0;
    for (unsigned i = 0; i < moved->count && plan->move_count < CT_SPRINGBOARD_MOVES; i++) {
        plan->move_from[plan->move_count] = (uint8_t)moved->at[i].from;
        plan->move_to[plan->move_count++] = moved->at[i].to;
    }
}

/* Does the body end with a jump back into the function? */
static bool ends_with_jump(const struct ct_code_buf *out, uint64_t target) {
    int32_t displacement;
    if (out->overflow || out->length < JUMP_SIZE || out->bytes[out->length - JUMP_SIZE] != 0xe9)
        return false;
    memcpy(&displacement, out->bytes + out->length - 4, 4);
    return ct_code_here(out) + (uint64_t)(int64_t)displacement == target;
}

/* Emits the table after the body: which of its instructions is which of the function's (stub.h). The last one is the
 * jump back. */
static void emit_moves(const struct ct_plan_request *r, struct ct_code_buf *out, size_t stub, size_t covered,
                       const struct ct_x64_moved *moved, const struct ct_plan *plan) {
    size_t at = out->length - stub, body = (size_t)(plan->body - plan->stub), jump = at - JUMP_SIZE;
    bool back = covered <= UINT8_MAX && ends_with_jump(out, plan->place + covered);
    size_t count = moved->count + (size_t)back, size = CT_STUB_MOVES_HEAD + count * CT_STUB_MOVE_SIZE;
    if (out->overflow || out->capacity - out->length < size || at > UINT16_MAX)
        return;
    memcpy(out->bytes + stub + CT_STUB_MOVES, &(uint16_t){(uint16_t)at}, 2);
    ct_code_byte(out, (uint8_t)(plan->place - r->function));
    ct_code_byte(out, (uint8_t)count);
    for (size_t i = 0; i < count; i++) {
        size_t from = i < moved->count ? moved->at[i].from : covered;
        size_t to = i < moved->count ? body + moved->at[i].to : jump;
        ct_code_byte(out, (uint8_t)from);
        ct_code_byte(out, (uint8_t)to);
        ct_code_byte(out, (uint8_t)(to >> 8));
    }
}

/* Emits the stub with a body that covers at least `minimum` bytes from `place`. `whole`: all moves are kept. */
static enum ct_hook_skip_reason emit_stub(const struct ct_plan_request *r, struct ct_code_buf *out,
                                          struct ct_plan *plan, uint64_t place, size_t minimum, bool whole,
                                          size_t *covered) {
    struct ct_x64_moved moved;
    size_t before = out->length, size = (size_t)(r->end - place);
    emit_head(r, out, plan);
    int status = ct_x64_relocate_range(out, ct_scan_bytes(r->scan, place), size, minimum < size ? minimum : size, place,
                                       covered, &moved);
    if (status || out->overflow) {
        out->length = before;
        return status ? skip_of(status) : CT_HOOK_SKIP_UNMOVABLE;
    }
    plan->place = place;
    keep_moves(plan, &moved);
    if (whole && !keep_all_moves(plan, &moved))
        return CT_HOOK_SKIP_UNMOVABLE;
    finish_head(r, out, before, plan);
    emit_moves(r, out, before, *covered, &moved, plan);
    return CT_HOOK_SKIP_NONE;
}

/* Emits the stub of a function that is entered by a long jump. Moves more instructions than that needs when short
 * functions nearby need room. A function that branches to its entry needs room itself. */
static enum ct_hook_skip_reason emit_with_room(const struct ct_plan_request *r, struct ct_code_buf *out,
                                               struct ct_plan *plan, uint64_t place, size_t need, size_t *covered) {
    unsigned wanted = ct_springboards_wanted(r->scan, place);
    size_t room = ct_springboards_fit(r->scan, place, r->end, wanted > r->boards ? wanted : r->boards);
    if (room > need && !(r->scan_flags & CT_SCAN_LOOPED) && !emit_stub(r, out, plan, place, room, false, covered)) {
        plan->room = (uint8_t)*covered;
        return CT_HOOK_SKIP_NONE;
    }
    return emit_stub(r, out, plan, place, need, false, covered);
}

/* ---- the three ways ---- */

/* jmp stub at the entry; for short loops to the entry also jmp body after it. */
static enum ct_hook_skip_reason plan_long(const struct ct_plan_request *r, struct ct_code_buf *out,
                                          struct ct_plan *plan, uint64_t place, bool two_jumps) {
    size_t need = two_jumps ? 2 * JUMP_SIZE : JUMP_SIZE, covered;
    if (place + need > r->end && (place + need > ct_springboards_padding_end(r->scan, r->function, r->end) ||
                                  any_within(r->scan, r->scan->taken, r->end, place + need)))
        return CT_HOOK_SKIP_TOO_SHORT;
    if (any_within(r->scan, r->scan->landing, place + 1, place + need))
        return CT_HOOK_SKIP_BRANCH_INTO;
    enum ct_hook_skip_reason reason = emit_with_room(r, out, plan, place, need, &covered);
    if (reason)
        return reason;
    struct ct_patch *p = add_patch(r->scan, plan, place, need);
    take_padding(r->scan, r->end, place + need);
    ct_springboards_offer(r->scan, place, place + plan->room);
    put_jump(p, 0, plan->stub);
    if (two_jumps)
        put_jump(p, JUMP_SIZE, plan->body);
    if (!(r->scan_flags & CT_SCAN_LOOPED) ||
        redirect_loops(r, plan, place + covered, two_jumps ? place + JUMP_SIZE : 0))
        return CT_HOOK_SKIP_NONE;
    return CT_HOOK_SKIP_LOOP_ENTRY;
}

/* jmp rel8 to a springboard that jumps to the stub. The engine's own hooks are removed last, so they need no host. */
static enum ct_hook_skip_reason plan_short(const struct ct_plan_request *r, struct ct_code_buf *out,
                                           struct ct_plan *plan, uint64_t place) {
    size_t covered;
    uint64_t board;
    if (place + SHORT_JUMP_SIZE > ct_springboards_padding_end(r->scan, r->function, r->end))
        return CT_HOOK_SKIP_TOO_SHORT;
    if (any_within(r->scan, r->scan->landing, place + 1, place + SHORT_JUMP_SIZE))
        return CT_HOOK_SKIP_BRANCH_INTO;
    enum ct_hook_skip_reason reason = emit_stub(r, out, plan, place, SHORT_JUMP_SIZE, false, &covered);
    if (reason)
        return reason;
    if (!springboard_patch(r->scan, plan, place + SHORT_JUMP_SIZE, plan->stub, r->special ? NULL : &plan->host, &board))
        return CT_HOOK_SKIP_NO_SPRINGBOARD;
    struct ct_patch *p = add_patch(r->scan, plan, place, SHORT_JUMP_SIZE);
    p->bytes[0] = 0xeb;
    p->bytes[1] = (uint8_t)(board - (place + SHORT_JUMP_SIZE));
    if (!(r->scan_flags & CT_SCAN_LOOPED) || redirect_loops(r, plan, place + covered, 0))
        return CT_HOOK_SKIP_NONE;
    return CT_HOOK_SKIP_LOOP_ENTRY;
}

/* The whole function runs in the copy. Only a thread that is in the original now could still branch to the bytes under
 * the patch, and it is moved. */
static enum ct_hook_skip_reason plan_whole(const struct ct_plan_request *r, struct ct_code_buf *out,
                                           struct ct_plan *plan, uint64_t place, enum ct_hook_skip_reason because) {
    size_t covered, size = (size_t)(r->end - place);
    if (size <= CT_TWO_JUMPS || size > MAX_WHOLE || any_within(r->scan, r->scan->foreign, place + 1, r->end))
        return because;
    if (emit_stub(r, out, plan, place, size, true, &covered))
        return because;
    struct ct_patch *p = add_patch(r->scan, plan, place, JUMP_SIZE);
    put_jump(p, 0, plan->stub);
    return CT_HOOK_SKIP_NONE;
}

uint64_t ct_plan_moved(const struct ct_plan *plan, uint64_t pc, bool in_call) {
    if (pc < plan->place || (pc == plan->place && !in_call))
        return 0;
    for (unsigned i = 0; plan->whole && i < plan->whole->count; i++)
        if (plan->whole->at[i].from == pc - plan->place)
            return plan->body + plan->whole->at[i].to;
    for (unsigned i = 0; i < plan->patch_count; i++) {
        const struct ct_patch *p = &plan->patches[i];
        if (p->at != plan->place || pc >= p->at + (p->size > plan->room ? p->size : plan->room))
            continue;
        for (unsigned m = 0; m < plan->move_count; m++)
            if (plan->move_from[m] == pc - plan->place)
                return plan->body + plan->move_to[m];
    }
    return 0;
}

void ct_plan_release(const struct ct_plan_request *r, struct ct_plan *plan) {
    free(plan->whole);
    plan->whole = NULL;
    ct_springboards_withdraw(r->scan, plan->place, plan->place + plan->room);
    for (unsigned i = 0; i < plan->patch_count; i++)
        for (unsigned b = 0; b < plan->patches[i].size; b++)
            ct_scan_clear(r->scan, r->scan->taken, plan->patches[i].at + b);
}

static void start_over(const struct ct_plan_request *r, struct ct_code_buf *out, size_t length, struct ct_plan *plan) {
    ct_plan_release(r, plan);
    out->length = length;
    out->overflow = false;
    plan->patch_count = plan->room = 0;
    plan->host = 0;
}

enum ct_hook_skip_reason ct_plan_hook(const struct ct_plan_request *r, struct ct_code_buf *out, struct ct_plan *plan) {
    size_t before = out->length;
    uint64_t place = ct_springboards_place(r->scan, r->function, r->end);
    *plan = (struct ct_plan){.function = r->function};
    if (place < r->end && *ct_scan_bytes(r->scan, place) == 0xcc)
        return CT_HOOK_SKIP_UNMOVABLE; /* a debugger's breakpoint must stay where it was set */
    if (place >= r->end)
        return CT_HOOK_SKIP_TOO_SHORT;
    enum ct_hook_skip_reason reason = plan_long(r, out, plan, place, false);
    if (reason == CT_HOOK_SKIP_LOOP_ENTRY) {
        start_over(r, out, before, plan);
        if (plan_long(r, out, plan, place, true) == CT_HOOK_SKIP_NONE)
            return CT_HOOK_SKIP_NONE;
    }
    if (reason == CT_HOOK_SKIP_TOO_SHORT || reason == CT_HOOK_SKIP_BRANCH_INTO || reason == CT_HOOK_SKIP_UNMOVABLE) {
        start_over(r, out, before, plan);
        reason = plan_short(r, out, plan, place);
    }
    if (reason == CT_HOOK_SKIP_BRANCH_INTO || reason == CT_HOOK_SKIP_LOOP_ENTRY ||
        reason == CT_HOOK_SKIP_NO_SPRINGBOARD) {
        start_over(r, out, before, plan);
        reason = plan_whole(r, out, plan, place, reason);
    }
    if (reason)
        start_over(r, out, before, plan);
    return reason;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Carries out transactions: stops the other threads, gives each its block, writes patches, moves threads out of the
 * way.
 *
 * Between stop and resume only system calls and our own memory are used: a stopped thread may hold any lock. */
#include "hook/page_writer.h"
#include "hook/set.h"
#include "os/os.h"
#include "os/thread.h"

/* ---- stopping ---- */

/* A process with one thread needs no helper process, and can be patched while a debugger traces it: `stopped` is
 * NULL. */
static int stop_others(struct ct_os_stopped **stopped) {
    *stopped = NULL;
    return ct_os_single_threaded() ? 0 : ct_os_stop_threads(stopped);
}

static void resume_others(struct ct_os_stopped *stopped) {
    if (stopped)
        ct_os_resume_threads(stopped);
}

static size_t count_of(const struct ct_os_stopped *stopped) {
    return stopped ? ct_os_stopped_count(stopped) : 0;
}

/* ---- blocks ---- */

static struct ct_block *block_with_tid(struct ct_runtime *rt, int tid) {
    for (struct ct_block *b = rt->blocks; b; b = b->next)
        if (b->in_use == 1 && b->tid == tid)
            return b;
    return NULL;
}

static bool is_ours(const struct ct_runtime *rt, uint64_t gs) {
    for (const struct ct_block *b = rt->blocks; b; b = b->next)
        if ((uint64_t)b == gs)
            return true;
    return false;
}

/* A block that the Stalker made before there were hooks. */
static bool is_guest(uint64_t gs) {
    uint64_t self = 0, runtime = 1;
    return !ct_os_peek(gs + CT_BLOCK_SELF, &self, sizeof self) && self == gs &&
           !ct_os_peek(gs + offsetof(struct ct_block, runtime), &runtime, sizeof runtime) && !runtime;
}

/* The block's thread, which is stopped or the caller, goes on with the block `b`. */
static void move_guest(uint64_t from, struct ct_block *b) {
    const uint64_t *old = (const uint64_t *)(from + CT_BLOCK_GUEST);
    uint64_t *new = (uint64_t *)((uint64_t)b + CT_BLOCK_GUEST);
    uint64_t *owner = *(uint64_t **)(from + CT_BLOCK_GUEST_OWNER);
    if (!owner || *(const uint64_t *)(from + CT_BLOCK_GUEST_TID) != (uint64_t)b->tid)
        return; /* inherited */
    for (unsigned i = 0; i < (CT_BLOCK_GUEST_END - CT_BLOCK_GUEST) / 8; i++)
        new[i] = old[i];
    *owner = (uint64_t) new;
}

/* A program that uses GS itself is refused before anything has changed. */
static int check_gs(const struct ct_runtime *rt, struct ct_os_stopped *stopped) {
    uint64_t own = ct_os_get_block();
    if (own && !is_ours(rt, own) && !is_guest(own))
        return CT_ERR_UNSUPPORTED;
    for (size_t i = 0; i < count_of(stopped); i++) {
        struct ct_registers regs;
        if (ct_os_stopped_get_regs(stopped, i, &regs))
            continue;
        uint64_t block = ct_registers_block(&regs);
        if (block && !is_ours(rt, block) && !is_guest(block))
            return CT_ERR_UNSUPPORTED;
    }
    return 0;
}

static int peek_own(const void *memory, uint64_t address, void *bytes, size_t size) {
    (void)memory;
    return ct_os_peek(address, bytes, size);
}

/* Every thread has GS before the first patch: a GS of zero would fault. A GS that a thread inherited from its creator
 * is good enough until the thread registers itself. */
static int equip_stopped(struct ct_runtime *rt, struct ct_os_stopped *stopped) {
    for (size_t i = 0; i < count_of(stopped); i++) {
        struct ct_registers regs;
        if (ct_os_stopped_get_regs(stopped, i, &regs))
            continue; /* it has ended */
        uint64_t old = ct_registers_block(&regs);
        if (old && !is_guest(old))
            continue;
        int tid = ct_os_stopped_tid(stopped, i);
        struct ct_block *b = block_with_tid(rt, tid);
        if (!b)
            b = ct_block_create(rt, tid, ct_registers_thread_pointer(&regs, peek_own, NULL));
        if (!b)
            return CT_ERR_NO_MEMORY;
        if (old)
            move_guest(old, b);
        ct_registers_set_block(&regs, (uint64_t)b);
        if (ct_os_stopped_set_regs(stopped, i, &regs))
            return CT_ERR_SYSTEM;
    }
    return 0;
}

static int equip_self(struct ct_runtime *rt) {
    uint64_t own = ct_os_get_block();
    if (own && !is_guest(own))
        return 0;
    uint64_t mask = ct_os_block_signals();
    struct ct_block *b = ct_block_create(rt, ct_os_gettid(), ct_os_thread_pointer());
    int status = b ? ct_block_install(b) : CT_ERR_NO_MEMORY;
    uint64_t *owner = own ? *(uint64_t **)(own + CT_BLOCK_GUEST_OWNER) : NULL;
    if (!status && owner && *owner == own + CT_BLOCK_GUEST) /* else we are followed, and it has moved along */
        move_guest(own, b);
    ct_os_restore_signals(mask);
    return status;
}

/* ---- patches ---- */

static int peek(void *arg, uint64_t address, void *bytes, size_t size) {
    (void)arg;
    return ct_os_peek(address, bytes, size);
}

static int poke(void *arg, uint64_t address, const void *bytes, size_t size) {
    return ct_os_poke_at(arg, address, bytes, size);
}

static int write_word(const struct ct_hook_record *r, uint64_t word) {
    return ct_arena_store8(r->module->region->arena, r->plan.stub, word);
}

static int carry_out_change(struct ct_page_writer *w, struct ct_change *c) {
    switch (c->kind) {
    case CT_CHANGE_INSTALL:
        return ct_page_writer_patch(w, &c->record->plan, false);
    case CT_CHANGE_REVERT:
        return ct_page_writer_patch(w, &c->record->plan, true);
    case CT_CHANGE_ADOPT:
        return ct_set_rewrite_stub(c->record);
    case CT_CHANGE_LODGE:
        return write_word(c->record, c->record->plan.word_off);
    }
    return CT_ERR_INVALID_ARGUMENT;
}

static void undo_change(struct ct_page_writer *w, struct ct_change *c) {
    switch (c->kind) {
    case CT_CHANGE_INSTALL:
        (void)ct_page_writer_patch(w, &c->record->plan, true);
        break;
    case CT_CHANGE_REVERT:
        (void)ct_page_writer_patch(w, &c->record->plan, false);
        break;
    case CT_CHANGE_ADOPT: {
        struct ct_plan_request now = c->record->request;
        c->record->request = c->old_request;
        ct_set_rewrite_stub(c->record);
        c->record->request = now;
        break;
    }
    case CT_CHANGE_LODGE:
        if (c->record->state == CT_HOOK_LIVE)
            (void)write_word(c->record, c->record->plan.word_on);
        break;
    }
}

static int write_all(struct ct_hooks *set, struct ct_page_writer *w) {
    size_t done = 0;
    int status = 0;
    while (!status && done < set->change_count)
        status = carry_out_change(w, &set->changes[done++]);
    if (!status)
        status = ct_page_writer_flush(w);
    if (status) {
        while (done-- > 0)
            undo_change(w, &set->changes[done]);
        (void)ct_page_writer_flush(w);
    }
    return status;
}

/* ---- threads that are in the way ---- */

#define SIGNAL_STACKS 4           /* how many stacks a thread's handlers are followed over */
#define STACK_MAX     (16u << 20) /* how far a stack is searched: a coroutine's may be a corner of a large heap */

struct stack_end {
    uint64_t sp, end;
};

static int find_stack_end(void *arg, const struct ct_os_map *map) {
    struct stack_end *s = arg;
    if (s->sp < map->start || s->sp >= map->end)
        return 0;
    s->end = map->prot & CT_OS_READ ? map->end : 0;
    return 1;
}

/* Where a thread goes that is on a springboard which is removed. */
static uint64_t forwarded_place(const struct ct_plan *plan, uint64_t pc) {
    for (unsigned i = 0; i < plan->patch_count; i++) {
        if (plan->patches[i].at == pc && plan->patches[i].forward)
            return plan->patches[i].forward;
        if (plan->patches[i].size == CT_TWO_JUMPS && plan->patches[i].at + CT_TWO_JUMPS / 2 == pc)
            return plan->body; /* the second of two jumps */
    }
    return 0;
}

static uint64_t new_place(const struct ct_hooks *set, uint64_t pc, bool in_call) {
    uint64_t to = 0;
    for (size_t i = 0; i < set->change_count && !to; i++) {
        const struct ct_change *c = &set->changes[i];
        if (c->kind == CT_CHANGE_INSTALL)
            to = ct_plan_moved(&c->record->plan, pc, in_call);
        else if (c->kind == CT_CHANGE_REVERT)
            to = forwarded_place(&c->record->plan, pc);
    }
    return to;
}

/* Code that a signal handler interrupted is in the way too: the place where it goes on is in the handler's frame, which
 * may be on another stack than the code. */
static void move_interrupted(const struct ct_hooks *set, uint64_t sp) {
    for (int stacks = 0; stacks < SIGNAL_STACKS; stacks++) {
        struct stack_end s = {.sp = sp};
        uint64_t next = 0;
        ct_os_each_map(find_stack_end, &s);
        if (s.end > sp + STACK_MAX)
            s.end = sp + STACK_MAX;
        for (uint64_t at = (sp + 7) & ~7ull; at + 8 <= s.end; at += 8) {
            struct ct_os_signal_frame frame;
            if (!ct_os_signal_frame_at(at, s.end, &frame))
                continue;
            uint64_t to = new_place(set, *frame.pc, false);
            if (to)
                *frame.pc = to;
            if (frame.sp < sp || frame.sp >= s.end)
                next = frame.sp;
        }
        if (!next)
            return;
        sp = next;
    }
}

static void move_threads(struct ct_hooks *set, struct ct_os_stopped *stopped) {
    move_interrupted(set, (uint64_t)__builtin_frame_address(0));
    for (size_t t = 0; t < count_of(stopped); t++) {
        struct ct_registers regs;
        if (ct_os_stopped_get_regs(stopped, t, &regs))
            continue;
        uint64_t to = new_place(set, ct_registers_pc(&regs), ct_registers_call_size(&regs) != 0);
        if (to) {
            ct_registers_set_pc(&regs, to);
            ct_os_stopped_set_regs(stopped, t, &regs);
        }
        move_interrupted(set, ct_registers_sp(&regs));
    }
}

/* ---- the transaction ---- */

static int freeze_all(struct ct_hooks *set) {
    for (struct ct_hook_region *r = set->code.regions; r; r = r->next) {
        int status = ct_arena_freeze(r->arena);
        if (status)
            return status;
    }
    return 0;
}

/* ---- may stub memory be given back ---- */

/* Is `sp` on a thread's slow stack? Then a slow path runs there, and what it will return to is on the stack that it
 * came from. */
static bool on_slow_stack(const struct ct_hooks *set, uint64_t sp) {
    for (const struct ct_block *b = set->runtime->blocks; b; b = b->next)
        if (sp > (uint64_t)b && sp <= b->slow_stack)
            return true;
    return false;
}

/* Return addresses into stubs, and the places where signal handlers will continue, are all above sp, or on the stack
 * that a handler has interrupted. */
static bool stack_points_to_code(const struct ct_hooks *set, uint64_t sp) {
    for (int stacks = 0; stacks < SIGNAL_STACKS && sp; stacks++) {
        struct stack_end s = {.sp = sp};
        uint64_t next = 0;
        ct_os_each_map(find_stack_end, &s);
        if (s.end == 0 || on_slow_stack(set, sp))
            return true;
        for (uint64_t at = (sp + 7) & ~7ull; at + 8 <= s.end; at += 8) {
            struct ct_os_signal_frame frame;
            if (ct_hook_region_of(&set->code, ct_frame_plain(*(const uint64_t *)at)))
                return true;
            if (ct_os_signal_frame_at(at, s.end, &frame) && (frame.sp < sp || frame.sp >= s.end))
                next = frame.sp;
        }
        sp = next;
    }
    return sp != 0;
}

static bool code_in_use(const struct ct_hooks *set, struct ct_os_stopped *stopped) {
    if (stack_points_to_code(set, (uint64_t)__builtin_frame_address(0)))
        return true;
    for (const struct ct_block *b = set->runtime->blocks; b; b = b->next)
        if (b->in_use && (b->attention & CT_ATTENTION_GUARD) && b->tid != ct_os_gettid())
            return true; /* in a listener or sink, maybe on a stack of ours */
    for (size_t i = 0; i < count_of(stopped); i++) {
        struct ct_registers regs;
        if (ct_os_stopped_get_regs(stopped, i, &regs))
            continue;
        if (ct_hook_region_of(&set->code, ct_registers_pc(&regs)) ||
            ct_hook_region_of(&set->code, ct_frame_plain(ct_registers_link(&regs))) ||
            stack_points_to_code(set, ct_registers_sp(&regs)))
            return true;
    }
    return false;
}

static int apply_stopped(struct ct_hooks *set, struct ct_page_writer *w, struct ct_os_stopped *stopped) {
    int status = check_gs(set->runtime, stopped);
    if (!status)
        status = equip_self(set->runtime);
    if (!status)
        status = equip_stopped(set->runtime, stopped);
    if (!status)
        status = write_all(set, w);
    if (!status)
        move_threads(set, stopped);
    if (!status && set->closing)
        set->code_in_use = code_in_use(set, stopped);
    return status;
}

int ct_set_apply(struct ct_hooks *set) {
    struct ct_os_poker poker;
    struct ct_page_writer w = {.read = peek, .write = poke, .arg = &poker};
    struct ct_os_stopped *stopped;
    int status = freeze_all(set);
    if (status || (status = ct_os_poke_open(&poker)))
        return status;
    uint64_t start = ct_os_nanoseconds();
    status = stop_others(&stopped);
    if (!status) {
        status = apply_stopped(set, &w, stopped);
        resume_others(stopped);
    }
    for (size_t i = 0; i < set->change_count && ct_hook_on_change; i++) {
        const struct ct_plan *plan = &set->changes[i].record->plan;
        for (unsigned k = 0; k < plan->patch_count; k++)
            ct_hook_on_change(plan->patches[k].at, plan->patches[k].size);
    }
    set->stop_ns = ct_os_nanoseconds() - start;
    ct_os_poke_close(&poker);
    return status;
}

/* Carries out transactions: stops the other threads, gives each its block, writes patches, moves threads out of the way.
 *
 * Between stop and resume only system calls and our own memory are used: a stopped thread may hold any lock. */
#include "hook/set.h"
#include "os/os.h"
#include "os/thread.h"

/* ---- stopping ---- */

/* A process with one thread needs no helper, and can be patched while a debugger traces it: `stopped` is NULL. */
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

/* Every thread has GS before the first patch: a GS of zero would fault. Somebody else's GS is not ours to take. */
static int equip_stopped(struct ct_runtime *rt, struct ct_os_stopped *stopped) {
    for (size_t i = 0; i < count_of(stopped); i++) {
        struct ct_os_regs regs;
        if (ct_os_stopped_get_regs(stopped, i, &regs))
            continue; /* it has ended */
        int tid = ct_os_stopped_tid(stopped, i);
        struct ct_block *b = block_with_tid(rt, tid);
        if (b && regs.gs_base)
            continue;
        if (regs.gs_base && !rt->blocks)
            return CT_ERR_UNSUPPORTED;
        if (regs.gs_base)
            continue; /* inherited from its creator: it registers by itself */
        uint64_t pointer = 0;
        if (ct_os_peek(regs.fs_base, &pointer, sizeof pointer))
            pointer = regs.fs_base;
        if (!b)
            b = ct_block_create(rt, tid, pointer);
        if (!b)
            return CT_ERR_NO_MEMORY;
        regs.gs_base = (uint64_t)b;
        if (ct_os_stopped_set_regs(stopped, i, &regs))
            return CT_ERR_SYSTEM;
    }
    return 0;
}

static int equip_self(struct ct_runtime *rt) {
    uint64_t gs = ct_os_get_block();
    if (gs)
        return rt->blocks ? 0 : CT_ERR_UNSUPPORTED;
    uint64_t mask = ct_os_block_signals();
    struct ct_block *b = ct_block_create(rt, ct_os_gettid(), ct_os_thread_pointer());
    int status = b ? ct_block_install(b) : CT_ERR_NO_MEMORY;
    ct_os_restore_signals(mask);
    return status;
}

/* ---- patches ---- */

/* Taken back is only what is ours: the module may have been unloaded, and another one loaded in its place. */
static bool is_patched(const struct ct_patch *p) {
    uint8_t now[CT_PATCH_MAX];
    if (ct_os_peek(p->at, now, p->size))
        return false;
    for (unsigned i = 0; i < p->size; i++)
        if (now[i] != p->bytes[i])
            return false;
    return true;
}

/* The entry comes last when installing, so that its springboard is there first, and first when restoring. */
static int write_patches(const struct ct_os_poker *poker, const struct ct_plan *plan, bool restore) {
    for (unsigned i = 0; i < plan->patch_count; i++) {
        const struct ct_patch *p = &plan->patches[restore ? plan->patch_count - 1 - i : i];
        if (restore && !is_patched(p))
            continue;
        int status = ct_os_poke_at(poker, p->at, restore ? p->original : p->bytes, p->size);
        if (status)
            return status;
    }
    return 0;
}

static int carry_out(struct ct_os_poker *poker, struct ct_change *c) {
    switch (c->kind) {
    case CT_CHANGE_INSTALL:
        return write_patches(poker, &c->record->plan, false);
    case CT_CHANGE_REVERT:
        return write_patches(poker, &c->record->plan, true);
    case CT_CHANGE_ADOPT:
        return ct_set_rewrite_stub(c->record);
    }
    return CT_ERR_INVALID_ARGUMENT;
}

static void undo(struct ct_os_poker *poker, struct ct_change *c) {
    switch (c->kind) {
    case CT_CHANGE_INSTALL:
        write_patches(poker, &c->record->plan, true);
        break;
    case CT_CHANGE_REVERT:
        write_patches(poker, &c->record->plan, false);
        break;
    case CT_CHANGE_ADOPT: {
        struct ct_plan_request now = c->record->request;
        c->record->request = c->old_request;
        ct_set_rewrite_stub(c->record);
        c->record->request = now;
        break;
    }
    }
}

static int write_all(struct ct_hooks *set, struct ct_os_poker *poker) {
    for (size_t i = 0; i < set->change_count; i++) {
        int status = carry_out(poker, &set->changes[i]);
        if (!status)
            continue;
        while (i-- > 0)
            undo(poker, &set->changes[i]);
        return status;
    }
    return 0;
}

/* ---- threads that stand in the way ---- */

/* Where a thread goes that stands on a springboard which is taken away. */
static uint64_t forwarded_place(const struct ct_plan *plan, uint64_t pc) {
    for (unsigned i = 0; i < plan->patch_count; i++) {
        if (plan->patches[i].at == pc && plan->patches[i].forward)
            return plan->patches[i].forward;
        if (plan->patches[i].size == CT_PATCH_MAX && plan->patches[i].at + CT_PATCH_MAX / 2 == pc)
            return plan->body; /* the second of two jumps */
    }
    return 0;
}

static void move_threads(struct ct_hooks *set, struct ct_os_stopped *stopped) {
    for (size_t t = 0; t < count_of(stopped); t++) {
        struct ct_os_regs regs;
        if (ct_os_stopped_get_regs(stopped, t, &regs))
            continue;
        uint64_t to = 0;
        for (size_t i = 0; i < set->change_count && !to; i++) {
            const struct ct_change *c = &set->changes[i];
            if (c->kind == CT_CHANGE_INSTALL)
                to = ct_plan_moved(&c->record->plan, regs.pc, regs.call_size != 0);
            else if (c->kind == CT_CHANGE_REVERT)
                to = forwarded_place(&c->record->plan, regs.pc);
        }
        if (to) {
            regs.pc = to;
            ct_os_stopped_set_regs(stopped, t, &regs);
        }
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

struct stack_end {
    uint64_t sp, end;
};

static int find_stack_end(void *arg, const struct ct_os_map *map) {
    struct stack_end *s = arg;
    if (s->sp < map->start || s->sp >= map->end)
        return 0;
    s->end = map->end;
    return 1;
}

/* Return addresses into stubs, and the places where signal handlers will continue, are all somewhere above sp. */
static bool stack_points_to_code(const struct ct_hooks *set, uint64_t sp) {
    struct stack_end s = {.sp = sp};
    ct_os_each_map(find_stack_end, &s);
    for (uint64_t at = (sp + 7) & ~7ull; at + 8 <= s.end; at += 8)
        if (ct_hook_region_of(&set->code, *(const uint64_t *)at))
            return true;
    return s.end == 0;
}

static bool code_in_use(const struct ct_hooks *set, struct ct_os_stopped *stopped) {
    if (stack_points_to_code(set, (uint64_t)__builtin_frame_address(0)))
        return true;
    for (size_t i = 0; i < count_of(stopped); i++) {
        struct ct_os_regs regs;
        if (ct_os_stopped_get_regs(stopped, i, &regs))
            continue;
        if (ct_hook_region_of(&set->code, regs.pc) || stack_points_to_code(set, regs.sp))
            return true;
    }
    return false;
}

static int apply_stopped(struct ct_hooks *set, struct ct_os_poker *poker, struct ct_os_stopped *stopped) {
    int status = equip_self(set->runtime);
    if (!status)
        status = equip_stopped(set->runtime, stopped);
    if (!status)
        status = write_all(set, poker);
    if (!status)
        move_threads(set, stopped);
    if (!status && set->closing)
        set->code_in_use = code_in_use(set, stopped);
    return status;
}

int ct_set_apply(struct ct_hooks *set) {
    struct ct_os_poker poker;
    struct ct_os_stopped *stopped;
    int status = freeze_all(set);
    if (status || (status = ct_os_poke_open(&poker)))
        return status;
    uint64_t start = ct_os_nanoseconds();
    status = stop_others(&stopped);
    if (!status) {
        status = apply_stopped(set, &poker, stopped);
        resume_others(stopped);
    }
    set->stop_ns = ct_os_nanoseconds() - start;
    ct_os_poke_close(&poker);
    return status;
}

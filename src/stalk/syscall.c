/* SPDX-License-Identifier: Apache-2.0 */
/* System calls of followed threads, Linux. Those that change what is followed are handled here; the copy of the
 * instruction makes all others. */
#include "hook/layout.h"
#include "isa/host.h"
#include "os/linux/syscall.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/cache.h"
#include "stalk/engine.h"
#include "stalk/events.h"
#include "stalk/link.h"
#include "stalk/memory.h"
#include "stalk/section.h"
#include "stalk/signals.h"
#include "stalk/stalker.h"
#include "stalk/translate.h"
#include "stalk/unwind.h"
#include "stalk/vfork.h"
#include CT_HOST_HEADER(calls)

#include <linux/sched.h>

enum { SET_SECCOMP = 22, CWD = -100 };

/* The call has been made: returns the address after the instruction. */
static uint64_t finish_call(struct stalk_thread *t, int64_t result) {
    t->area->gpr[CALL_RESULT] = (uint64_t)result;
    set_clobbered(t->area, 0);
    return t->area->target + CALL_AFTER;
}

static int64_t make_call(struct stalk_thread *t) {
    const uint64_t *r = t->area->gpr;
    return syscall6((long)r[CALL_NUMBER], (long)r[ARG0], (long)r[ARG1], (long)r[ARG2], (long)r[ARG3], (long)r[ARG4],
                    (long)r[ARG5]);
}

/* ---- memory ---- */

static bool touches_code(const struct ct_stalker *s, struct stalk_range range) {
    for (uint32_t i = 0; i < s->map_count; i++)
        if (s->maps[i].start < range.end && range.start < s->maps[i].end)
            return true;
    return false;
}

/* Does the call remove what was mapped at its address? */
static bool takes_place(const struct stalk_thread *t) {
    const uint64_t *r = t->area->gpr;
    return r[CALL_NUMBER] == __NR_munmap || r[CALL_NUMBER] == __NR_mremap ||
           (r[CALL_NUMBER] == __NR_mmap && r[ARG3] & MAP_FIXED);
}

/* The pages of what a call names; none, if its size is 0. */
static struct stalk_range pages(uint64_t start, uint64_t size) {
    uint64_t end = (start + size + CT_PAGE_SIZE - 1) & ~(uint64_t)(CT_PAGE_SIZE - 1);
    return (struct stalk_range){start, !size ? start : end > start ? end : ~0ull};
}

/* What a call changes: where something was, and where it is moved to. */
struct change {
    struct stalk_range at, to;
};

/* `result`: of the call, or, before it, what it asks for. */
static struct change change_of(const uint64_t *r, uint64_t result) {
    struct change c = {pages(r[ARG0], r[ARG1]), {0, 0}};
    if (r[CALL_NUMBER] == __NR_mmap)
        c.at = pages(result, r[ARG1]);
    if (r[CALL_NUMBER] == __NR_mremap)
        c.to = pages(result, r[ARG2]);
    return c;
}

static struct change change_asked_for(const uint64_t *r) {
    bool moves = r[CALL_NUMBER] == __NR_mremap && r[ARG3] & MREMAP_FIXED;
    return change_of(r, moves ? r[ARG4] : r[ARG0]);
}

/* May a call that has failed have changed something? Of several mappings perhaps the first ones. */
static bool failed_midway(const struct stalk_thread *t, int64_t result) {
    uint64_t number = t->area->gpr[CALL_NUMBER];
    return result != -EINVAL && (number == __NR_mprotect || number == __NR_pkey_mprotect || takes_place(t));
}

/* Gives up what was made of a range that a call has changed. `turn`: that of the list of mappings before the call. If
 * another thread has read them again since, what was there is in no list any more. False: there was nothing. */
static bool give_up(struct ct_stalker *s, struct stalk_range range, uint32_t turn) {
    if (range.start == range.end)
        return false;
    bool known = touches_code(s, range) || ct_stalk_touches_constants(s, range.start, range.end);
    if (!known && s->map_turn == turn)
        return false;
    for (struct stalk_cache *c = s->caches; c; c = c->next)
        ct_stalk_invalidate_range(c, range.start, range.end);
    return true;
}

static bool give_up_all(struct ct_stalker *s, const struct change *c, uint32_t turn) {
    bool some = give_up(s, c->at, turn), more = give_up(s, c->to, turn);
    s->constants_old = true;
    if (some || more)
        ct_stalk_forget_maps(s);
    return some || more;
}

static void report_unmapped(const struct ct_stalker *s, const struct change *c) {
    s->family->unmapped(c->at.start, c->at.end);
    if (c->to.start < c->to.end)
        s->family->unmapped(c->to.start, c->to.end);
}

/* Code that was unmapped, replaced or protected differently is no longer what was translated. */
static uint64_t change_memory(struct stalk_thread *t) {
    struct ct_stalker *s = t->stalker;
    uint64_t next = next_of(t);
    struct change change = change_asked_for(t->area->gpr);
    ct_stalk_lock(s);
    ct_stalk_know_maps(s); /* as they are before the call */
    uint32_t turn = s->map_turn;
    bool unmaps = s->family && takes_place(t) && (touches_code(s, change.at) || touches_code(s, change.to));
    ct_stalk_unlock(s);
    if (unmaps && !ct_stalk_is_vforked(t)) { /* report calls of the old code before new code is there */
        ct_stalk_events_drain(t, true);
        ct_stalk_events_drain_others(t, false);
    }
    int64_t result = make_call(t);
    bool done = !failed(result);
    if (done)
        change = change_of(t->area->gpr, (uint64_t)result);
    if (unmaps && done)
        report_unmapped(s, &change);
    bool changed = done || failed_midway(t, result);
    uint64_t code = finish_call(t, result);
    if (!changed)
        return code;
    ct_stalk_lock(s);
    struct stalk_entry *e = NULL;
    int status;
    if (give_up_all(s, &change, turn) && (e = ct_stalk_obtain(t, next, &status)))
        set_clobbered(t->area, next);
    ct_stalk_unlock(s);
    return e ? e->code : code;
}

/* ---- processes and threads ---- */

/* This thread does not exist in the child, wherever it is in the parent. */
static void forget_thread(const struct stalk_thread *t, struct stalk_thread *other) {
    other->following = 0;
    other->at_entry = false;
    if (!other->area || other->area == t->area)
        return;
    other->area->in_engine = other->area->busy = 0;
    other->area->pending = 0;
}

/* The child has its own copy of everything, and one thread. */
static void begin_child(struct stalk_thread *t) {
    struct ct_stalker *s = t->stalker;
    for (struct stalk_thread *other = s->threads; other; other = other->next)
        if (other != t)
            forget_thread(t, other);
    s->followed = 1;
    s->adopting = 0;
    t->claimed = 0; /* perhaps by a thread that does not exist here */
    ct_stalk_signals_in_child();
    ct_stalk_list_in_child();
    ct_stalk_sections_in_child();
    s->pid = ct_os_getpid();
    t->tid = ct_os_gettid();
    t->area->tid = (uint32_t)t->tid;
}

/* Code memory that is not private belongs to parent and child until the child has a copy. Returns a word through which
 * the child reports that; NULL: the memory is private. */
static uint32_t *share_word(const struct ct_stalker *s) {
    bool shared = false;
    for (const struct stalk_cache *c = s->caches; c; c = c->next)
        for (const struct stalk_region *r = c->regions; r; r = r->next)
            shared |= ct_arena_mode(r->arena) != CT_WX_RWX;
    shared |= ct_stalk_landings_shared();
    if (!shared)
        return NULL;
    long at = sys_mmap(0, CT_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    return failed(at) ? NULL : (uint32_t *)at;
}

static void copy_code(const struct ct_stalker *s) {
    for (const struct stalk_cache *c = s->caches; c; c = c->next)
        for (const struct stalk_region *r = c->regions; r; r = r->next)
            (void)ct_arena_unshare(r->arena);
    ct_stalk_landings_in_child();
}

/* The parent, which holds the lock, changes nothing before the child has its copy. It does not wait for a child that
 * died. */
static void wait_for_copy(uint32_t *word, int64_t child) {
    for (unsigned i = 0; i < 5000 && !__atomic_load_n(word, __ATOMIC_ACQUIRE); i++) {
        if (syscall2(__NR_kill, child, 0) < 0)
            return;
        ct_os_sleep_us(i < 100 ? 20 : 200);
    }
}

/* Takes the child's stack out of the call, and returns it: the child continues here on its parent's stack, and gets its
 * own when it leaves. */
static uint64_t take_stack(uint64_t *r, uint64_t args[16]) {
    uint64_t stack = 0;
    if (r[CALL_NUMBER] == __NR_clone) {
        stack = r[ARG1];
        r[ARG1] = 0;
    } else if (r[CALL_NUMBER] == __NR_clone3 && r[ARG1] <= 16 * sizeof *args && !ct_os_peek(r[ARG0], args, r[ARG1]) &&
               args[5]) {
        stack = args[5] + args[6];
        args[5] = args[6] = 0;
        r[ARG0] = (uint64_t)args;
    }
    return stack;
}

struct forked {
    const struct stalk_family *family;
    int before, tid;
    bool followed;
};

static void report_fork(void *arg, void *vectors) {
    struct forked *f = arg;
    (void)vectors;
    f->followed = f->family->forked(f->before, f->tid);
}

/* Called in the child, which has a copy of everything: asks the owner whether the child is followed. */
static void ask_for_child(struct stalk_thread *t, int before) {
    struct forked f = {.family = t->stalker->family, .before = before, .tid = t->tid};
    if (!f.family)
        return;
    ct_stalk_call_out(t, report_fork, &f);
    if (!f.followed)
        t->following = 2;
}

static uint64_t fork_process(struct stalk_thread *t) {
    uint64_t *r = t->area->gpr, args[16], before[2] = {r[ARG0], r[ARG1]}, stack;
    int tid = t->tid;
    if (t->stalker->family)
        (void)t->stalker->family->wants();
    ct_stalk_events_drain(t, true);
    ct_stalk_lock(t->stalker); /* so that the child's copy is consistent */
    uint32_t *word = share_word(t->stalker);
    stack = take_stack(r, args);
    int64_t result = make_call(t);
    r[ARG0] = before[0];
    r[ARG1] = before[1];
    if (result == 0) {
        begin_child(t);
        copy_code(t->stalker);
        if (stack)
            r[CALL_SP] = stack;
        if (word)
            __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    } else if (word && result > 0) {
        wait_for_copy(word, result);
    }
    if (word)
        (void)sys_munmap((uint64_t)word, CT_PAGE_SIZE);
    ct_stalk_unlock(t->stalker);
    if (result == 0)
        ask_for_child(t, tid);
    return finish_call(t, result);
}

/* The child continues natively, or is followed: a new thread asks for itself (ct_stalk_adopt). */
static uint64_t start_vfork(struct stalk_thread *t, enum stalk_clone kind) {
    if (kind == STALK_CLONE_VFORK)
        ct_stalk_vfork_prepare(t, t->area->target + CALL_AFTER);
    ct_stalk_lock(t->stalker);
    t->stalker->cloned = true;
    uint64_t stub = ct_stalk_clone_stub(t->cache, next_of(t), t->area->target + CALL_AFTER, kind);
    ct_stalk_unlock(t->stalker);
    return stub ? stub : t->area->target;
}

/* How a child that shares our memory continues. */
static enum stalk_clone kind_of_clone(const struct stalk_thread *t, uint64_t flags) {
    const struct stalk_family *family = t->stalker->family;
    if (ct_stalk_is_vforked(t))
        return STALK_CLONE_NATIVE;
    if (flags & CLONE_VFORK)
        return family && !(flags & CLONE_THREAD) && family->wants() ? STALK_CLONE_VFORK : STALK_CLONE_NATIVE;
    return flags & CLONE_THREAD && t->stalker->follow_children ? STALK_CLONE_THREAD : STALK_CLONE_NATIVE;
}

static uint64_t clone_something(struct stalk_thread *t) {
    const uint64_t *r = t->area->gpr;
    uint64_t flags = 0, thread_pointer = r[ARG3]; /* of arm64 */
    switch (r[CALL_NUMBER]) {
    case __NR_clone:
        flags = r[ARG0];
        break;
    case __NR_clone3: /* struct clone_args: the first and the eighth of its words */
        if (ct_os_peek(r[ARG0], &flags, sizeof flags) ||
            ct_os_peek(r[ARG0] + 7 * sizeof flags, &thread_pointer, sizeof thread_pointer))
            return t->area->target;
        break;
#ifdef __NR_vfork
    case __NR_vfork:
        flags = CLONE_VM | CLONE_VFORK;
        break;
#endif
    default:
        break;
    }
    if (!(flags & CLONE_VM) && !ct_stalk_is_vforked(t))
        return fork_process(t);
    enum stalk_clone kind = kind_of_clone(t, flags);
    if (flags & CLONE_SETTLS)
        give_block(t, thread_pointer, kind == STALK_CLONE_THREAD);
    return start_vfork(t, kind);
}

struct execution {
    const struct stalk_family *family;
    uint64_t path;
    int directory;
};

static void report_execution(void *arg, void *vectors) {
    const struct execution *x = arg;
    (void)vectors;
    x->family->executes(x->path, x->directory);
}

/* If the call succeeds, all other threads end. */
static uint64_t execute_program(struct stalk_thread *t) {
    const uint64_t *r = t->area->gpr;
    bool relative = r[CALL_NUMBER] == __NR_execveat;
    struct execution x = {
        .family = t->stalker->family, .path = relative ? r[ARG1] : r[ARG0], .directory = relative ? (int)r[ARG0] : CWD};
    if (!ct_stalk_is_vforked(t)) {
        ct_stalk_events_drain(t, true);
        ct_stalk_events_drain_others(t, false);
    }
    if (x.family)
        ct_stalk_call_out(t, report_execution, &x);
    return t->area->target;
}

/* ---- signals ---- */

static uint64_t change_action(struct stalk_thread *t) {
    const uint64_t *r = t->area->gpr;
    struct stalk_action new, old;
    if (r[ARG3] != 8)
        return t->area->target;
    if (r[ARG1] && ct_os_peek(r[ARG1], &new, sizeof new))
        return finish_call(t, -EFAULT);
    int64_t result = ct_stalk_is_vforked(t) ? ct_stalk_sigaction_vforked(r[ARG0], r[ARG1] ? &new : NULL, &old)
                                            : ct_stalk_sigaction(r[ARG0], r[ARG1] ? &new : NULL, &old);
    if (!result && r[ARG2]) {
        uint8_t test[sizeof old];
        if (ct_os_peek(r[ARG2], test, sizeof test))
            return finish_call(t, -EFAULT);
        ct_stalk_copy((void *)r[ARG2], &old, sizeof old);
    }
    return finish_call(t, result);
}

/* ---- GS, and calls after which following cannot continue ---- */

/* Following ends, and the thread makes the call natively. */
static uint64_t end_here(struct stalk_thread *t) {
    if (ct_stalk_is_vforked(t)) {
        t->following = 0;
        return next_of(t) - CALL_SIZE;
    }
    t->status = CT_ERR_UNSUPPORTED;
    t->following = 2;
    return t->area->target;
}

/* The thread makes its last call natively, so that it cannot end in translated code. All of its block has been
 * executed. */
static uint64_t end_thread(struct stalk_thread *t) {
    if (ct_stalk_is_vforked(t)) {
        t->following = 0;
        return t->area->target;
    }
    ct_stalk_events_drain(t, true);
    t->following = 2;
    return t->area->target;
}

#ifdef __NR_arch_prctl
/* The hooks give the thread a block of theirs: moves the area there. */
static uint64_t change_base(struct stalk_thread *t) {
    enum { SET_GS = 0x1001 };
    uint64_t block = t->area->gpr[ARG1], self = 0;
    if (t->area->gpr[ARG0] != SET_GS)
        return t->area->target;
    if (ct_os_peek(block + CT_BLOCK_SELF, &self, sizeof self) || self != block) {
        return end_here(t); /* the program takes the register for itself */
    }
    struct stalk_area *area = (struct stalk_area *)(block + CT_AREA);
    uint64_t result = (uint64_t)finish_call(t, 0);
    ct_stalk_copy(area, t->area, sizeof *area);
    t->area = area;
    (void)ct_os_set_block((void *)block);
    return result;
}
#endif

uint64_t ct_stalk_syscall_enter(struct stalk_thread *t) {
    switch (t->area->gpr[CALL_NUMBER]) {
    case __NR_mmap:
    case __NR_munmap:
    case __NR_mprotect:
    case __NR_pkey_mprotect:
    case __NR_mremap:
        return change_memory(t);
#ifdef __NR_fork
    case __NR_fork:
    case __NR_vfork:
#endif
    case __NR_clone:
    case __NR_clone3:
        return clone_something(t);
    case __NR_rt_sigaction:
        return change_action(t);
    case __NR_rt_sigreturn:
        ct_stalk_sigreturn(t);
        return t->area->target;
    case __NR_execve:
    case __NR_execveat:
        return execute_program(t);
    case __NR_kill: /* it may end the process: abort() */
    case __NR_tkill:
    case __NR_tgkill:
        ct_stalk_events_drain(t, true);
        return t->area->target;
    case __NR_exit_group:
        if (!ct_stalk_is_vforked(t))
            ct_stalk_events_drain_others(t, true);
        return end_thread(t);
    case __NR_exit:
        return end_thread(t);
#ifdef __NR_arch_prctl
    case __NR_arch_prctl:
        return change_base(t);
#endif
    case __NR_prctl:
        return t->area->gpr[ARG0] == SET_SECCOMP ? end_here(t) : t->area->target;
    case __NR_seccomp: /* the engine makes calls of its own */
        return end_here(t);
    default:
        return t->area->target;
    }
}

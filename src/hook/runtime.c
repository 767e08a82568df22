/* SPDX-License-Identifier: Apache-2.0 */
/* Slow paths of the stubs: what the shared assembly does not decide itself.
 *
 * Each runs on the thread that called or returned: first on the program's stack to find the thread's block, then with
 * signals blocked where it changes more than one word. */
#include "hook/runtime.h"
#include "abi/shm_abi.h"
#include "hook/fault.h"
#include "os/os.h"
#include "os/thread.h"
#include <asm/unistd.h>

/* ---- events ---- */

static void fill_at(struct ct_event *e, uint32_t hook, uint32_t tag, uint64_t stamp) {
    e->hook = hook;
    e->kind = tag;
    __atomic_store_n(&e->timestamp, stamp, __ATOMIC_RELEASE);
}

void ct_event_fill(struct ct_event *e, uint32_t hook, uint32_t tag) {
    fill_at(e, hook, tag, ct_os_timestamp());
}

/* Like the shared code. */
static uint32_t numbered_tag(struct ct_block *b, uint32_t kind) {
    return __atomic_fetch_add(&b->ordinal, CT_TAG_STEP, __ATOMIC_RELAXED) | kind;
}

/* A return is captured if its call was. */
static bool is_over_limit(struct ct_block *b, uint32_t hook, uint32_t kind, const struct ct_detail_note *note) {
    int32_t *budget = b->budgets + hook;
    if (kind == CT_EVENT_RETURN)
        return note->entered && !(note->entered & 1);
    return __atomic_load_n(budget, __ATOMIC_RELAXED) <= 0 || __atomic_fetch_sub(budget, 1, __ATOMIC_RELAXED) <= 0;
}

static uint32_t tag_of(struct ct_block *b, uint32_t hook, uint32_t kind, const struct ct_detail_note *note) {
    if (!note)
        return kind;
    if (!b->rules || !b->budgets || !is_over_limit(b, hook, kind, note))
        return numbered_tag(b, kind);
    b->counters->limited++;
    return kind;
}

/* `e` is NULL: the event is lost, and its detail too. */
static void fill_noted(struct ct_block *b, struct ct_event *e, uint32_t hook, uint32_t kind,
                       struct ct_detail_note *note) {
    uint32_t tag = e ? tag_of(b, hook, kind, note) : kind;
    uint64_t stamp = ct_os_timestamp();
    if (e) {
        b->reading = stamp - (((uint64_t)e & CT_CLOCK_TURN) >> CT_CLOCK_SHIFT); /* like the shared code */
        fill_at(e, hook, tag, stamp);
    }
    if (!note)
        return;
    note->stamp = stamp;
    note->tag = tag;
    note->hook = hook;
}

void ct_event_note(struct ct_block *b, uint32_t hook, uint32_t kind, struct ct_detail_note *note) {
    fill_noted(b, ct_event_reserve(b, kind, NULL), hook, kind, note);
}

void ct_event_write(struct ct_block *b, uint32_t hook, uint32_t kind) {
    ct_event_note(b, hook, kind, NULL);
}

/* ---- guarded calls out ---- */

struct saved_call {
    void (*fn)(void *);
    void *arg;
    struct ct_block *block;
};

static void call_function(void *arg, void *vectors) {
    const struct saved_call *c = arg;
    (void)vectors;
    c->fn(c->arg);
}

static uint64_t call_saved_on_stack(uint64_t arg, uint64_t unused) {
    (void)unused;
    struct saved_call *c = (struct saved_call *)arg;
    ct_hook_call_saved(c->block->vectors, call_function, c);
    return 0;
}

void ct_runtime_call_out(struct ct_block *b, void (*fn)(void *), void *arg) {
    bool guarded = b->attention & CT_ATTENTION_GUARD;
    struct saved_call c = {fn, arg, b};
    if (guarded) { /* we are already on the slow stack or in a listener */
        ct_hook_call_saved(b->vectors, call_function, &c);
        return;
    }
    uint64_t mask = ct_block_mask(b); /* one user of the slow stack at a time */
    b->guard_sp = ~0ull;
    ct_block_attend(b, CT_ATTENTION_GUARD);
    ct_hook_on_stack(b->slow_stack, call_saved_on_stack, (uint64_t)&c, 0);
    ct_block_unattend(b, CT_ATTENTION_GUARD);
    ct_block_unmask(b, mask);
}

/* ---- entering ---- */

/* The calling thread's block, if this call is to be seen. */
static struct ct_block *unguarded_block(uint64_t slot) {
    struct ct_block *b = ct_block_current();
    if (!b || b->detached)
        return NULL;
    if (b->attention & CT_ATTENTION_GUARD) {
        /* A listener that jumped away has left its guard set. */
        if (slot < b->guard_sp || !ct_shadow_same_stack(b, slot, b->guard_sp)) {
            b->counters->guarded_calls++;
            return NULL;
        }
        ct_block_unattend(b, CT_ATTENTION_GUARD);
    }
    return b;
}

static struct ct_block *observing_block(uint64_t slot) {
    struct ct_block *b = unguarded_block(slot);
    if (b)
        ct_walk_end(b, slot);
    return b;
}

static uint32_t stub_number(uint64_t stub) {
    return *(const uint32_t *)(stub + CT_AFTER_TO_NUMBER);
}

/* Signals are blocked, so that there is no frame without its event or event without its frame. */
uint64_t ct_hook_enter_slow(uint64_t slot, uint64_t stub, struct ct_detail_note *note) {
    struct ct_block *b = unguarded_block(slot);
    if (!b)
        return CT_GO_BODY;
    uint64_t mask = ct_block_mask(b);
    ct_walk_end(b, slot);
    bool entered = ct_shadow_enter(b, slot, stub) != NULL;
    if (entered)
        ct_event_note(b, stub_number(stub), CT_EVENT_CALL, note);
    else
        b->counters->deep_calls++;
    ct_block_unmask(b, mask);
    return entered ? CT_GO_OBSERVED : CT_GO_BODY;
}

uint64_t ct_hook_entry_slow(uint64_t slot, uint64_t stub, struct ct_detail_note *note) {
    struct ct_block *b = observing_block(slot);
    if (note)
        note->stamp = 0;
    if (b) {
        ct_shadow_arrive(b, slot);
        ct_event_note(b, stub_number(stub), CT_EVENT_ENTRY, note);
    }
    return CT_GO_BODY;
}

/* ---- sampling ---- */

static uint64_t count_call(const struct ct_block *b, uint32_t number) {
    return b->counts ? __atomic_add_fetch(&b->counts[number].calls, 1, __ATOMIC_RELAXED) : 0;
}

/* Like the shared code, for a thread that needs attention. True: the call is recorded, if calls are. */
uint64_t ct_hook_sample_slow(uint64_t stub) {
    struct ct_block *b = ct_block_current();
    if (!b || b->detached || !b->counts)
        return true;
    struct ct_shm_count *count = &b->counts[stub_number(stub)];
    uint64_t calls = count_call(b, stub_number(stub));
    if ((int64_t)(b->top[-1].slot - 8) >= 0) /* neither the sentinel nor a hole: a recorded call is open */
        return true;
    if (calls - count->chosen < b->sample)
        return false;
    count->chosen = calls;
    return true;
}

/* There is no entry for this return: only possible when our memory was overwritten. There is nowhere to go. */
static void lost_return(void) {
    __builtin_trap();
}

/* The stub found its buffer full (or, in a forked child, none). It has claimed an entry for a call, or read the one
 * that returns; both are finished here. */
void ct_hook_event_slow(uint64_t hook, uint64_t kind, uint64_t slot, struct ct_detail_note *note) {
    struct ct_block *b = ct_block_current();
    if (!b)
        lost_return();
    /* Noted in the entry, as the stub does: if a handler jumps away, this shows what was recorded. */
    struct ct_event *event = ct_event_reserve(b, (uint32_t)kind, kind == CT_EVENT_ENTRY ? NULL : &b->top[-1].data);
    fill_noted(b, event, (uint32_t)hook, (uint32_t)kind, note);
    if (kind == CT_EVENT_CALL)
        ct_shadow_filled(b, slot);
    else if (kind == CT_EVENT_RETURN)
        ct_shadow_release(b);
}

/* The stub has released an entry, and the next frame is bare. */
void ct_hook_cover_slow(void) {
    struct ct_block *b = ct_block_current();
    if (b)
        ct_shadow_cover(b);
}

/* ---- returning ---- */

/* A handler that came when the body had just returned may have put the real address in place of ours. */
static uint64_t resume_in(struct ct_block *b, uint64_t slot) {
    return ct_shadow_resume_in(b, slot, ct_frame_of_return(slot));
}

uint64_t ct_hook_leave_slow(uint64_t slot, struct ct_detail_note *note) {
    struct ct_block *b = ct_block_current();
    struct ct_shadow found;
    uint32_t depth;
    if (!b)
        lost_return();
    uint64_t mask = ct_block_mask(b);
    ct_walk_end(b, slot - 8); /* a walk of a handler that has returned; this frame is still there */
    ct_walk_end_look(b, slot);
    if (!ct_shadow_leave(b, slot, resume_in(b, slot), &found, &depth))
        lost_return();
    if (note)
        *note = (struct ct_detail_note){.entered = found.data};
    b->popped = 1;
    if (!b->detached)
        ct_event_note(b, ct_shadow_number(&found), CT_EVENT_RETURN, note);
    b->popped = 0;
    ct_block_unmask(b, mask);
    return found.ret;
}

void ct_hook_left_slow(uint64_t slot, struct ct_shadow *found) {
    struct ct_block *b = ct_block_current();
    uint32_t depth;
    if (!b)
        lost_return();
    uint64_t mask = ct_block_mask(b);
    ct_walk_end(b, slot - 8);
    ct_walk_end_look(b, slot);
    if (!ct_shadow_leave(b, slot, resume_in(b, slot), found, &depth))
        lost_return();
    ct_block_unmask(b, mask);
}

/* ---- functions that the engine must know about ---- */

#define CLONE_VM_     0x100u
#define CLONE_VFORK_  0x4000u
#define CLONE_THREAD_ 0x10000u
#define CLONE_SETTLS_ 0x80000u

/* A child that shares our memory and thread pointer would take our block for its own. A child that runs beside us does
 * so until its first hooked call gives it a block. */
static void before_clone(struct ct_block *b, uint64_t flags) {
    if (b->runtime->before_fork)
        b->runtime->before_fork();
    if (!(flags & CLONE_VM_) || (flags & CLONE_SETTLS_))
        return;
    b->clones += !(flags & CLONE_VFORK_);
    ct_block_attend(b, flags & CLONE_VFORK_ ? CT_ATTENTION_CONTESTED : CT_ATTENTION_SHARED);
}

/* Flags for a function that is known by its code alone. When its arguments look like clone(fn, stack, flags ...) for a
 * child that runs beside us, it is taken for clone (the sanitizers have their own, without a name). Otherwise the worst
 * case that ends by itself is assumed. A thread pointer of zero, which all threads of Go have, does not distinguish
 * threads: then the child is taken for one that runs beside us. */
static uint64_t guessed_flags(const struct ct_block *b, const uint64_t argument[3]) {
    enum { LOWEST = 4096, SIGNAL = 0xff, MAX_SIGNAL = 64 };
    uint32_t flags = (uint32_t)argument[2];
    bool beside = (flags & CLONE_VM_) && !(flags & (CLONE_VFORK_ | CLONE_SETTLS_)) && (flags & SIGNAL) <= MAX_SIGNAL;
    bool called_so = argument[0] >= LOWEST && argument[1] >= LOWEST;
    if (!b->thread_pointer)
        return CLONE_VM_;
    return beside && called_so ? flags : CLONE_VM_ | CLONE_VFORK_;
}

static uint64_t clone_flags(const uint64_t argument[3]) {
    bool clone3 = argument[1] >= 64 && argument[1] <= 4096; /* clone3(args, size, ...); clone(fn, stack, flags, ...) */
    if (!clone3)
        return argument[2];
    /* the library's own, on its stack: no system call is made, there may be a filter */
    return *(const uint64_t *)argument[0];
}

/* A new thread of this process gets its thread pointer from its creator, in an argument of clone, or in the structure
 * of clone3, which the caller has on its stack. */
static void before_thread(struct ct_block *b, uint64_t slot, const uint64_t argument[6]) {
    enum { NEAR = 1 << 14, TLS = 7 };
    const uint32_t thread = CLONE_VM_ | CLONE_THREAD_ | CLONE_SETTLS_;
    uint64_t flags = argument[2], thread_pointer = argument[5];
    if (argument[1] >= 64 && argument[1] <= 4096) { /* clone3(args, size, ...) */
        const uint64_t *args = (const uint64_t *)argument[0];
        if (argument[0] - slot >= NEAR)
            return;
        flags = args[0];
        thread_pointer = args[TLS];
    }
    if ((flags & thread) != thread)
        return;
    ct_block_give_away(b, thread_pointer);
    ct_os_forget_block(thread_pointer);
}

static void before_jump(struct ct_block *b, uint64_t slot, uint64_t buffer) {
    uint64_t sp = ct_os_jump_target(buffer), low, high;
    if (!sp || sp & 7)
        return;
    if ((b->attention & CT_ATTENTION_GUARD) && sp > b->guard_sp && ct_shadow_same_stack(b, sp, b->guard_sp))
        ct_block_unattend(b, CT_ATTENTION_GUARD); /* out of a listener */
    if (ct_shadow_same_stack(b, slot, sp)) {
        if (sp <= slot)
            return;
        ct_shadow_prune(b, sp);
        ct_walk_end(b, sp);
    } else if (ct_os_on_signal_stack(&low, &high) && slot >= low && slot < high) {
        ct_shadow_close_range(b, low, high); /* out of a handler: its frames are gone, unlike a coroutine's */
        ct_shadow_prune(b, sp);
        ct_walk_end(b, sp);
    }
}

/* prctl(option, mode ...), or prctl and seccomp(operation ...) through syscall(number ...). */
enum { SET_SECCOMP = 22, SET_TSC = 26, NR_PRCTL = __NR_prctl, NR_SECCOMP = __NR_seccomp };
enum { MODE_STRICT = 1, MODE_FILTER = 2, TSC_SIGSEGV = 2, SECCOMP_STRICT = 0 };

/* No filter knows of our system calls: from here on we make none. */
static void before_seccomp(struct ct_block *b, const uint64_t argument[3]) {
    const uint64_t *prctl = argument[0] == NR_PRCTL ? argument + 1 : argument;
    bool sets = prctl[0] == SET_SECCOMP && (prctl[1] == MODE_STRICT || prctl[1] == MODE_FILTER); /* 22 is pipe too */
    if (!sets && argument[0] != NR_SECCOMP)
        return;
    ct_shadow_learn_home(b);
    ct_os_go_silent();
    b->runtime->silent = 1;
}

/* arch_prctl(code ...), or arch_prctl through syscall(number ...); or a function that is known to set GS. From here on
 * the register is the program's own, also in processes that are not observed. */
static void before_gs(const struct ct_runtime *rt, enum ct_special special, const uint64_t argument[6]) {
    uint64_t code = special == CT_SPECIAL_SET_BASE ? argument[0] : argument[1];
    bool called = special == CT_SPECIAL_SET_BASE || (special == CT_SPECIAL_SECCOMP && ct_os_sets_bases(argument[0]));
    if (rt->before_gs && (special == CT_SPECIAL_TAKE_BASE || (called && ct_os_takes_block(code))))
        rt->before_gs();
}

/* Strict mode takes the time stamp counter away from the thread: a stub that reads it would end the program. */
static bool forbids_counter(const uint64_t argument[3]) {
    const uint64_t *prctl = argument[0] == NR_PRCTL ? argument + 1 : argument;
    if (argument[0] == NR_SECCOMP)
        return argument[1] == SECCOMP_STRICT;
    return (prctl[0] == SET_SECCOMP && prctl[1] == MODE_STRICT) || (prctl[0] == SET_TSC && prctl[1] == TSC_SIGSEGV);
}

/* From here on nothing of this thread is seen. Its open frames return by themselves. */
static void go_blind(struct ct_block *b, uint64_t slot) {
    uint64_t mask = ct_block_mask(b);
    ct_shadow_settle(b, slot);
    ct_shadow_expose_returns(b, slot);
    b->detached = 1;
    ct_block_attend(b, 0);
    ct_block_unmask(b, mask);
}

static void act_on_special(struct ct_block *b, enum ct_special special, uint64_t slot, const uint64_t argument[3]) {
    switch (special) {
    case CT_SPECIAL_NONE:
        break;
    case CT_SPECIAL_JUMP:
        before_jump(b, slot, argument[0]);
        break;
    case CT_SPECIAL_CLONE:
        before_clone(b, clone_flags(argument));
        break;
    case CT_SPECIAL_VFORK:
        before_clone(b, CLONE_VM_ | CLONE_VFORK_);
        break;
    case CT_SPECIAL_CLONES:
        before_clone(b, guessed_flags(b, argument));
        break;
    case CT_SPECIAL_UNWIND:
        ct_walk_begin(b, slot, CT_ATTENTION_UNWIND);
        break;
    case CT_SPECIAL_WALK:
        ct_walk_begin(b, slot, CT_ATTENTION_UNWIND | CT_ATTENTION_WALK);
        break;
    case CT_SPECIAL_LOOK:
    case CT_SPECIAL_TRACE:
        ct_walk_begin(b, slot, CT_ATTENTION_UNWIND | CT_ATTENTION_WALK); /* its return will not be seen */
        break;
    case CT_SPECIAL_LOADED:
        if (b->runtime->on_loaded)
            b->runtime->on_loaded();
        break;
    case CT_SPECIAL_SIGACTION:
        break; /* its arguments were handled before, also in processes that are not observed */
    case CT_SPECIAL_SET_BASE:
    case CT_SPECIAL_TAKE_BASE:
    case CT_SPECIAL_EXEC:
        break; /* was reported before, also in processes that are not observed */
    case CT_SPECIAL_SECCOMP:
        before_seccomp(b, argument);
        break;
    case CT_SPECIAL_LAND:
        ct_walk_land(b, slot, (void *)argument[0]);
        break;
    }
}

/* ---- listeners ---- */

typedef void callback(struct ct_cpu_context *cpu, struct ct_hook_call *call);

static void call_listener(struct ct_block *b, callback *fn, struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    if (b->attention & CT_ATTENTION_GUARD) /* it returns through a frame that was entered before the guard */
        return;
    b->guard_sp = (uint64_t)&call;
    ct_block_attend(b, CT_ATTENTION_GUARD);
    fn(cpu, call);
    ct_block_unattend(b, CT_ATTENTION_GUARD);
}

/* Returns what the listener has left in call.data. */
static uint64_t notify(struct ct_block *b, callback *fn, bool returning, struct ct_cpu_context *cpu,
                       const struct ct_shadow *e, uint32_t depth, uint64_t data) {
    uint32_t number = ct_shadow_number(e);
    const struct ct_hook_entry *hook = &b->runtime->hooks[number];
    struct ct_hook_call call = {
        .size = sizeof call,
        .hook = number,
        .depth = depth,
        .function = (void *)hook->function,
        .return_address = (void *)e->ret,
        .user = hook->user,
        .data = data,
    };
    if (returning)
        ct_cpu_set_returned(cpu, e->ret);
    else
        ct_cpu_set_called(cpu, hook->function);
    call_listener(b, fn, cpu, &call);
    return call.data;
}

static void notify_listener(struct ct_block *b, bool returning, struct ct_cpu_context *cpu, struct ct_shadow *e,
                            uint32_t depth) {
    const struct ct_hook_entry *hook = &b->runtime->hooks[ct_shadow_number(e)];
    callback *fn = returning ? hook->listener.on_return : hook->listener.on_call;
    if (fn)
        e->data = notify(b, fn, returning, cpu, e, depth, e->data);
}

/* Their call.data is the frame's slot, at the entry and at the return. */
static void notify_guests(struct ct_block *b, bool returning, struct ct_cpu_context *cpu, const struct ct_shadow *e,
                          uint32_t depth) {
    for (unsigned i = 0; i < CT_HOOK_GUESTS; i++) {
        const struct ct_hook_guest *guest = &b->runtime->guests[i];
        callback *fn = returning ? guest->on_return : guest->on_call;
        if (fn)
            (void)notify(b, fn, returning, cpu, e, depth, e->slot);
    }
}

/* The frame of a call's stub has the stub's address below the slot (stubs_<isa>.S). */
static uint64_t go_through(struct ct_block *b, uint64_t slot, uint64_t stub, uint64_t go) {
    if (!b->goes_through)
        return go;
    if (go == CT_GO_OBSERVED)
        *ct_frame_stub_word(slot) = b->runtime->go_through(b, stub);
    else
        go = b->runtime->go_through(b, ct_frame_body(stub));
    return go;
}

static uint64_t entered_word(const struct ct_block *b, uint64_t stamp, uint32_t tag) {
    uint64_t error = *b->errno_at < CT_ENTERED_ERRNO ? *b->errno_at : CT_ENTERED_ERRNO;
    return error << CT_ENTERED_BITS | (stamp & ((1ull << CT_ENTERED_BITS) - 1) & ~1ull) | (tag >= CT_TAG_STEP);
}

/* A trigger may wait for the function. The event has no number, because there is no record of it. */
static void mark(struct ct_block *b, uint32_t number, uint32_t kind, uint64_t entered,
                 const struct ct_cpu_context *cpu) {
    if (!b->rules || !b->rules[number])
        return;
    const struct ct_detail_note note = {.stamp = ct_os_timestamp(), .tag = kind, .hook = number, .entered = entered};
    b->runtime->mark(b, &note, cpu);
}

/* A recorded function that guests listen to: the event is written as its own stub would write it, without a record of
 * values. Its frame can return through either stub. */
static uint64_t enter_with_guests(struct ct_block *b, struct ct_cpu_context *cpu, uint64_t slot, uint64_t stub) {
    if (b->runtime->hooks[stub_number(stub)].entry_only) {
        struct ct_shadow e = {.slot = slot, .ret = ct_frame_of_call(slot), .stub = stub};
        ct_shadow_arrive(b, slot);
        ct_event_write(b, stub_number(stub), CT_EVENT_ENTRY);
        mark(b, stub_number(stub), CT_EVENT_ENTRY, 0, cpu);
        notify_guests(b, false, cpu, &e, ct_shadow_depth(b, b->top));
        return CT_GO_BODY;
    }
    if (ct_hook_enter_slow(slot, stub, NULL) != CT_GO_OBSERVED)
        return CT_GO_BODY;
    struct ct_shadow *e = b->top - 1;
    e->data = entered_word(b, ct_os_timestamp(), 0);
    mark(b, stub_number(stub), CT_EVENT_CALL, 0, cpu);
    notify_guests(b, false, cpu, e, ct_shadow_depth(b, e));
    return CT_GO_OBSERVED;
}

uint64_t ct_hook_on_call(struct ct_cpu_context *cpu, uint64_t slot, uint64_t stub) {
    struct ct_block *b = ct_block_current();
    if (!b || b->detached)
        return CT_GO_BODY;
    const struct ct_hook_entry *hook = &b->runtime->hooks[stub_number(stub)];
    if (hook->flavor == CT_ACTION_RECORD) {
        (void)count_call(b, stub_number(stub)); /* where calls are sampled, those that guests hear of are recorded */
        return observing_block(slot) ? enter_with_guests(b, cpu, slot, stub) : CT_GO_BODY;
    }
    bool observing = observing_block(slot) != NULL, seen = observing && hook->flavor == CT_ACTION_LISTEN;
    if (observing && hook->flavor == CT_ACTION_DIVERT)
        return (uint64_t)hook->user;
    if (seen && hook->entry_only) {
        struct ct_shadow e = {.slot = slot, .ret = ct_frame_of_call(slot), .stub = stub};
        notify_listener(b, false, cpu, &e, ct_shadow_depth(b, b->top));
    }
    uint64_t go = CT_GO_BODY;
    if (seen && !hook->entry_only) {
        struct ct_shadow *e = ct_shadow_enter(b, slot, stub);
        if (e) {
            notify_listener(b, false, cpu, e, ct_shadow_depth(b, e));
            go = CT_GO_OBSERVED;
        } else {
            b->counters->deep_calls++;
        }
    }
    /* last: functions that the listener called would take a contested block back */
    uint64_t arguments[6];
    ct_cpu_first_arguments(cpu, arguments);
    if (hook->special == CT_SPECIAL_CLONE || hook->special == CT_SPECIAL_CLONES)
        before_thread(b, slot, arguments);
    act_on_special(b, hook->special, slot, arguments);
    return go_through(b, slot, stub, go);
}

uint64_t ct_hook_on_return(struct ct_cpu_context *cpu, uint64_t slot) {
    struct ct_block *b = ct_block_current();
    struct ct_shadow found;
    uint32_t depth;
    if (!b)
        lost_return();
    ct_walk_end(b, slot - 8);
    ct_walk_end_look(b, slot);
    if (!ct_shadow_leave(b, slot, resume_in(b, slot), &found, &depth))
        lost_return();
    if (!b->detached) {
        uint32_t number = ct_shadow_number(&found);
        if (b->runtime->hooks[number].flavor == CT_ACTION_RECORD) {
            ct_event_write(b, number, CT_EVENT_RETURN);
            mark(b, number, CT_EVENT_RETURN, found.data, cpu);
            notify_guests(b, true, cpu, &found, depth);
        } else {
            notify_listener(b, true, cpu, &found, depth);
        }
    }
    return b->goes_through ? b->runtime->go_through(b, found.ret) : found.ret;
}

/* execve(path ...), execveat(descriptor, path ...), fexecve(descriptor ...). */
static void before_exec(const struct ct_runtime *rt, const uint64_t argument[6]) {
    enum { CWD = -100, MAX_DESCRIPTOR = 1 << 24 };
    int64_t first = (int64_t)argument[0];
    bool is_descriptor = (int32_t)first == CWD || (first >= 0 && first < MAX_DESCRIPTOR);
    if (rt->on_exec)
        rt->on_exec(is_descriptor ? argument[1] : argument[0], is_descriptor ? (int)first : CWD);
}

/* A child on its parent's memory has handlers of its own, but no table. */
static void before_sigaction(const struct ct_runtime *rt, struct ct_special_frame *frame, uint64_t slot) {
    bool own_table = ct_os_is_silent() || ct_os_getpid() == rt->pid;
    ct_fault_sigaction(own_table, *ct_frame_argument(slot, frame, 0), ct_frame_argument(slot, frame, 1),
                       ct_frame_argument(slot, frame, 2));
}

/* Writes the call's event; does what a stub does for its frame (stubs_<isa>.S). */
static uint64_t enter_special(struct ct_block *b, uint64_t slot, uint64_t stub, bool entry_only,
                              struct ct_detail_note *note) {
    if (entry_only) {
        ct_shadow_arrive(b, slot);
        ct_event_note(b, stub_number(stub), CT_EVENT_ENTRY, note);
        return CT_GO_BODY;
    }
    uint64_t go = ct_hook_enter_slow(slot, stub, note);
    if (go == CT_GO_OBSERVED && note)
        b->top[-1].data = entered_word(b, note->stamp, note->tag);
    return go;
}

/* Enters a frame without events: nobody wants the function recorded, but its return must be seen. */
static uint64_t enter_silently(struct ct_block *b, uint64_t slot, uint64_t stub) {
    uint64_t mask = ct_block_mask(b);
    ct_walk_end(b, slot);
    bool entered = ct_shadow_enter(b, slot, stub) != NULL;
    ct_block_unmask(b, mask);
    return entered ? CT_GO_OBSERVED : CT_GO_BODY;
}

static bool looks_at_callers(enum ct_special special) {
    return special == CT_SPECIAL_LOOK || special == CT_SPECIAL_TRACE;
}

/* Enters a function that looks at its callers' frames. Signals are blocked once for all of it: it may be called
 * often. */
static uint64_t enter_look(struct ct_block *b, uint64_t slot, uint64_t stub, struct ct_special_frame *frame, bool seen,
                           struct ct_detail_note *note) {
    enum ct_special special = b->runtime->hooks[stub_number(stub)].special;
    uint64_t mask = ct_block_mask(b);
    uint64_t go = seen ? enter_special(b, slot, stub, false, note) : enter_silently(b, slot, stub);
    if (go == CT_GO_OBSERVED)
        ct_walk_look(b, slot, ct_walk_look_end(b, special, slot, frame));
    else
        ct_walk_begin(b, slot, CT_ATTENTION_UNWIND | CT_ATTENTION_WALK); /* its return will not be seen */
    ct_block_unmask(b, mask);
    return go;
}

/* Enters a function that the engine watches, recorded or not. */
static uint64_t enter_watched(struct ct_block *b, uint64_t slot, uint64_t stub, struct ct_special_frame *frame,
                              const uint64_t arguments[6], struct ct_detail_note *note) {
    const struct ct_hook_entry *hook = &b->runtime->hooks[stub_number(stub)];
    bool seen = observing_block(slot) != NULL && hook->flavor == CT_ACTION_RECORD;
    uint64_t go = CT_GO_BODY;
    if (seen)
        (void)count_call(b, stub_number(stub));
    if (hook->special == CT_SPECIAL_SECCOMP && forbids_counter(arguments)) {
        if (seen)
            ct_event_write(b, stub_number(stub), CT_EVENT_CALL); /* the last event: the call stays open */
        go_blind(b, slot);
        act_on_special(b, hook->special, slot, arguments);
        return CT_GO_BODY;
    }
    if (looks_at_callers(hook->special) && !(b->attention & CT_ATTENTION_GUARD))
        return enter_look(b, slot, stub, frame, seen, note);
    if (seen)
        go = enter_special(b, slot, stub, hook->entry_only, note);
    if (hook->special == CT_SPECIAL_CLONE || hook->special == CT_SPECIAL_CLONES)
        before_thread(b, slot, arguments);
    act_on_special(b, hook->special, slot, arguments);
    return go;
}

/* `note`, if not NULL: a stamp of 0 means that nothing is to be captured. */
uint64_t ct_hook_special(uint64_t slot, uint64_t stub, struct ct_special_frame *frame, struct ct_detail_note *note) {
    struct ct_block *b = ct_block_current();
    uint64_t arguments[6];
    for (unsigned n = 0; n < 6; n++)
        arguments[n] = *ct_frame_argument(slot, frame, n);
    if (note)
        note->stamp = 0;
    if (b && b->runtime->hooks[stub_number(stub)].special == CT_SPECIAL_EXEC)
        before_exec(b->runtime, arguments);
    if (b && b->runtime->hooks[stub_number(stub)].special == CT_SPECIAL_SIGACTION)
        before_sigaction(b->runtime, frame, slot);
    if (b)
        before_gs(b->runtime, b->runtime->hooks[stub_number(stub)].special, arguments);
    if (!b || b->detached)
        return CT_GO_BODY;
    /* An exception that lands in each frame ends a walk and begins the next one each time. */
    enum ct_special special = b->runtime->hooks[stub_number(stub)].special;
    if (special != CT_SPECIAL_UNWIND && special != CT_SPECIAL_WALK)
        return enter_watched(b, slot, stub, frame, arguments, note);
    uint64_t mask = ct_block_mask(b), go = enter_watched(b, slot, stub, frame, arguments, note);
    ct_block_unmask(b, mask);
    return go;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fault handlers in the process itself: see fault.h. What a signal frame looks like is in fault_context_<isa>.c. */
#include "hook/fault.h"
#include "abi/boot_abi.h"
#include "os/thread.h"

enum { FIRST_REAL_HANDLER = 2, COPIES = 64 };
#define RESET_HANDLER 0x80000000u
#define SIGNAL_INFO   4u
#define ON_STACK      0x08000000u
#define RESTORER      0x04000000u

/* glibc's and musl's struct sigaction. */
struct library_action {
    uint64_t handler;
    uint64_t mask[16];
    uint32_t flags, pad;
    uint64_t restorer;
};

struct ct_boot_faults ct_fault_table = {0};
static struct ct_runtime *runtime;
static ct_fault_listener *listener; /* NULL: faults are the program's affair */
/* Copies that the library reads in place of the program's actions. A call needs its own copy for a moment; handlers may
 * interrupt it. */
static struct library_action copies[COPIES];
static uint32_t copy_count;

static bool is_fault_signal(uint64_t signal) {
    return signal < CT_BOOT_SIGNALS && (listener ? CT_FAULT_WATCHED : CT_FAULT_SIGNALS) >> signal & 1;
}

/* Beside the Stalker the program's actions are in its table. */
static int change_action(uint64_t signal, const struct ct_os_action *action, struct ct_os_action *old) {
    return (runtime->signal_action ? runtime->signal_action : ct_os_signal_action)((int)signal, action, old);
}

/* ---- the table ---- */

static bool is_wanted(uint64_t handler) {
    return handler >= FIRST_REAL_HANDLER || (listener && !handler);
}

/* The flags with which the kernel gets an action of the program's. A listener needs siginfo, and what a handler that is
 * called once means is up to us. */
static uint32_t flags_for(uint64_t handler, uint32_t flags) {
    return listener ? ((flags | SIGNAL_INFO) & ~RESET_HANDLER) | (handler ? 0 : ON_STACK) : flags;
}

static int take(uint64_t signal) {
    struct ct_boot_faults *t = &ct_fault_table;
    struct ct_os_action now;
    if (change_action(signal, NULL, &now))
        return CT_ERR_SYSTEM;
    bool again = now.handler == t->entry;
    uint64_t handler = again ? t->handlers[signal] : now.handler;
    uint32_t flags = (uint32_t)now.flags ^ (again ? t->changed[signal] : 0);
    if (!is_wanted(handler))
        return CT_OK;
    t->handlers[signal] = handler;
    now.handler = t->entry;
    now.flags = flags_for(handler, flags);
    if (!(now.flags & RESTORER) && ct_fault_restorer()) {
        now.flags |= RESTORER;
        now.restorer = ct_fault_restorer();
    }
    t->changed[signal] = (uint32_t)now.flags ^ flags;
    return change_action(signal, &now, NULL);
}

static int take_all(void) {
    int status = CT_OK;
    for (uint64_t signal = 1; signal < CT_BOOT_SIGNALS; signal++)
        if (is_fault_signal(signal) && take(signal))
            status = CT_ERR_SYSTEM;
    return status;
}

void ct_fault_take(struct ct_runtime *rt) {
    runtime = rt;
    ct_fault_table.entry = (uint64_t)ct_fault_entry;
    (void)take_all();
}

int ct_fault_watch(ct_fault_listener *wanted) {
    listener = wanted;
    return take_all();
}

/* The action is the program's, except for the handler and flags that we have changed. */
static void fill_old(struct library_action *old, const struct ct_os_action *now, uint64_t handler, uint32_t changed) {
    old->handler = handler;
    old->mask[0] = now->mask;
    old->flags = (uint32_t)now->flags ^ changed;
    old->restorer = changed & RESTORER ? 0 : now->restorer;
}

/* The library reads a copy of the new action. The old action is written here if it is ours and not the program's. If
 * the kernel does not answer us (a filter), it will not answer the library either. */
void ct_fault_sigaction(bool own_table, uint64_t signal, uint64_t *new_action, uint64_t *old_action) {
    const struct library_action *wanted = (const struct library_action *)*new_action;
    struct ct_boot_faults *t = &ct_fault_table;
    struct ct_os_action now;
    signal = (uint32_t)signal;
    if (!t->entry || !is_fault_signal(signal) || (wanted && wanted->handler == t->entry))
        return;
    uint64_t before = t->handlers[signal];
    uint32_t changed = t->changed[signal];
    bool asked = *old_action && !change_action(signal, NULL, &now) && now.handler == t->entry;
    if (own_table && wanted && is_wanted(wanted->handler)) {
        struct library_action *copy = &copies[__atomic_fetch_add(&copy_count, 1, __ATOMIC_RELAXED) % COPIES];
        t->handlers[signal] = wanted->handler;
        copy->handler = t->entry;
        copy->mask[0] = wanted->mask[0];
        copy->flags = flags_for(wanted->handler, wanted->flags);
        copy->restorer = wanted->restorer;
        t->changed[signal] = copy->flags ^ wanted->flags;
        *new_action = (uint64_t)copy;
    }
    if (asked) {
        fill_old((struct library_action *)*old_action, &now, before, changed);
        *old_action = 0;
    }
}

/* ---- delivery ---- */

static bool read_own(void *arg, uint64_t at, void *to, size_t size) {
    (void)arg;
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)to)[i] = ((const uint8_t *)at)[i];
    return true;
}

static bool read_stubs(void *arg, uint64_t at, void *to, size_t size) {
    return runtime->holds_stubs(at, size) && read_own(arg, at, to, size);
}

static struct ct_fault_world own_world(void) {
    return (struct ct_fault_world){
        .code = read_stubs, .data = read_own, .hooks = (uint64_t)runtime->hooks, .block = (uint64_t)ct_block_found()};
}

/* Makes the handler return through us. The shadow stack has room for one more entry than its limit says (block.c). */
static void return_through_us(uint64_t slot, uint64_t pc) {
    struct ct_block *b = ct_block_current();
    if (!b)
        return;
    uint64_t mask = ct_block_mask(b);
    struct ct_shadow *limit = b->limit;
    b->limit++;
    struct ct_shadow *e = ct_shadow_enter(b, slot, (uint64_t)ct_fault_stub + CT_STUB_AFTER_ENTER);
    b->limit = limit;
    if (e) {
        e->data = pc;
        ct_frame_set_of_call(slot, ct_shadow_resume(e));
    }
    ct_block_unmask(b, mask);
}

/* A handler that is called only once has not been called yet. */
static void keep_handler(uint64_t signal) {
    struct ct_os_action now;
    if (change_action(signal, NULL, &now) || now.handler || !(now.flags & RESET_HANDLER))
        return;
    now.handler = ct_fault_table.entry;
    (void)change_action(signal, &now, NULL);
}

/* The program goes on: with the function's body, or after the call that has returned. */
static void skip_recording(uint64_t signal, enum ct_fault_place place, struct ct_fault_state *s) {
    if (place == CT_FAULT_ENTERING)
        s->pc = s->stub + CT_STUB_BODY;
    ct_block_found()->counters->deep_calls++;
    keep_handler(signal);
}

/* Where the program goes on: a moved instruction runs in its copy. The function's first instruction means its entry,
 * unless it is the one that the handler was shown. */
static uint64_t way_on(uint64_t fault_pc, uint64_t pc) {
    const struct ct_fault_world world = own_world();
    uint64_t stub = ct_stub_around(world.code, world.arg, fault_pc), copy = 0;
    if (!stub)
        return pc;
    uint64_t function = runtime->hooks[*(const uint32_t *)(stub + CT_STUB_NUMBER)].function;
    uint64_t shown = function + ct_stub_original(world.code, world.arg, stub, fault_pc);
    if (pc == shown)
        return fault_pc;
    if (pc - function > ct_stub_lead(world.code, world.arg, stub))
        copy = ct_stub_copy(world.code, world.arg, stub, pc - function);
    return copy ? copy : pc;
}

/* The program's handler, which is about to be called. A listener makes it our affair that some are called once. */
static uint64_t take_handler(uint64_t signal) {
    uint64_t handler = is_fault_signal(signal) ? ct_fault_table.handlers[signal] : 0;
    if (listener && handler && ct_fault_table.changed[signal] & RESET_HANDLER)
        ct_fault_table.handlers[signal] = 0;
    return handler;
}

/* The program has no handler: the kernel's own action ends it, with the same siginfo. An instruction that has faulted
 * faults again; a breakpoint and what somebody has sent do not. */
static void end_process(uint64_t signal, const uint64_t *info, struct ct_fault_context *c) {
    enum { SIGTRAP_ = 5, SIGABRT_ = 6 };
    static const struct ct_os_action none;
    int code = ((const int *)info)[2];
    (void)change_action(signal, &none, NULL);
    if (code > 0 && signal != SIGTRAP_ && signal != SIGABRT_)
        return;
    ct_fault_context_unblock(c, signal);
    ct_os_signal_again((int)signal, info);
}

/* The fault's registers are the program's now. True: its script has seen to it. */
static bool is_settled(uint64_t signal, const uint64_t *info, struct ct_fault_context *c, uint64_t moved) {
    struct ct_fault fault;
    fault.signal = signal;
    fault.info = info;
    fault.context = c;
    ct_fault_context_load(c, &fault.state);
    if (!listener(&fault))
        return false;
    if (moved)
        fault.state.pc = way_on(moved, fault.state.pc);
    ct_fault_context_store(c, &fault.state);
    return true;
}

/* Corrects the signal frame; returns the program's handler, whose frame has this slot. 0: the program must not see the
 * fault, or has no handler. */
uint64_t ct_fault_delivered(uint64_t signal, uint64_t *info, struct ct_fault_context *c, uint64_t slot);

uint64_t ct_fault_delivered(uint64_t signal, uint64_t *info, struct ct_fault_context *c, uint64_t slot) {
    enum { ADDRESS = 2 }; /* si_addr: for some signals the address of the instruction */
    struct ct_fault_state state;
    uint64_t pc = *ct_fault_context_pc(c), moved = 0;
    if (runtime->holds_stubs(pc, 1)) {
        const struct ct_fault_world world = own_world();
        ct_fault_context_load(c, &state);
        enum ct_fault_place place = ct_fault_recover(&world, &state);
        bool ours = (place == CT_FAULT_ENTERING || place == CT_FAULT_LEAVING) && ct_fault_is_stack_end(c, &state);
        if (ours)
            skip_recording(signal, place, &state);
        if (ours || place == CT_FAULT_MOVED)
            ct_fault_context_store(c, &state);
        if (ours)
            return 0;
        moved = place == CT_FAULT_MOVED ? pc : 0;
        if (moved && info[ADDRESS] == pc) /* without SA_SIGINFO nobody reads it */
            info[ADDRESS] = state.pc;
    }
    if (listener && is_settled(signal, info, c, moved))
        return 0;
    uint64_t handler = take_handler(signal);
    if (handler && moved)
        return_through_us(slot, pc);
    if (!handler && listener) {
        *ct_fault_context_pc(c) = pc;
        end_process(signal, info, c);
    }
    return handler;
}

/* ---- return ---- */

/* The handler has returned; returns the restorer. */
uint64_t ct_fault_returned(uint64_t slot);

uint64_t ct_fault_returned(uint64_t slot) {
    uint64_t *pc = ct_fault_context_pc(ct_fault_context_at(slot));
    struct ct_shadow found;
    ct_hook_left_slow(slot, &found);
    *pc = way_on(found.data, *pc);
    return found.ret;
}

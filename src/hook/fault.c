/* SPDX-License-Identifier: Apache-2.0 */
/* Fault handlers in the process itself: see fault.h. What a signal frame looks like is in fault_context_<isa>.c. */
#include "hook/fault.h"
#include "abi/boot_abi.h"
#include "os/thread.h"

enum { FIRST_REAL_HANDLER = 2, COPIES = 64 };
#define RESET_HANDLER 0x80000000u

/* glibc's and musl's struct sigaction. */
struct library_action {
    uint64_t handler;
    uint64_t mask[16];
    uint32_t flags, pad;
    uint64_t restorer;
};

struct ct_boot_faults ct_fault_table = {0};
static struct ct_runtime *runtime;
/* Copies that the library reads in place of the program's actions. A call needs its own copy for a moment; handlers may
 * interrupt it. */
static struct library_action copies[COPIES];
static uint32_t copy_count;

static bool is_fault_signal(uint64_t signal) {
    return signal < CT_BOOT_SIGNALS && CT_FAULT_SIGNALS >> signal & 1;
}

/* ---- the table ---- */

void ct_fault_take(struct ct_runtime *rt) {
    struct ct_os_action now;
    runtime = rt;
    ct_fault_table.entry = (uint64_t)ct_fault_entry;
    for (int signal = 1; signal < CT_BOOT_SIGNALS; signal++) {
        if (!is_fault_signal((uint64_t)signal) || ct_os_signal_action(signal, NULL, &now) ||
            now.handler < FIRST_REAL_HANDLER || now.handler == ct_fault_table.entry)
            continue;
        ct_fault_table.handlers[signal] = now.handler;
        now.handler = ct_fault_table.entry;
        (void)ct_os_signal_action(signal, &now, NULL);
    }
}

/* The action is the program's, except for the handler. */
static void fill_old(struct library_action *old, const struct ct_os_action *now, uint64_t handler) {
    old->handler = handler;
    old->mask[0] = now->mask;
    old->flags = (uint32_t)now->flags;
    old->restorer = now->restorer;
}

/* The library reads a copy of the new action. The old action is written here if it is ours and not the program's. If
 * the kernel does not answer us (a filter), it will not answer the library either. */
void ct_fault_sigaction(bool own_table, uint64_t signal, uint64_t *new_action, uint64_t *old_action) {
    const struct library_action *wanted = (const struct library_action *)*new_action;
    uint64_t ours = ct_fault_table.entry, before;
    struct ct_os_action now;
    signal = (uint32_t)signal;
    if (!ours || !is_fault_signal(signal) || (wanted && wanted->handler == ours))
        return;
    before = ct_fault_table.handlers[signal];
    bool asked = *old_action && !ct_os_signal_action((int)signal, NULL, &now) && now.handler == ours;
    if (own_table && wanted && wanted->handler >= FIRST_REAL_HANDLER) {
        struct library_action *copy = &copies[__atomic_fetch_add(&copy_count, 1, __ATOMIC_RELAXED) % COPIES];
        ct_fault_table.handlers[signal] = wanted->handler;
        copy->handler = ours;
        copy->mask[0] = wanted->mask[0];
        copy->flags = wanted->flags;
        copy->restorer = wanted->restorer;
        *new_action = (uint64_t)copy;
    }
    if (asked) {
        fill_old((struct library_action *)*old_action, &now, before);
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
    if (ct_os_signal_action((int)signal, NULL, &now) || now.handler || !(now.flags & RESET_HANDLER))
        return;
    now.handler = ct_fault_table.entry;
    (void)ct_os_signal_action((int)signal, &now, NULL);
}

/* The program goes on: with the function's body, or after the call that has returned. */
static void skip_recording(uint64_t signal, enum ct_fault_place place, struct ct_fault_state *s) {
    if (place == CT_FAULT_ENTERING)
        s->pc = s->stub + CT_STUB_BODY;
    ct_block_found()->counters->deep_calls++;
    keep_handler(signal);
}

/* Corrects the signal frame; returns the program's handler, whose frame has this slot. 0: the program must not see the
 * fault. */
uint64_t ct_fault_delivered(uint64_t signal, uint64_t *info, struct ct_fault_context *c, uint64_t slot);

uint64_t ct_fault_delivered(uint64_t signal, uint64_t *info, struct ct_fault_context *c, uint64_t slot) {
    enum { ADDRESS = 2 }; /* si_addr: for some signals the address of the instruction */
    struct ct_fault_state state;
    uint64_t pc = *ct_fault_context_pc(c);
    uint64_t handler = is_fault_signal(signal) ? ct_fault_table.handlers[signal] : 0;
    if (!runtime->holds_stubs(pc, 1))
        return handler;
    const struct ct_fault_world world = own_world();
    ct_fault_context_load(c, &state);
    enum ct_fault_place place = ct_fault_recover(&world, &state);
    bool ours = (place == CT_FAULT_ENTERING || place == CT_FAULT_LEAVING) && ct_fault_is_stack_end(c, &state);
    if (ours)
        skip_recording(signal, place, &state);
    else if (place != CT_FAULT_MOVED)
        return handler;
    ct_fault_context_store(c, &state);
    if (ours)
        return 0;
    if (info[ADDRESS] == pc) /* without SA_SIGINFO nobody reads it */
        info[ADDRESS] = state.pc;
    return_through_us(slot, pc);
    return handler;
}

/* ---- return ---- */

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

/* The handler has returned; returns the restorer. */
uint64_t ct_fault_returned(uint64_t slot);

uint64_t ct_fault_returned(uint64_t slot) {
    uint64_t *pc = ct_fault_context_pc(ct_fault_context_at(slot));
    struct ct_shadow found;
    ct_hook_left_slow(slot, &found);
    *pc = way_on(found.data, *pc);
    return found.ret;
}

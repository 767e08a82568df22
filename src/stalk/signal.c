/* SPDX-License-Identifier: Apache-2.0 */
/* Signals of programs with followed threads, Linux.
 *
 * While a thread is followed, ct_stalk_signal_entry replaces every handler that the program has installed. It keeps the
 * program's flags, mask and restorer, so the kernel puts the frame where it would be otherwise. If the signal
 * interrupted translated code, the frame gets the program's state (recover_<isa>.c), and the handler runs translated.
 * When the handler returns, its rt_sigreturn is seen (syscall.c), and the program counter in the frame becomes one
 * of translated code again. If the signal interrupted the engine, or the entry of another signal, it is put off: it is
 * queued again, and all signals are blocked until the engine is left. In threads that are not followed, and in excluded
 * code, the handler runs as if we were not there.
 *
 * The entry blocks all signals, and the way to the handler unblocks what the handler's mask allows: so nothing
 * interrupts us. A thread that stops this one from outside sees that it is here (others.c), and does not move it: its
 * frame may lead to translated code.
 *
 * Signals that end the process, and that the program leaves to the kernel, arrive here too: what is recorded is
 * delivered, the thread gets the program's state, and the signal is sent again with the kernel's own action.
 *
 * Owner of the table: the thread that changes an action; a torn read is possible only in a program that races with
 * itself. */
#include "stalk/signals.h"
#include "hook/runtime.h"
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
#include "stalk/stalker.h"
#include "stalk/thread.h"
#include "stalk/translate.h"
#include "stalk/vfork.h"
#include CT_HOST_HEADER(signal)

enum { SA_SIGINFO_ = 4, SA_RESTORER_ = 0x04000000, SA_ONSTACK_ = 0x08000000, SIG_SETMASK_ = 2, FIRST_REAL_HANDLER = 2 };
#define SA_RESETHAND_ 0x80000000u
#define BIT(signal)   (1ull << ((signal)-1))
/* HUP, INT, QUIT, ILL, TRAP, ABRT, BUS, FPE, USR1, SEGV, USR2, PIPE, ALRM, TERM, SYS */
#define FATAL                                                                                                          \
    (BIT(1) | BIT(2) | BIT(3) | BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(8) | BIT(10) | BIT(11) | BIT(12) | BIT(13) |   \
     BIT(14) | BIT(15) | BIT(31))

static struct stalk_action actions[STALK_SIGNALS];
static uint32_t users;
static uint32_t giving_back; /* threads that may be restoring handlers */
static uint32_t late;        /* the first handlers are yet to be replaced */
uint32_t ct_stalk_underway;
bool ct_stalk_signals_may_wait;

static long kernel_action(uint64_t signal, const struct stalk_action *new, struct stalk_action *old) {
    return syscall4(__NR_rt_sigaction, signal, new, old, 8);
}

static bool is_ours(const struct stalk_action *a) {
    return a->handler == (uint64_t)ct_stalk_signal_entry;
}

static void copy_action(struct stalk_action *to, const struct stalk_action *from) {
    to->handler = from->handler;
    to->flags = from->flags;
    to->restorer = from->restorer;
    to->mask = from->mask;
}

/* The first process of a container does not die of signals that others send: there we leave the kernel's action
 * alone. */
static bool may_die(void) {
    return ct_os_getpid() != 1;
}

static bool is_wanted(uint64_t signal, const struct stalk_action *programs) {
    bool fatal = programs->handler == 0 && FATAL & BIT(signal) && may_die();
    return programs->handler >= FIRST_REAL_HANDLER || fatal;
}

/* The action that the kernel gets instead of the program's. */
static void make_our_action(struct stalk_action *ours, const struct stalk_action *programs) {
    copy_action(ours, programs);
    ours->handler = (uint64_t)ct_stalk_signal_entry;
    ours->flags = (programs->flags | SA_SIGINFO_) & ~(uint64_t)SA_RESETHAND_;
    if (programs->handler)
        return;
    ours->flags = SA_SIGINFO_ | SA_RESTORER_ | SA_ONSTACK_;
    ours->restorer = (uint64_t)ct_stalk_signal_return;
    ours->mask = ~0ull;
}

static void replace_handler(uint64_t signal) {
    struct stalk_action now, ours;
    if (kernel_action(signal, NULL, &now) || is_ours(&now) || !is_wanted(signal, &now))
        return;
    copy_action(&actions[signal], &now);
    make_our_action(&ours, &now);
    (void)kernel_action(signal, &ours, NULL);
}

/* Reads the mask in a line of /proc/self/status. */
static bool read_mask(const char *text, const char *name, uint64_t *mask) {
    enum { DIGITS = 16 };
    size_t n = 0;
    for (; *text && name[n]; text++)
        n = *text == name[n] ? n + 1 : *text == name[0];
    *mask = 0;
    for (n = 0; n<DIGITS && * text> ' '; n++, text++)
        *mask = *mask << 4 | (uint64_t)(*text <= '9' ? *text - '0' : *text - 'a' + 10);
    return n == DIGITS && *text == '\n';
}

/* Signals that the program may ignore or have a handler for (`caught`). All others have the kernel's own action. */
static uint64_t changed_actions(uint64_t *caught) {
    char text[4096];
    uint64_t ignored;
    long fd = sys_open("/proc/self/status", O_RDONLY);
    long size = fd < 0 ? 0 : sys_read(fd, text, sizeof text - 1);
    if (fd >= 0)
        sys_close(fd);
    text[size > 0 ? size : 0] = 0;
    bool known = read_mask(text, "SigIgn:\t", &ignored) && read_mask(text, "SigCgt:\t", caught);
    if (!known)
        *caught = ignored = ~0ull;
    return ignored | *caught;
}

/* Looks at all actions: some of them may be the program's. */
static void replace_handlers(void) {
    for (uint64_t signal = 1; signal < STALK_SIGNALS; signal++)
        replace_handler(signal);
}

/* Takes a signal that is left to the kernel and ends the process. */
static void take_fatal(uint64_t signal) {
    static const struct stalk_action kernels;
    struct stalk_action ours, before;
    make_our_action(&ours, &kernels);
    if (kernel_action(signal, &ours, &before))
        return;
    if (!before.handler) {
        copy_action(&actions[signal], &before);
        return;
    }
    (void)kernel_action(signal, &before, NULL); /* another thread has changed it just now */
    replace_handler(signal);
}

/* The same with fewer system calls, but others: not where the program may have forbidden itself some since. If the
 * program has no handlers, it can wait until the thread begins. */
static void replace_first_handlers(bool may_wait) {
    uint64_t caught, changed = changed_actions(&caught);
    bool dies = may_die();
    late = may_wait && !caught;
    if (late)
        return;
    for (uint64_t signal = 1; signal < STALK_SIGNALS; signal++)
        if (changed & BIT(signal))
            replace_handler(signal);
        else if (dies && FATAL & BIT(signal))
            take_fatal(signal);
}

static void restore_handlers(void) {
    for (uint64_t signal = 1; signal < STALK_SIGNALS; signal++) {
        struct stalk_action now;
        if (!kernel_action(signal, NULL, &now) && is_ours(&now))
            (void)kernel_action(signal, &actions[signal], NULL);
    }
}

#define PATIENCE 20000 /* times 100 us */

bool ct_stalk_signals_going_back(void) {
    return __atomic_load_n(&giving_back, __ATOMIC_SEQ_CST) != 0;
}

/* From now on no thread starts restoring the handlers. One that is restoring them finishes first. */
void ct_stalk_signals_take(void) {
    uint32_t before = __atomic_fetch_add(&users, 1, __ATOMIC_SEQ_CST);
    if (before && ct_stalk_signals_taken)
        return;
    for (unsigned i = 0; i < PATIENCE && ct_stalk_signals_going_back(); i++)
        ct_os_sleep_us(100);
    if (before)
        replace_handlers();
    else
        replace_first_handlers(ct_stalk_signals_may_wait);
}

void ct_stalk_signals_begin(void) {
    if (__atomic_load_n(&late, __ATOMIC_RELAXED))
        replace_first_handlers(false);
}

/* Restores the program's handlers, whatever the number of users. */
void ct_stalk_signals_end(void);

void ct_stalk_signals_end(void) {
    __atomic_store_n(&users, 0, __ATOMIC_RELEASE);
    late = 0;
    restore_handlers();
}

bool ct_stalk_signals_kept(void) {
    return __atomic_load_n(&users, __ATOMIC_ACQUIRE) != 0;
}

void ct_stalk_signals_in_child(void) {
    users = 1;
    ct_stalk_underway = giving_back = 0;
}

/* There is no lock: threads are followed and let go while others are stopped anywhere. A thread that follows another
 * checks then whether a thread is in here (ct_stalk_signals_going_back). */
void ct_stalk_signals_give_back(void) {
    __atomic_add_fetch(&giving_back, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_sub_fetch(&users, 1, __ATOMIC_SEQ_CST)) {
        restore_handlers();
        if (__atomic_load_n(&users, __ATOMIC_ACQUIRE))
            replace_handlers(); /* a thread that took them meanwhile has stopped waiting */
    }
    __atomic_sub_fetch(&giving_back, 1, __ATOMIC_SEQ_CST);
}

int64_t ct_stalk_sigaction(uint64_t signal, const struct stalk_action *new, struct stalk_action *old) {
    struct stalk_action before, ours;
    if (signal == 0 || signal >= STALK_SIGNALS)
        return kernel_action(signal, new, old);
    long result;
    if (new &&is_wanted(signal, new)) {
        struct stalk_action programs;
        copy_action(&programs, &actions[signal]);
        make_our_action(&ours, new);
        result = kernel_action(signal, &ours, &before);
        if (!result)
            copy_action(&actions[signal], new);
        if (!result && old)
            copy_action(old, is_ours(&before) ? &programs : &before);
        return result;
    }
    result = kernel_action(signal, new, &before);
    if (!result && old)
        copy_action(old, is_ours(&before) ? &actions[signal] : &before);
    return result;
}

int64_t ct_stalk_sigaction_vforked(uint64_t signal, const struct stalk_action *new, struct stalk_action *old) {
    struct stalk_action before;
    long result = kernel_action(signal, new, &before);
    if (!result && old)
        copy_action(old, signal < STALK_SIGNALS && is_ours(&before) ? &actions[signal] : &before);
    return result;
}

/* ---- delivery ---- */

/* Did the instruction itself cause this SIGILL, SIGTRAP, SIGBUS, SIGFPE or SIGSEGV? */
static bool is_fault(uint64_t signal, const void *info) {
    int code = ((const int *)info)[2];
    return code > 0 && (signal == 4 || signal == 5 || signal == 7 || signal == 8 || signal == 11);
}

static void put_off_signal(struct stalk_thread *t, uint64_t signal, void *info, struct context *c) {
    if (!t->area->pending)
        t->area->mask = c->mask;
    t->area->pending = 1;
    c->mask = ~0ull;
    (void)syscall4(__NR_rt_tgsigqueueinfo, ct_os_getpid(), ct_os_gettid(), signal, info);
}

/* Was the entry of another signal interrupted before it had blocked all signals? That signal goes first. */
static bool is_entering(uint64_t pc) {
    return pc - (uint64_t)ct_stalk_signal_entry < (uint64_t)(ct_stalk_signal_blocked - ct_stalk_signal_entry);
}

static void put_off_at_entry(struct stalk_thread *t, uint64_t signal, void *info, struct context *c) {
    if (!t->at_entry)
        t->entry_mask = c->mask;
    t->at_entry = true;
    c->mask = ~0ull;
    (void)syscall4(__NR_rt_tgsigqueueinfo, ct_os_getpid(), ct_os_gettid(), signal, info);
}

struct delivery {
    struct stalk_thread *t;
    struct stalk_regs regs;
    struct context *context;
    uint64_t handler, signal;
    uint64_t mask;   /* the handler's */
    uint64_t *entry; /* where the mask was in the frame of ct_stalk_signal_entry */
    bool fault;
    void *info;
};

/* Writes the program's state to the frame, and to siginfo if the fault reports the address of the instruction. */
static void show_program(const struct delivery *d) {
    uint64_t *address = (uint64_t *)d->info + 2; /* si_addr */
    if (d->fault && *address == d->context->pc)
        *address = d->regs.pc;
    write_context(d->context, &d->regs);
}

/* ---- signals that end the process ---- */

static void set_default(uint64_t signal) {
    struct stalk_action none = {0, 0, 0, 0};
    (void)kernel_action(signal, &none, NULL);
}

/* The program's handler was installed for one signal only (SA_RESETHAND). */
static void reset_action(const struct stalk_thread *t, uint64_t signal) {
    const struct stalk_action none = {0, 0, 0, 0};
    if (__atomic_load_n(&users, __ATOMIC_ACQUIRE) && !(t && ct_stalk_is_vforked(t)))
        (void)ct_stalk_sigaction(signal, &none, NULL);
    else
        set_default(signal);
}

/* The signal is blocked until the handler returns, but no longer: sigsuspend may leave a mask in the frame that blocks
 * it. If it cannot be sent again, the instruction will fault again: while a signal is blocked, the kernel ends the
 * process for such a fault. */
static void die_of_signal(const struct delivery *d) {
    set_default(d->signal);
    d->context->mask &= ~BIT(d->signal);
    if (syscall4(__NR_rt_tgsigqueueinfo, ct_os_getpid(), ct_os_gettid(), d->signal, d->info) < 0 && d->fault)
        d->context->mask |= BIT(d->signal);
}

/* The program has no handler and will end: what was recorded is delivered now. Runs on the engine's stack, with all
 * signals blocked. */
static uint64_t deliver_end(uint64_t arg, uint64_t unused) {
    struct delivery *d = (struct delivery *)arg;
    struct stalk_thread *t = d->t;
    (void)unused;
    enum stalk_place place = ct_stalk_recover(t, &d->regs, d->fault);
    if (place == STALK_LATER) {
        put_off_signal(t, d->signal, d->info, d->context);
        return 0;
    }
    if (place == STALK_CLEAN)
        ct_stalk_events_cut(t, d->regs.pc, d->fault);
    show_program(d);
    if (!ct_stalk_is_vforked(t))
        ct_stalk_events_drain_others(t, true);
    ct_stalk_finish(t, CT_OK);
    die_of_signal(d);
    return 0;
}

/* The frame is on the alternate stack: from now on the engine is entered with care (entry_<isa>.S), until the thread
 * leaves that stack. */
static void note_alternate(struct stalk_thread *t, const struct context *c) {
    if ((uint64_t)c - c->stack[0] >= c->stack[2])
        return;
    t->alternate_low = c->stack[0];
    t->alternate_size = c->stack[2];
    t->area->alternate = 1;
}

void ct_stalk_check_alternate(struct stalk_thread *t) {
    if (t->area->alternate && ct_stalk_slot(t->area->gpr) - t->alternate_low >= t->alternate_size)
        t->area->alternate = 0;
}

/* The handler begins as if the engine was left for it: signals that were put off arrive there, or later. */
static uint64_t begin_translated(const struct delivery *d, uint64_t code) {
    struct stalk_area *a = d->t->area;
    for (unsigned i = 0; i < STALK_REGISTERS; i++)
        a->gpr[i] = d->regs.gpr[i];
    begin_registers(a->gpr, d->signal, d->info, d->context, d->entry);
    a->resume = code;
    note_alternate(d->t, d->context);
    a->mask = d->mask;
    a->pending = 1;
    return ct_stalk_helper(d->t->cache->regions, ct_stalk_restore);
}

/* The handler returns to a stub of ours, as an excluded call does; then its rt_sigreturn is seen. */
static uint64_t begin_excluded(const struct delivery *d) {
    uint64_t *place = handler_return(d->context, d->entry);
    uint64_t stub = ct_stalk_return_stub(d->t->cache, *place);
    if (stub) {
        *place = stub;
        d->t->area->native = handler_slot(d->context);
    }
    return d->handler;
}

/* The handler counts as a call. */
static void report_handler(const struct delivery *d) {
    const struct context *c = d->context;
    uint64_t low = c->stack[0], size = c->stack[2];
    bool switched = (uint64_t)c - low < size && c->sp - low >= size;
    const struct stalk_alternate alternate = {.low = low, .size = size};
    ct_stalk_event_handler(d->t, c->pc, d->handler, handler_slot(c), switched ? &alternate : NULL);
}

/* Returns where the handler begins; its own address: it runs natively. */
static uint64_t begin_handler(const struct delivery *d) {
    struct stalk_thread *t = d->t;
    struct ct_stalker *s = t->stalker;
    int status = CT_OK;
    uint64_t at = d->handler;
    ct_stalk_lock(s);
    bool excluded = ct_stalk_excluded(s, d->handler);
    struct stalk_entry *e = excluded ? NULL : ct_stalk_obtain(t, d->handler, &status);
    if (excluded)
        at = begin_excluded(d);
    else if (e)
        at = begin_translated(d, e->code);
    s->statistics.signals++;
    ct_stalk_unlock(s);
    if (status == CT_ERR_NOT_MAPPED)
        t->fault_pc = d->handler;
    else if (status)
        ct_stalk_finish(t, status);
    return at;
}

/* Runs on the engine's stack. 0: the signal will come again. */
static uint64_t deliver_signal(uint64_t arg, uint64_t unused) {
    struct delivery *d = (struct delivery *)arg;
    struct stalk_thread *t = d->t;
    (void)unused;
    enum stalk_place place = ct_stalk_recover(t, &d->regs, d->fault);
    if (place == STALK_LATER) {
        put_off_signal(t, d->signal, d->info, d->context);
        return 0;
    }
    if (place == STALK_ELSEWHERE && (!t->fault_pc || d->regs.pc != t->fault_pc))
        return d->handler;
    t->fault_pc = 0;
    ct_stalk_sigreturn_undo(t, &d->regs);
    ct_stalk_events_cut(t, d->regs.pc, d->fault);
    show_program(d);
    if (t->following == 1) {
        report_handler(d);
        return begin_handler(d);
    }
    ct_stalk_finish(t, t->status);
    return d->handler;
}

/* Is the thread already on the engine's stack? Then so is this signal frame. */
static bool is_switching(const struct stalk_thread *t, uint64_t pc) {
    const struct stalk_region *r = ct_stalk_region_at(t, pc);
    return r && pc >= ct_stalk_helper(r, ct_stalk_switch) && pc < ct_stalk_helper(r, ct_stalk_restore);
}

/* The thread is in its own code or in translated code: its state is found in the engine. */
static struct stalk_way deliver_inside(struct delivery *d) {
    struct stalk_area *a = d->t->area;
    a->in_engine = 1;
    a->pending = 0;
    uint64_t at = ct_hook_on_stack(a->stack, d->handler ? deliver_signal : deliver_end, (uint64_t)d, 0);
    bool translated = a->pending && at;
    if (!translated) /* else ct_stalk_restore clears it */
        a->in_engine = 0;
    return (struct stalk_way){at, at && !translated};
}

struct stalk_way ct_stalk_on_signal(uint64_t signal, void *info, void *context, uint64_t *mask) {
    struct context *c = context;
    struct stalk_action *action = &actions[signal];
    struct delivery d; /* an initializer would call memset, which does not exist here */
    d.t = ct_stalk_thread_current();
    d.context = c;
    d.entry = mask;
    d.handler = action->handler;
    d.signal = signal;
    d.fault = is_fault(signal, info);
    d.info = info;
    struct stalk_thread *t = d.t;
    if (t && ct_stalk_is_back(t)) {
        ct_stalk_vfork_end(t);
        ct_stalk_vfork_release(t->stalker);
    }
    if (t && !d.fault && is_entering(c->pc)) {
        put_off_at_entry(t, signal, info, c);
        return (struct stalk_way){0, 0};
    }
    if (t && t->at_entry) {
        *mask = t->entry_mask;
        t->at_entry = false;
    }
    if (t && !d.fault && (t->area->in_engine || is_switching(t, c->pc))) {
        put_off_signal(t, signal, info, c);
        return (struct stalk_way){0, 0};
    }
    d.mask = *mask;
    if (d.handler && action->flags & SA_RESETHAND_)
        reset_action(t, signal);
    read_context(c, &d.regs);
    if (t && !t->area->in_engine)
        return deliver_inside(&d);
    if (!d.handler)
        die_of_signal(&d);
    return (struct stalk_way){d.handler, d.handler != 0};
}

/* ---- returning from handlers ---- */

void ct_stalk_sigreturn(struct stalk_thread *t) {
    struct context *c = sigreturn_frame(t->area->gpr);
    int status;
    uint64_t word = 0;
    if (ct_stalk_runs_natively(t->stalker, c->pc) && interrupted_return(c, &word) &&
        ct_stalk_return_of(t->cache, word)) {
        t->area->native = interrupted_slot(c); /* the thread was about to run excluded code */
        return;
    }
    ct_stalk_lock(t->stalker);
    c->pc = ct_stalk_section_again(t->cache, c->pc);
    struct stalk_entry *e = ct_stalk_obtain(t, c->pc, &status);
    ct_stalk_unlock(t->stalker);
    if (e)
        resume_translated(c, t->area, e->code);
    else
        t->fault_pc = c->pc;
}

void ct_stalk_sigreturn_undo(struct stalk_thread *t, const struct stalk_regs *regs) {
    struct context *c = sigreturn_frame(regs->gpr);
    uint64_t pc;
    if (!calls_sigreturn(regs) || ct_os_peek((uint64_t)&c->pc, &pc, sizeof pc))
        return;
    const struct stalk_fragment *f = ct_stalk_fragment_at(t->cache, pc);
    for (const struct stalk_entry *e = f ? &f->first : NULL; e; e = e->next)
        if (e->code == pc) {
            resume_original(c, t->area, e->address);
            return;
        }
}

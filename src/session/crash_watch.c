/* SPDX-License-Identifier: Apache-2.0 */
/* See crash_watch.h. */
#include "session/crash_watch.h"
#include "drain/signal_record.h"
#include "isa/machine.h"
#include "inspect/process.h"
#include "session/crash_fault.h"
#include "session/recording.h"
#include "session/recording_leave.h"
#include "trace/signal_text.h"
#include "base/json_write.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum {
    MAX_SIGNALS = 256,     /* in the manifest; all are in the index */
    MAX_STACKS = 64,       /* signals that did not kill, with a backtrace: it takes time while the thread waits */
    MAX_FRAMES = 200,      /* innermost */
    MAX_STACK_THREADS = 64 /* in a crash */
};

struct wish {
    uint64_t signals; /* bit n - 1 is signal n */
    bool crashes;     /* signals that kill, and faults that have a handler */
};

struct frame {
    uint64_t pc, offset;
    char *function, *module; /* copies: files may be unmapped later */
};

/* A stack with names, at the time of the signal. */
struct stack {
    int tid;
    char name[16];
    struct frame *frames;
    size_t count;
    bool cut; /* there are more frames */
};

struct entry {
    struct ct_signal_record record;
    bool handled;
    int sender;
    struct stack *stacks; /* the thread's own is first */
    size_t stack_count;
};

struct ct_crash_watch {
    pthread_mutex_t mutex; /* for entries and counts */
    struct entry *entries[MAX_SIGNALS];
    size_t count;
    uint64_t all; /* signals that were reported */
    size_t with_stacks;
    /* used by the tracer only */
    struct ct_process process;
    struct ct_walk_cache cache;
    struct ct_walk_frame frames[MAX_FRAMES];
};

/* ---- names ---- */

void ct_signal_name(int signal, char name[16]) {
    const char *known = signal > 0 && signal < SIGRTMIN ? sigabbrev_np(signal) : NULL;
    if (known)
        snprintf(name, 16, "SIG%s", known);
    else if (signal >= SIGRTMIN && signal <= SIGRTMAX)
        snprintf(name, 16, "SIGRTMIN+%d", signal - SIGRTMIN);
    else
        snprintf(name, 16, "%d", signal);
}

/* What the policy requires. */
static struct wish wish_of(struct ct_session *session) {
    struct wish wish = {0};
    pthread_rwlock_rdlock(&session->policy_lock);
    const struct ct_policy *policy = session->policy;
    for (size_t i = 0; policy && i < policy->count; i++) {
        const struct ct_trigger *t = policy->triggers[i];
        wish.crashes |= t->kind == CT_TRIGGER_CRASH;
        if (t->kind == CT_TRIGGER_SIGNAL && t->signal > 0 && t->signal <= 64)
            wish.signals |= 1ull << (t->signal - 1);
    }
    pthread_rwlock_unlock(&session->policy_lock);
    return wish;
}

static void find_mark(struct ct_session *session, struct ct_signal_record *record) {
    pthread_rwlock_rdlock(&session->policy_lock);
    const struct ct_trigger *t = ct_policy_signal(session->policy, record->signal, record->fatal);
    snprintf(record->mark, sizeof record->mark, "%.*s", (int)sizeof record->mark - 1, t ? t->text : "");
    pthread_rwlock_unlock(&session->policy_lock);
}

/* ---- stacks: on the tracer ---- */

static void copy_names(const struct ct_process_names *names, struct stack *out) {
    out->frames = calloc(names->count + 1, sizeof *out->frames);
    for (size_t i = 0; out->frames && i < names->count; i++) {
        const struct ct_process_frame *from = &names->frames[i];
        struct frame *to = &out->frames[out->count++];
        *to = (struct frame){.pc = from->pc, .offset = from->offset};
        to->function = strdup(from->name);
        to->module = strdup(from->module);
    }
}

static void walk_stack(struct ct_crash_watch *h, const struct ct_remote_thread *thread, struct stack *out) {
    struct ct_process_names names = {0};
    struct ct_process_task task;
    uint64_t block = ct_process_block(&h->process, &thread->regs);
    size_t count = ct_walk_stack(&h->process, &thread->cpu, block, &h->cache, h->frames, MAX_FRAMES);
    out->tid = thread->tid;
    out->cut = count == MAX_FRAMES;
    if (ct_process_task(h->process.pid, thread->tid, &task))
        memcpy(out->name, task.name, sizeof out->name);
    for (size_t i = 0; i < count; i++)
        if (ct_process_name_frame(&h->process, &h->frames[i], &names))
            break;
    copy_names(&names, out);
    ct_process_names_free(&names);
}

static void walk_all(struct ct_crash_watch *h, const struct ct_remote_signal *s, struct entry *e) {
    size_t others = s->other_count < MAX_STACK_THREADS ? s->other_count : MAX_STACK_THREADS;
    e->stacks = calloc(others + 1, sizeof *e->stacks);
    if (!e->stacks || ct_process_refresh(&h->process))
        return;
    walk_stack(h, &s->thread, &e->stacks[e->stack_count++]);
    for (size_t i = 0; i < others; i++)
        walk_stack(h, &s->others[i], &e->stacks[e->stack_count++]);
}

static void free_entry(struct entry *e) {
    for (size_t i = 0; i < e->stack_count; i++) {
        for (size_t k = 0; k < e->stacks[i].count; k++) {
            free(e->stacks[i].frames[k].function);
            free(e->stacks[i].frames[k].module);
        }
        free(e->stacks[i].frames);
    }
    free(e->stacks);
    free(e);
}

/* ---- signals: on the tracer ---- */

_Static_assert((int)CT_SIGNAL_REGISTERS == (int)CT_REMOTE_CPU_WORDS, "all registers fit");

static void fill_record(struct ct_signal_record *record, const struct ct_remote_signal *s) {
    *record = (struct ct_signal_record){
        .tid = s->thread.tid,
        .signal = s->signal,
        .code = s->code,
        .fault_address = s->fault_address,
        .counter = s->counter,
        .fatal = s->fatal,
    };
    record->register_count = (uint32_t)ct_remote_cpu_list(&s->thread.cpu, record->registers);
}

static void keep_entry(struct ct_crash_watch *h, const struct ct_remote_signal *s,
                       const struct ct_signal_record *record) {
    struct entry *e = calloc(1, sizeof *e);
    if (!e)
        return;
    e->record = *record;
    e->handled = s->handled;
    e->sender = s->sender;
    if (s->fatal || h->with_stacks++ < MAX_STACKS)
        walk_all(h, s, e);
    pthread_mutex_lock(&h->mutex);
    if (h->count == MAX_SIGNALS) /* the first ones and the newest stay */
        free_entry(h->entries[--h->count]);
    h->entries[h->count++] = e;
    pthread_mutex_unlock(&h->mutex);
}

static enum ct_remote_verdict judge(void *arg, struct ct_remote_signal *s) {
    struct ct_recording *r = arg;
    return r->stalk ? CT_REMOTE_SIGNAL_AS_IS : ct_crash_fault_judge(&r->tracing.watch->process, s);
}

static void on_signal(void *arg, const struct ct_remote_signal *s) {
    struct ct_recording *r = arg;
    struct ct_crash_watch *h = r->tracing.watch;
    struct ct_signal_record record;
    fill_record(&record, s);
    find_mark(r->session, &record);
    if (!ct_drain_signal(&r->drain, &record) && record.mark[0] && r->lane.segment_count)
        ct_lane_mark(&r->lane);
    keep_entry(h, s, &record);
    __atomic_fetch_add(&h->all, 1, __ATOMIC_RELEASE);
}

/* ---- watching ---- */

static struct ct_crash_watch *create_watch(struct ct_recording *r) {
    struct ct_crash_watch *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    pthread_mutex_init(&h->mutex, NULL);
    h->process.remote = r->remote;
    h->process.pid = r->pid;
    return h;
}

static int watch_signals(struct ct_recording *r, const struct wish *wish) {
    const struct ct_remote_watch what = {
        .signals = wish->signals, .crashes = wish->crashes, .report = on_signal, .judge = judge, .arg = r};
    if (!r->tracing.watch && !(r->tracing.watch = create_watch(r)))
        return CT_ERR_NO_MEMORY;
    return ct_remote_watch(r->remote, &what);
}

int ct_crash_watch_begin(struct ct_recording *r) {
    struct wish wish = wish_of(r->session);
    if (r->tracing.outside_tracers || ct_remote_is_watched(r->remote) || (!wish.signals && !wish.crashes))
        return 0;
    return watch_signals(r, &wish);
}

static int apply_policy(struct ct_recording *r) {
    struct wish wish = wish_of(r->session);
    if (!wish.signals && !wish.crashes) {
        ct_crash_watch_release(r);
        return 0;
    }
    if (ct_remote_is_watched(r->remote))
        return watch_signals(r, &wish);
    bool paused = ct_remote_is_stopped(r->remote);
    int status = ct_recording_stop(r);
    if (!status)
        status = watch_signals(r, &wish);
    if (!paused && ct_remote_is_stopped(r->remote))
        (void)ct_recording_go_on(r, CT_WAIT_HOOKS);
    return status;
}

int ct_crash_watch_apply(struct ct_recording *r) {
    return r->remote && r->times.resumed_at && !r->tracing.outside_tracers ? apply_policy(r) : 0;
}

void ct_crash_watch_release(struct ct_recording *r) {
    if (r->tracing.watch && r->remote)
        ct_remote_unwatch(r->remote);
}

void ct_crash_watch_interrupt(struct ct_recording *r) {
    pthread_mutex_lock(&r->work);
    r->tracing.outside_tracers++; /* the next tracer may come before this one has finished */
    ct_crash_watch_release(r);
    pthread_mutex_unlock(&r->work);
}

void ct_crash_watch_again(struct ct_recording *r) {
    pthread_mutex_lock(&r->work);
    r->tracing.outside_tracers--;
    (void)ct_crash_watch_apply(r);
    pthread_mutex_unlock(&r->work);
}

bool ct_crash_watch_is_wanted(struct ct_recording *r) {
    pthread_rwlock_rdlock(&r->session->policy_lock);
    bool wanted = r->session->policy && ct_policy_needs_tracing(r->session->policy);
    pthread_rwlock_unlock(&r->session->policy_lock);
    return wanted;
}

void ct_crash_watch_end(struct ct_recording *r) {
    if (!r->tracing.watch || !r->remote)
        return;
    int status = ct_remote_exit_status(r->remote);
    if (r->end.exit_status < 0 && !__atomic_load_n(&r->end.replaced, __ATOMIC_ACQUIRE))
        r->end.exit_status = status;
    ct_remote_unwatch(r->remote);
}

void ct_crash_watch_free(struct ct_recording *r) {
    struct ct_crash_watch *h = r->tracing.watch;
    if (!h)
        return;
    r->tracing.watch = NULL;
    for (size_t i = 0; i < h->count; i++)
        free_entry(h->entries[i]);
    ct_process_forget(&h->process);
    pthread_mutex_destroy(&h->mutex);
    free(h);
}

/* ---- the manifest ---- */

static void put_stack(struct ct_json *j, const struct stack *stack) {
    ct_json_begin(j, NULL, '{');
    ct_json_number(j, "tid", (uint64_t)stack->tid);
    ct_json_string(j, "name", stack->name);
    ct_json_begin(j, "frames", '[');
    for (size_t i = 0; i < stack->count; i++) {
        const struct frame *f = &stack->frames[i];
        ct_json_begin(j, NULL, '{');
        ct_json_number(j, "pc", f->pc);
        ct_json_string(j, "function", f->function ? f->function : "");
        ct_json_string(j, "module", f->module ? f->module : "");
        ct_json_number(j, "offset", f->offset);
        ct_json_end(j, '}');
    }
    ct_json_end(j, ']');
    if (stack->cut)
        ct_json_bool(j, "more", true);
    ct_json_end(j, '}');
}

static void put_registers(struct ct_json *j, const struct ct_signal_record *record) {
    char text[32];
    ct_json_begin(j, "registers", '{');
    for (unsigned i = 0; i < record->register_count; i++) {
        snprintf(text, sizeof text, "0x%llx", (unsigned long long)record->registers[i]);
        ct_json_string(j, ct_machine_host()->registers[i], text);
    }
    ct_json_end(j, '}');
}

/* Whether it killed is certain when the process has ended. */
static bool was_fatal(const struct ct_recording *r, const struct ct_signal_record *record) {
    return record->fatal && (r->end.exit_status < 0 ||
                             (WIFSIGNALED(r->end.exit_status) && WTERMSIG(r->end.exit_status) == record->signal));
}

static void put_entry(struct ct_json *j, const struct ct_recording *r, const struct entry *e) {
    char name[16];
    ct_signal_name(e->record.signal, name);
    ct_json_begin(j, NULL, '{');
    ct_json_number(j, "signal", (uint64_t)e->record.signal);
    ct_json_string(j, "name", name);
    ct_json_signed(j, "code", e->record.code);
    if (e->record.fault_address || e->record.code > 0)
        ct_json_number(j, "fault_address", e->record.fault_address);
    if (e->sender)
        ct_json_number(j, "sender", (uint64_t)e->sender);
    ct_json_number(j, "tid", (uint64_t)e->record.tid);
    ct_json_number(j, "time_ns", ct_clock_ns(&r->clock, e->record.counter));
    ct_json_bool(j, "handled", e->handled);
    ct_json_bool(j, "fatal", was_fatal(r, &e->record));
    put_registers(j, &e->record);
    ct_json_begin(j, "stacks", '[');
    for (size_t i = 0; i < e->stack_count; i++)
        put_stack(j, &e->stacks[i]);
    ct_json_end(j, ']');
    ct_json_end(j, '}');
}

/* A kill without a stop before it is known only from how the process ended. */
static void put_unseen(struct ct_json *j, const struct ct_recording *r) {
    char name[16];
    ct_signal_name(WTERMSIG(r->end.exit_status), name);
    ct_json_begin(j, NULL, '{');
    ct_json_number(j, "signal", (uint64_t)WTERMSIG(r->end.exit_status));
    ct_json_string(j, "name", name);
    ct_json_bool(j, "fatal", true);
    ct_json_end(j, '}');
}

void ct_crash_watch_put(struct ct_recording *r, struct ct_json *j) {
    struct ct_crash_watch *h = r->tracing.watch;
    bool killed = r->end.exit_status >= 0 && WIFSIGNALED(r->end.exit_status);
    ct_json_begin(j, "signals", '[');
    if (h)
        pthread_mutex_lock(&h->mutex);
    for (size_t i = 0; h && i < h->count; i++) {
        put_entry(j, r, h->entries[i]);
        killed &= !was_fatal(r, &h->entries[i]->record);
    }
    if (h)
        pthread_mutex_unlock(&h->mutex);
    if (killed)
        put_unseen(j, r);
    ct_json_end(j, ']');
    ct_json_number(j, "signals_told", ct_crash_watch_count(r));
    ct_json_bool(j, "ptrace_held", r->tracing.watch != NULL);
}

uint64_t ct_crash_watch_count(struct ct_recording *r) {
    return r->tracing.watch ? __atomic_load_n(&r->tracing.watch->all, __ATOMIC_ACQUIRE) : 0;
}

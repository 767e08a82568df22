/* SPDX-License-Identifier: Apache-2.0 */
/* The Stalker of scripts: threads are followed beside hooks, and events go to a ring in shared memory
 * (abi/script_abi.h). Freestanding.
 *
 * The controller calls the functions below from outside, while every thread is stopped; or a thread that waits in a
 * callback does, as work, for itself: then it begins to be followed when the callback is over. Code of the agent is
 * excluded, so callbacks run natively. */
#include "agent/script_stalk.h"
#include "agent/agent_lane.h"
#include "agent/script_agent.h"
#include "agent/script_native.h"
#include "hook/stub.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/cache.h"
#include "stalk/engine.h"
#include "stalk/events.h"
#include "stalk/link.h"
#include "stalk/memory.h"
#include "stalk/others.h"
#include "stalk/signals.h"
#include "stalk/stalker.h"
#include "stalk/thread.h"
#include "stalk/translate.h"
#include "stalk/unwind.h"

static struct {
    struct ct_stalker *stalker;
    struct ct_runtime *runtime;
    struct ct_script_stalk *shared;
    struct ct_script_shared *bell;
    uint64_t image, image_end;
    uint64_t transforms; /* counts follows with a transform: each has translations of its own */
    int32_t pid;
} agent;

/* ---- events ---- */

/* Room for a batch, which is one piece: at the end of the ring the rest is skipped. NULL: the controller is too slow.
 * Another thread may have the ring: it holds it for moments, with all its signals blocked. */
static struct ct_script_batch *reserve(uint64_t bytes) {
    struct ct_script_stalk *s = agent.shared;
    uint32_t tries = 0;
    while (__atomic_exchange_n(&s->lock, 1, __ATOMIC_ACQUIRE))
        ct_runtime_pause(&tries);
    uint64_t head = s->head, room = CT_SCRIPT_RING, tail = __atomic_load_n(&s->tail, __ATOMIC_ACQUIRE);
    uint64_t at = head % room, skip = room - at < bytes ? room - at : 0;
    struct ct_script_batch *batch = NULL;
    if (bytes <= room / 2 && head + skip + bytes - tail <= room) {
        uint8_t *ring = (uint8_t *)s + CT_SCRIPT_RING_AT;
        if (skip)
            ((struct ct_script_batch *)(ring + at))->bytes = 0; /* nothing more up to the end */
        batch = (struct ct_script_batch *)(ring + (head + skip) % room);
        batch->ready = 0;
        batch->bytes = bytes;
        __atomic_store_n(&s->head, head + skip + bytes, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&s->lock, 0, __ATOMIC_RELEASE);
    return batch;
}

static void put_batch(int tid, const void *items, uint32_t count, uint32_t size, bool summary) {
    uint64_t words = (uint64_t)count * size / 8, bytes = sizeof(struct ct_script_batch) + words * 8;
    struct ct_script_batch *batch = reserve(bytes);
    if (!batch) {
        __atomic_fetch_add(&agent.shared->lost, count, __ATOMIC_RELAXED);
        return;
    }
    batch->tid = tid;
    batch->count = count;
    batch->summary = summary;
    volatile uint64_t *to = (volatile uint64_t *)(batch + 1); /* volatile: must not become a call of memcpy */
    const uint64_t *from = items;
    for (uint64_t i = 0; i < words; i++)
        to[i] = from[i];
    __atomic_store_n(&batch->ready, 1, __ATOMIC_RELEASE);
    ct_script_ring_bell(agent.bell);
}

/* Events of a forked child belong to nobody; without a script they are not wanted either. */
bool ct_script_stalk_is_wanted(void) {
    if (ct_os_getpid() == agent.pid && ct_agent_lane_is_recording() &&
        __atomic_load_n(&agent.bell->open, __ATOMIC_ACQUIRE))
        return true;
    struct stalk_thread *t = ct_stalk_thread_current();
    if (t)
        t->following = 2; /* the engine lets it go */
    return false;
}

static void on_receive(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    (void)user;
    if (ct_script_stalk_is_wanted())
        put_batch(tid, events, (uint32_t)count, sizeof *events, false);
}

static void on_call_summary(void *user, int tid, const struct ct_stalker_call_count *counts, size_t count) {
    (void)user;
    if (ct_script_stalk_is_wanted())
        put_batch(tid, counts, (uint32_t)count, sizeof *counts, true);
}

static void on_stop(void *user, int tid, int status) {
    (void)user;
    (void)tid;
    __atomic_fetch_add(&agent.shared->left, status != 0, __ATOMIC_RELAXED);
    agent.shared->followed = agent.stalker ? agent.stalker->followed : 0;
}

/* ---- callouts, probes, transforms: requests from the engine ---- */

static void on_callout(struct ct_cpu_context *cpu, void *data) {
    (void)ct_script_ask(cpu, CT_SCRIPT_ASKS_CALLOUT, (uint32_t)(uint64_t)data, ct_cpu_pc(cpu));
}

static void on_probe(struct ct_cpu_context *cpu, void *data) {
    (void)ct_script_ask(cpu, CT_SCRIPT_ASKS_PROBE, (uint32_t)(uint64_t)data, ct_cpu_pc(cpu));
}

/* `at`: how many instructions the iterator has given. */
static uint32_t keep(struct ct_stalker_iterator *it, uint32_t at, uint32_t insn) {
    const struct ct_stalker_insn *now = NULL;
    for (; at <= insn; at++)
        if (!(now = ct_stalker_iterator_next(it)))
            return at;
    if (now)
        ct_stalker_iterator_keep(it);
    return at;
}

static void put_callout(struct ct_stalker_iterator *it, const struct ct_script_block_edit *e) {
    if (e->address)
        ct_stalker_iterator_put_callout(it, (ct_stalker_callout *)e->address, (void *)e->user, NULL);
    else
        ct_stalker_iterator_put_callout(it, on_callout, (void *)(uint64_t)e->id, NULL);
}

static int apply(struct ct_stalker_iterator *it, struct ct_stalker_writer *w, const struct ct_script_block *b) {
    struct ct_script_output out; /* an initializer would call memset */
    uint32_t at = 0;
    ct_script_output_begin(&out, w);
    for (uint32_t i = 0; i < b->edit_count && i < CT_SCRIPT_EDITS; i++) {
        const struct ct_script_block_edit *e = &b->edits[i];
        switch (e->kind) {
        case CT_SCRIPT_EDIT_KEEP:
            at = keep(it, at, e->insn);
            break;
        case CT_SCRIPT_EDIT_BYTES:
            ct_stalker_writer_put_bytes(w, e->bytes, e->length < sizeof e->bytes ? e->length : sizeof e->bytes);
            break;
        case CT_SCRIPT_EDIT_CALLOUT:
            put_callout(it, e);
            break;
        case CT_SCRIPT_EDIT_COUNT:
            ct_stalker_writer_put_count(w, (uint64_t *)e->address);
            break;
        case CT_SCRIPT_EDIT_LABEL:
            ct_script_put_label(&out, e->id);
            break;
        case CT_SCRIPT_EDIT_JUMP:
            ct_script_put_jump(&out, e->id, (uint32_t)e->user);
            break;
        case CT_SCRIPT_EDIT_COPY:
            (void)ct_stalker_writer_put_insn(w, e->address);
            break;
        default:
            break;
        }
    }
    return ct_script_output_end(&out);
}

static bool ask_about_block(struct ct_cpu_context *cpu, uint64_t address) {
    __atomic_store_n(&agent.shared->asking, 1, __ATOMIC_RELEASE);
    bool answered = ct_script_ask(cpu, CT_SCRIPT_ASKS_TRANSFORM, 0, address);
    __atomic_store_n(&agent.shared->asking, 0, __ATOMIC_RELEASE);
    return answered;
}

static int transform(void *user, struct ct_stalker_iterator *it, struct ct_stalker_writer *w) {
    struct ct_script_block *b = &agent.shared->transformed;
    uint64_t words[CT_SCRIPT_CPU_WORDS + 2];
    volatile uint64_t *clear = words; /* volatile: must not become a call of memset */
    for (uint32_t i = 0; i < CT_SCRIPT_CPU_WORDS + 2; i++)
        clear[i] = 0;
    (void)user;
    b->count = ct_stalk_preview(it, b->addresses, b->lengths, CT_SCRIPT_INSNS);
    b->edit_count = 0;
    bool kept = !b->count || !ct_script_stalk_is_wanted() ||
                !ask_about_block((struct ct_cpu_context *)words, b->addresses[0]) || !b->edit_count;
    if (!kept)
        return apply(it, w, b);
    while (ct_stalker_iterator_next(it))
        ct_stalker_iterator_keep(it);
    return CT_OK;
}

/* ---- following ---- */

/* Children that a followed thread forks are not followed, nor its new threads. */
static bool wants_children(void) {
    return false;
}

static const struct stalk_family family = {.wants = wants_children};

static int make_stalker(void) {
    const struct ct_script_stalk *s = agent.shared;
    const struct ct_stalker_options options = {
        .size = sizeof options, .queue_capacity = s->queue_capacity, .drain_interval_ms = s->drain_interval_ms};
    for (unsigned i = 0; i < STALK_FUNCTIONS; i++)
        ct_stalk_functions[i] = i == STALK_DEREGISTER ? 0 : s->functions[i];
    int status = ct_stalker_create(&agent.stalker, &options);
    if (status)
        return status;
    agent.stalker->family = &family;
    agent.stalker->written_to = true; /* by the script, linkage tables too */
    agent.stalker->excluded[0].start = agent.image;
    agent.stalker->excluded[0].end = agent.image_end;
    agent.shared->made = 1;
    __atomic_fetch_add(&agent.runtime->inside, 1, __ATOMIC_RELAXED); /* our memory must stay until it is gone */
    for (uint32_t i = 0; !status && i < s->excluded_count && i < CT_SCRIPT_EXCLUDED; i++)
        status = ct_stalker_exclude(agent.stalker, s->excluded[i][0], s->excluded[i][1] - s->excluded[i][0]);
    return status;
}

static struct stalk_thread *make_thread(int tid, uint64_t present, uint64_t *block, int *status) {
    const struct ct_script_stalk *s = agent.shared;
    struct ct_stalker_transformer transformer = {.size = sizeof transformer};
    struct ct_stalker_sink sink = {.size = sizeof sink, .mask = s->mask, .stop = on_stop};
    *status = agent.stalker ? CT_OK : make_stalker();
    if (*status)
        return NULL;
    agent.stalker->queue_capacity = s->queue_capacity ? s->queue_capacity : agent.stalker->queue_capacity;
    agent.stalker->drain_interval_ns = s->drain_interval_ms ? s->drain_interval_ms * 1000000ull : UINT64_MAX;
    (void)ct_stalker_set_trust_threshold(agent.stalker, s->trust);
    if (s->summary)
        sink.on_call_summary = on_call_summary;
    else if (s->native_on_event)
        *status = ct_script_native_sink(s->native_on_event, s->user, &sink);
    else if (s->mask & CT_STALKER_ALL_EVENTS)
        sink.on_receive = on_receive;
    if (s->native_transform && !*status) {
        *status = ct_script_native_transform(s->native_transform, s->user, &transformer);
    } else if (s->transform) {
        transformer.transform = transform;
        transformer.user = (void *)++agent.transforms;
    }
    if (*status)
        return NULL;
    struct stalk_thread *t = ct_stalk_thread_make(agent.stalker, tid, &transformer, &sink, present, block, status);
    agent.shared->followed = agent.stalker->followed;
    return t;
}

/* The thread's own block: new threads begin with another's, or with the stray one. */
static struct ct_block *block_of(int tid, uint64_t thread_pointer) {
    for (struct ct_block *b = agent.runtime->blocks; b; b = b->next)
        if (b->in_use == 1 && b->tid == tid)
            return b;
    struct ct_block *b = ct_block_create(agent.runtime, tid, thread_pointer);
    if (b)
        ct_block_place(b);
    return b;
}

static int follow_other(struct ct_script_stalk *s) {
    struct ct_block *b = block_of(s->tid, s->thread_pointer);
    uint64_t block;
    int status = b ? CT_OK : CT_ERR_NO_MEMORY;
    struct stalk_thread *t = b ? make_thread(s->tid, (uint64_t)b, &block, &status) : NULL;
    if (!t)
        return status;
    ct_stalk_signals_take();
    t->area->busy = 0;
    t->begin = s->pc;
    s->pc = ct_stalk_helper(t->cache->regions, ct_stalk_begin);
    s->block = block;
    return CT_OK;
}

/* The calling thread waits in a callback: it begins at the end of that. */
static int follow_self(struct ct_script_stalk *s) {
    struct ct_block *b = ct_block_current();
    uint64_t block;
    int status = b ? CT_OK : CT_ERR_NO_MEMORY;
    (void)s;
    if (ct_block_by_pointer() && ct_os_inherits_block())
        return CT_ERR_UNSUPPORTED; /* the program uses the register that leads to the thread's area */
    uint64_t signals = ct_os_block_signals();
    struct stalk_thread *t = b ? make_thread(b->tid, (uint64_t)b, &block, &status) : NULL;
    if (t) {
        ct_stalk_signals_take();
        b->goes_through = (uint64_t)t;
    }
    ct_os_restore_signals(signals);
    return status;
}

/* Called at the end of a callback: the thread was to go on at `to`, and goes where this says. It stays busy until it
 * begins: let go before, its Stalker could be gone when it comes there. */
static uint64_t go_through(struct ct_block *b, uint64_t to) {
    struct stalk_thread *t = (struct stalk_thread *)b->goes_through;
    b->goes_through = 0;
    t->begin = to;
    return ct_stalk_way_in(t);
}

/* ---- probes ---- */

static int add_probe(struct ct_script_stalk *s) {
    int status = agent.stalker ? CT_OK : make_stalker();
    ct_stalker_callout *fn = s->size ? (ct_stalker_callout *)s->size : on_probe;
    if (!status)
        status = ct_stalker_add_call_probe(agent.stalker, s->start, fn, (void *)s->pc, NULL);
    s->block = (uint64_t)(int64_t)status;
    return status < 0 ? status : CT_OK;
}

/* ---- between ---- */

/* Sinks in C are the program's code: they run on their own threads only. A thread that is stopped may hold the ring. */
static int flush(void) {
    int status = __atomic_load_n(&agent.shared->lock, __ATOMIC_ACQUIRE) ? CT_ERR_BUSY : CT_OK;
    for (struct stalk_thread *t = agent.stalker->threads; t && !status; t = t->next)
        if (t->sink.on_receive == on_receive || t->sink.on_call_summary == on_call_summary)
            status = ct_stalk_events_drain_stopped(t);
    return status;
}

static int collect(struct ct_script_stalk *s) {
    int64_t bytes = ct_stalker_garbage_collect(agent.stalker);
    s->size = bytes > 0 ? (uint64_t)bytes : 0;
    return bytes < 0 ? (int)bytes : CT_OK;
}

/* ---- letting go ---- */

static int unfollow(struct ct_script_stalk *s) {
    s->inside = s->followed = 0;
    if (!agent.stalker)
        return CT_ERR_NOT_FOUND;
    int status = ct_stalk_let_go(agent.stalker, s->tid, &s->pc);
    s->inside = ct_stalk_is_inside(agent.stalker, s->tid, s->pc);
    s->followed = __atomic_load_n(&agent.stalker->followed, __ATOMIC_ACQUIRE);
    return status;
}

void ct_stalk_signals_end(void); /* signal.c */

/* Nobody is followed, or in our code. */
static int end(void) {
    bool stays = false; /* descriptions that an unwinder was given refer to a function of ours */
    for (const struct stalk_cache *c = agent.stalker ? agent.stalker->caches : NULL; c; c = c->next)
        stays |= c->unwind != NULL;
    stays |= agent.stalker && agent.stalker->empty;
    int status = agent.stalker ? ct_stalk_destroy(agent.stalker) : CT_OK;
    if (status)
        return status;
    if (agent.stalker && !stays)
        __atomic_fetch_sub(&agent.runtime->inside, 1, __ATOMIC_RELEASE);
    agent.stalker = NULL;
    agent.shared->made = 0;
    ct_stalk_signals_end();
    ct_stalk_threads_end();
    return CT_OK;
}

/* ---- what the controller asks for ---- */

static uint64_t run_command(uint64_t command) {
    struct ct_script_stalk *s = agent.shared;
    /* A thread that is stopped may hold the lock, or wait for the script with it: it must go on first. */
    if (agent.stalker && __atomic_load_n(&agent.stalker->lock, __ATOMIC_ACQUIRE))
        return (uint64_t)(int64_t)CT_ERR_BUSY;
    s->status = command == CT_SCRIPT_STALK_FOLLOW       ? follow_other(s)
                : command == CT_SCRIPT_STALK_FOLLOW_ME  ? follow_self(s)
                : command == CT_SCRIPT_STALK_UNFOLLOW   ? unfollow(s)
                : command == CT_SCRIPT_STALK_END        ? end()
                : command == CT_SCRIPT_STALK_PROBE      ? add_probe(s)
                : !agent.stalker                        ? CT_OK
                : command == CT_SCRIPT_STALK_EXCLUDE    ? ct_stalker_exclude(agent.stalker, s->start, s->size)
                : command == CT_SCRIPT_STALK_INVALIDATE ? ct_stalker_invalidate(agent.stalker, s->start)
                : command == CT_SCRIPT_STALK_UNPROBE    ? ct_stalker_remove_call_probe(agent.stalker, (int)s->block)
                : command == CT_SCRIPT_STALK_FLUSH      ? flush()
                : command == CT_SCRIPT_STALK_COLLECT    ? collect(s)
                : command == CT_SCRIPT_STALK_TRUST      ? ct_stalker_set_trust_threshold(agent.stalker, s->trust)
                                                        : CT_ERR_INVALID_ARGUMENT;
    return (uint64_t)(int64_t)s->status;
}

_Static_assert(sizeof(struct stalk_action) == sizeof(struct ct_os_action), "the kernel's");

static int signal_action(int signal, const struct ct_os_action *action, struct ct_os_action *old) {
    if (!ct_stalk_signals_kept())
        return ct_os_signal_action(signal, action, old);
    int64_t result =
        ct_stalk_sigaction((uint64_t)signal, (const struct stalk_action *)action, (struct stalk_action *)old);
    return result ? CT_ERR_SYSTEM : CT_OK;
}

void ct_script_stalk_open(struct ct_script_shared *shared, struct ct_boot *boot) {
    agent.bell = shared;
    agent.shared = (struct ct_script_stalk *)((uint64_t)shared + CT_SCRIPT_STALK_AT);
    agent.shared->run = (uint64_t)&run_command;
    boot->stalk = (uint64_t)agent.shared;
    ct_script_native_open(shared);
    agent.runtime = (struct ct_runtime *)boot->runtime;
    agent.runtime->go_through = go_through;
    agent.runtime->signal_action = signal_action;
    agent.pid = boot->pid;
    agent.image = boot->image;
    agent.image_end = boot->image + boot->text_size;
}

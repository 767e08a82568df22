/* SPDX-License-Identifier: Apache-2.0 */
/* The agent that follows threads: the Stalker inside another process, which writes its events to the index lane.
 *
 * The controller calls it from outside, while every thread is stopped. Calls and returns become events of the lane, as
 * a stub would write them. Blocks and call targets are counted in shared tables, so that they outlive the process.
 * Freestanding. The sink runs on the followed thread, with one follower per thread; tables are changed by atomic
 * operations. */
#include "abi/stalk_abi.h"
#include "agent/agent_lane.h"
#include "agent/request.h"
#include "agent/stalk_follower.h"
#include "agent/stalk_tables.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/cache.h"
#include "stalk/engine.h"
#include "stalk/events.h"
#include "stalk/memory.h"
#include "stalk/others.h"
#include "stalk/signals.h"
#include "stalk/stalker.h"
#include "stalk/thread.h"
#include "stalk/translate.h"
#include "stalk/unwind.h"

#define FOLLOWERS 1024u
#define SITES     (1u << 22)

static struct {
    struct ct_stalker *stalker;
    struct ct_follower *followers[FOLLOWERS];
    uint8_t *native; /* by number of a target: NATIVE, FOLLOWED, 0: not known yet; with excluded ranges only */
    struct ct_stalk_code *code;
    uint8_t *lengths;
    uint32_t *numbers; /* indices of blocks in the table of code, plus 1, by their sites' numbers */
    uint32_t sites;    /* this many of them may be in use */
    uint32_t written;  /* kinds of block and instruction events that are written: CT_STALKER_BLOCK, EXEC, COMPILE */
    bool returns;      /* returns are events */
    uint32_t keeping;  /* signals stay ours until all threads are out, not only until the last one leaves */
    int32_t pid;
} agent;
enum { FOLLOWED = 1, NATIVE = 2 };

/* ---- followers ---- */

/* Finds a follower for a new thread: one whose thread has ended, or a new one. */
static struct ct_follower *take_follower(int tid) {
    for (uint32_t i = 0; i < FOLLOWERS; i++) {
        struct ct_follower *f = __atomic_load_n(&agent.followers[i], __ATOMIC_ACQUIRE), *none = NULL;
        int32_t nobody = 0;
        if (f) {
            if (__atomic_compare_exchange_n(&f->tid, &nobody, tid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
                return f;
            continue;
        }
        f = ct_os_alloc(sizeof *f, CT_OS_READ | CT_OS_WRITE);
        if (!f)
            return NULL;
        f->tid = tid;
        if (__atomic_compare_exchange_n(&agent.followers[i], &none, f, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return f;
        ct_os_free(f, sizeof *f);
    }
    return NULL;
}

static struct ct_follower *find_follower(int tid) {
    for (uint32_t i = 0; i < FOLLOWERS; i++) {
        struct ct_follower *f = __atomic_load_n(&agent.followers[i], __ATOMIC_ACQUIRE);
        if (!f)
            break;
        if (__atomic_load_n(&f->tid, __ATOMIC_RELAXED) == tid)
            return f;
    }
    return NULL;
}

static void begin_follower(struct ct_follower *f) {
    f->block.tid = f->tid;
    f->block.event_bit = ct_agent_lane_control()->chunk_bytes;
    f->block.base =
        (struct ct_shadow *)(uintptr_t)sizeof(struct ct_shadow); /* never followed: depths are differences */
    f->block.top = f->block.base + 1;
    f->block.reported_stack = f->stack;
    f->stamp = 0;
    ct_event_begin(&f->block);
}

static struct ct_follower *follower_of(int tid) {
    struct ct_follower *f = find_follower(tid);
    if (f || !(f = take_follower(tid)))
        return f;
    begin_follower(f);
    return f;
}

/* ---- blocks that are written ---- */

/* Adds a block to the table of code; CT_TABLES_NOWHERE: the table is full. */
static uint32_t define_block(uint64_t start, uint64_t end, const uint8_t *lengths, uint32_t insns) {
    struct ct_stalk_tables *t = ct_tables.shared;
    uint64_t number = __atomic_fetch_add(&t->code_count, 1, __ATOMIC_RELAXED);
    uint64_t at = __atomic_fetch_add(&t->lengths_used, insns, __ATOMIC_RELAXED);
    if (number >= t->code_capacity || at + insns > CT_STALK_LENGTHS)
        return CT_TABLES_NOWHERE;
    ct_tables_introduce(start);
    for (uint32_t i = 0; i < insns; i++)
        agent.lengths[at + i] = lengths[i];
    agent.code[number] =
        (struct ct_stalk_code){.start = start, .size = (uint32_t)(end - start), .insns = insns, .lengths = at};
    return (uint32_t)number;
}

static uint32_t number_of_site(uint32_t id, const struct stalk_site *site) {
    if (id >= SITES)
        return CT_TABLES_NOWHERE;
    uint32_t number = __atomic_load_n(&agent.numbers[id], __ATOMIC_ACQUIRE);
    if (number)
        return number - 1;
    number = define_block(site->location, site->target, site->lengths, site->insns);
    if (number == CT_TABLES_NOWHERE)
        return CT_TABLES_NOWHERE;
    __atomic_store_n(&agent.numbers[id], number + 1, __ATOMIC_RELEASE);
    uint32_t sites = __atomic_load_n(&agent.sites, __ATOMIC_RELAXED);
    while (id >= sites &&
           !__atomic_compare_exchange_n(&agent.sites, &sites, id + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return number;
}

static uint32_t executed_insns(const struct stalk_site *site, uint64_t end) {
    uint32_t n = 0;
    for (uint64_t pc = site->location; n < site->insns && pc < end; n++)
        pc += site->lengths[n];
    return n;
}

/* Returns the number of its instructions. */
static uint32_t write_block(struct ct_follower *f, const struct ct_stalker_event *e) {
    const struct stalk_site *site = ct_stalk_item(&agent.stalker->caches->sites, (uint32_t)e->depth);
    uint32_t n = executed_insns(site, e->target), number = number_of_site((uint32_t)e->depth, site);
    if (number == CT_TABLES_NOWHERE)
        __atomic_fetch_add(&ct_tables.shared->full, 1, __ATOMIC_RELAXED);
    ct_follower_write(f, number,
                      n < site->insns && number != CT_TABLES_NOWHERE ? CT_EVENT_PART | n * CT_TAG_STEP
                                                                     : (uint32_t)CT_EVENT_BLOCK,
                      f->stamp);
    return n;
}

static void write_compiled(struct ct_follower *f, const struct ct_stalker_event *e) {
    ct_follower_write(f, define_block(e->location, e->target, NULL, 0), CT_EVENT_COMPILED, f->stamp);
}

static bool is_excluded(uint64_t address) {
    return ct_stalk_excluded(agent.stalker, address);
}

/* A call whose return nobody could see: it ran natively, or returns are not asked for. */
bool ct_follower_is_unseen(uint32_t number) {
    if (!agent.returns)
        return true;
    if (number == CT_TABLES_NOWHERE || !agent.native)
        return false;
    if (!agent.native[number]) {
        uint64_t key = CT_STALK_ADDRESS(ct_tables.targets[number].key);
        agent.native[number] = is_excluded(key) || is_excluded(ct_tables_function_at(key)) ? NATIVE : FOLLOWED;
    }
    return agent.native[number] == NATIVE;
}

/* ---- the sink ---- */

static unsigned bit_of(uint32_t kind) {
    return (unsigned)__builtin_ctz(kind) & 7;
}

/* The engine lets the calling thread go as soon as it can. */
static void stop_following(void) {
    struct stalk_thread *t = ct_stalk_thread_current();
    if (t)
        t->following = 2;
}

static void keep_no_signals(void) {
    if (__atomic_exchange_n(&agent.keeping, 0, __ATOMIC_ACQ_REL))
        ct_stalk_signals_give_back();
}

/* Events of a child that a followed thread has forked belong to nobody; events without a recorder are not wanted
 * either. */
static bool is_wanted(void) {
    bool ours = ct_os_getpid() == agent.pid;
    if (ours && ct_agent_lane_is_recording())
        return true;
    if (ours)
        keep_no_signals(); /* nobody will come to end this */
    else
        __atomic_fetch_add(&ct_tables.shared->forked, 1, __ATOMIC_RELAXED);
    stop_following();
    return false;
}

/* Does not take the Stalker's lock, which the engine may hold: numbers that are a little old are good enough. */
static void report_statistics(void) {
    const struct ct_stalker_statistics *s = &agent.stalker->statistics;
    ct_tables.shared->blocks = s->blocks;
    ct_tables.shared->fragments = s->fragments;
    ct_tables.shared->original_bytes = s->original_bytes;
    ct_tables.shared->code_bytes = s->code_bytes;
}

/* The time of blocks before the first call or return: not later than that one. Now, if there is none. */
static uint64_t stamp_before(const struct ct_follower *f, const struct ct_stalker_event *events, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (events[i].timestamp)
            return f->stamp ? f->stamp : events[i].timestamp;
    return ct_os_timestamp();
}

static void receive_one(struct ct_follower *f, const struct ct_stalker_event *e, uint64_t *seen) {
    seen[bit_of(e->kind)]++;
    if (e->kind == CT_STALKER_BLOCK) {
        ct_tables_count_block(&f->known, e->location, e->target);
        if (agent.written & (CT_STALKER_BLOCK | CT_STALKER_EXEC))
            seen[bit_of(CT_STALKER_EXEC)] += write_block(f, e);
    } else if (e->kind == CT_STALKER_COMPILE && agent.written & CT_STALKER_COMPILE) {
        write_compiled(f, e);
    } else {
        ct_follower_receive(f, e);
    }
}

static void end_batch(struct ct_follower *f, const uint64_t *seen) {
    for (unsigned i = 0; i < 8; i++)
        if (seen[i])
            __atomic_fetch_add(&ct_tables.shared->events[i], seen[i], __ATOMIC_RELAXED);
    ct_tables_flush(&f->known, seen[bit_of(CT_STALKER_BLOCK)] != 0);
    report_statistics();
}

static void on_receive(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    (void)user;
    struct ct_follower *f = is_wanted() ? follower_of(tid) : NULL;
    uint64_t seen[8] = {0};
    if (!f)
        return;
    ct_tables_forget_old(&f->known);
    f->stamp = stamp_before(f, events, count);
    for (size_t i = 0; i < count; i++)
        receive_one(f, &events[i], seen);
    end_batch(f, seen);
}

/* Calls and returns alone, as they were recorded. */
static uint64_t take(int tid, struct stalk_branches *b) {
    struct ct_follower *f = is_wanted() ? follower_of(tid) : NULL;
    uint64_t seen[8] = {0}, *calls = &seen[bit_of(CT_STALKER_CALL)], *returns = &seen[bit_of(CT_STALKER_RET)];
    if (!f)
        return 0;
    ct_tables_forget_old(&f->known);
    ct_follower_take(f, b, calls, returns);
    end_batch(f, seen);
    return *calls + *returns;
}

static void on_call_summary(void *user, int tid, const struct ct_stalker_call_count *counts, size_t count) {
    (void)user;
    if (!is_wanted() || !follower_of(tid))
        return;
    for (size_t i = 0; i < count; i++) {
        ct_tables_count_target(counts[i].target, counts[i].count);
        __atomic_fetch_add(&ct_tables.shared->events[bit_of(CT_STALKER_CALL)], counts[i].count, __ATOMIC_RELAXED);
    }
}

static void on_start(void *user, int tid) {
    (void)user;
    (void)tid;
    __atomic_fetch_add(&ct_tables.shared->started, 1, __ATOMIC_RELAXED);
}

static void on_stop(void *user, int tid, int status) {
    (void)user;
    if (ct_os_getpid() != agent.pid)
        return;
    __atomic_fetch_add(&ct_tables.shared->stopped, 1, __ATOMIC_RELAXED);
    if (status) {
        __atomic_fetch_add(&ct_tables.shared->left, 1, __ATOMIC_RELAXED);
        keep_no_signals(); /* the program may be about to forbid itself the system calls that we make for each signal */
    }
    report_statistics();
    struct ct_follower *f = find_follower(tid);
    if (!f)
        return;
    ct_event_drain(&f->block);
    f->open = f->stack = f->block.reported_stack = 0;
    ct_follower_forget_stacks(f);
    __atomic_store_n(&f->tid, 0, __ATOMIC_RELEASE); /* its memory can serve another thread */
}

/* ---- processes ---- */

/* Is a new child process to be followed? */
static bool wants_children(void) {
    const struct ct_shm_control *c = ct_agent_lane_control();
    ct_request_note_fork();
    return c->children && c->listening && ct_agent_lane_is_recording();
}

/* Indices are the parent's, and its table is gone: these are the keys that they stand for. NULL: nothing is open, or
 * there is no memory. */
static uint64_t *keys_of_frames(const struct ct_follower *f) {
    uint64_t *keys = f && f->open ? ct_os_alloc(f->open * sizeof *keys, CT_OS_READ | CT_OS_WRITE) : NULL;
    for (uint32_t i = 0; keys && i < f->open; i++) {
        uint32_t number = f->frames[i].number;
        keys[i] = number == CT_TABLES_NOWHERE ? 0 : CT_STALK_ADDRESS(ct_tables.targets[number].key);
    }
    return keys;
}

static void number_frames_anew(struct ct_follower *f, uint64_t *keys) {
    bool bound;
    for (uint32_t i = 0; keys && i < f->open; i++)
        f->frames[i].number = keys[i] ? ct_tables_number_of(keys[i], &bound) : CT_TABLES_NOWHERE;
    if (!keys)
        f->open = 0;
}

/* Tables and lane are the child's own, and empty; one of the followers is left. */
static void begin_in_child(struct ct_follower *own, int tid) {
    agent.pid = ct_os_getpid();
    for (uint32_t i = 0; i < FOLLOWERS && agent.followers[i]; i++) {
        ct_tables_forget(&agent.followers[i]->known);
        agent.followers[i]->tid = 0;
    }
    for (uint32_t i = 0; agent.native && i < ct_tables.shared->target_capacity; i++)
        agent.native[i] = 0;
    for (uint32_t i = 0; i < agent.sites; i++)
        agent.numbers[i] = 0;
    agent.sites = 0;
    if (own) {
        own->tid = tid;
        ct_follower_forget_stacks(own); /* they hold the parent's indices */
        begin_follower(own);
    }
}

static bool on_forked(int before, int tid) {
    struct ct_follower *f = find_follower(before);
    uint64_t *keys = keys_of_frames(f);
    uint32_t open = f ? f->open : 0;
    bool followed = ct_request_forked();
    if (followed) {
        begin_in_child(f, tid);
        if (f)
            number_frames_anew(f, keys);
    } else {
        __atomic_fetch_add(&ct_tables.shared->forked, 1, __ATOMIC_RELAXED);
    }
    if (keys)
        (void)ct_os_free(keys, open * sizeof *keys);
    return followed;
}

static const struct stalk_family family = {
    .wants = wants_children, .forked = on_forked, .executes = ct_request_executes, .unmapped = ct_tables_unmapped};

/* ---- what the controller asks for ---- */

static int make_stalker(const struct ct_stalk_boot *boot) {
    struct ct_shm_control *c = (struct ct_shm_control *)boot->shm;
    if (!ct_agent_lane_open(boot->shm))
        return CT_ERR_BAD_FILE;
    agent.pid = boot->pid;
    agent.returns = boot->mask & CT_STALKER_RET;
    ct_tables.shared = (struct ct_stalk_tables *)(boot->shm + c->extra_offset);
    ct_tables.targets = (struct ct_stalk_target *)((uint64_t)ct_tables.shared + ct_tables.shared->targets_offset);
    ct_tables.blocks = (struct ct_stalk_place *)((uint64_t)ct_tables.shared + ct_tables.shared->blocks_offset);
    if (ct_tables.shared->code_offset) {
        agent.written = boot->mask & (CT_STALKER_BLOCK | CT_STALKER_EXEC | CT_STALKER_COMPILE);
        agent.code = (struct ct_stalk_code *)((uint64_t)ct_tables.shared + ct_tables.shared->code_offset);
        agent.lengths = (uint8_t *)((uint64_t)ct_tables.shared + ct_tables.shared->lengths_offset);
        agent.numbers = ct_os_alloc(SITES * sizeof *agent.numbers, CT_OS_READ | CT_OS_WRITE);
        if (!agent.numbers)
            return CT_ERR_NO_MEMORY;
    }
    struct ct_stalker_options options = {.size = sizeof options,
                                         .queue_capacity = boot->queue_capacity,
                                         .drain_interval_ms = boot->drain_interval_ms,
                                         .follow_children = boot->follow_new_threads != 0};
    for (unsigned i = 0; i < STALK_FUNCTIONS; i++)
        ct_stalk_functions[i] = i == STALK_DEREGISTER ? 0 : boot->functions[i]; /* not while threads are stopped */
    int status = ct_stalker_create(&agent.stalker, &options);
    if (!status)
        agent.stalker->keeps_sites = boot->mask & (CT_STALKER_BLOCK | CT_STALKER_EXEC) || boot->count_blocks;
    if (!status) {
        agent.stalker->family = &family;
        agent.stalker->tell_stacks = true;
        agent.stalker->tell_sites = agent.written != 0;
        agent.stalker->take = take;
        agent.stalker->trusts_files = boot->trust == 1;
        status = ct_stalker_set_trust_threshold(agent.stalker, boot->trust);
    }
    const uint64_t(*excluded)[2] = (const uint64_t(*)[2])boot->excluded;
    agent.native =
        boot->excluded_count ? ct_os_alloc(ct_tables.shared->target_capacity, CT_OS_READ | CT_OS_WRITE) : NULL;
    for (uint64_t i = 0; !status && i < boot->excluded_count; i++)
        status = ct_stalker_exclude(agent.stalker, excluded[i][0], excluded[i][1] - excluded[i][0]);
    return status;
}

/* A block reports all its instructions. */
static uint32_t mask_of(const struct ct_stalk_boot *boot) {
    bool blocks = boot->mask & CT_STALKER_EXEC || boot->count_blocks;
    return (boot->mask & ~(uint32_t)CT_STALKER_EXEC) | (blocks ? CT_STALKER_BLOCK : 0);
}

static int follow_thread(struct ct_stalk_boot_thread *thread, const struct ct_stalk_boot *boot) {
    const struct ct_stalker_transformer plain = {.size = sizeof plain};
    struct ct_stalker_sink sink = {.size = sizeof sink, .mask = mask_of(boot), .start = on_start, .stop = on_stop};
    if (boot->count_calls)
        sink.on_call_summary = on_call_summary;
    else if (sink.mask & CT_STALKER_ALL_EVENTS)
        sink.on_receive = on_receive;
    uint64_t block;
    int status = CT_OK;
    struct stalk_thread *t =
        ct_stalk_thread_make(agent.stalker, thread->tid, &plain, &sink, thread->block, &block, &status);
    if (!t)
        return status;
    ct_stalk_signals_take();
    t->area->busy = 0; /* whichever thread runs this: the controller moves it, or nobody does */
    t->begin = thread->pc;
    thread->pc = ct_stalk_helper(t->cache->regions, ct_stalk_begin);
    thread->block = block;
    return CT_OK;
}

static int start_stalker(struct ct_stalk_boot *boot) {
    struct ct_stalk_boot_thread *threads = (struct ct_stalk_boot_thread *)boot->threads;
    int status = make_stalker(boot);
    /* The controller sees each system call that is made here, which takes long. */
    ct_stalk_signals_may_wait = boot->thread_count == 1 && boot->follow_new_threads;
    ct_stalk_signals_take();
    ct_stalk_signals_may_wait = false;
    agent.keeping = 1;
    ct_stalk_signals_taken = 1;
    for (uint64_t i = 0; !status && i < boot->thread_count; i++)
        threads[i].status = follow_thread(&threads[i], boot);
    ct_stalk_signals_taken = 0;
    return status;
}

static bool is_listed(void *arg, int tid) {
    const struct ct_stalk_boot *boot = arg;
    const struct ct_stalk_boot_thread *threads = (const struct ct_stalk_boot_thread *)boot->threads;
    uint64_t i = 0;
    while (i < boot->thread_count && threads[i].tid != tid)
        i++;
    return i < boot->thread_count;
}

/* All threads are listed. */
static int unfollow_threads(struct ct_stalk_boot *boot) {
    struct ct_stalk_boot_thread *threads = (struct ct_stalk_boot_thread *)boot->threads;
    boot->inside = boot->followed = 0;
    if (!agent.stalker)
        return CT_OK;                       /* the controller that began was killed before it got further */
    agent.stalker->follow_children = false; /* otherwise there would be new ones each time */
    for (uint64_t i = 0; i < boot->thread_count; i++) {
        boot->inside += ct_stalk_is_inside(agent.stalker, threads[i].tid, threads[i].pc);
        threads[i].status = ct_stalk_let_go(agent.stalker, threads[i].tid, &threads[i].pc);
    }
    ct_stalk_let_go_gone(agent.stalker, is_listed, boot);
    boot->followed = __atomic_load_n(&agent.stalker->followed, __ATOMIC_ACQUIRE);
    return CT_OK;
}

void ct_stalk_signals_end(void); /* signal_x64.c */

/* Descriptions that were given to an unwinder stay, and refer to a function of ours. */
static bool is_known_to_unwinder(const struct ct_stalker *s) {
    for (const struct stalk_cache *c = s ? s->caches : NULL; c; c = c->next)
        if (c->unwind)
            return true;
    return s && s->empty; /* caches that are kept for that */
}

static int end_stalker(struct ct_stalk_boot *boot) {
    boot->inside = is_known_to_unwinder(agent.stalker);
    int status = agent.stalker ? ct_stalk_destroy(agent.stalker) : CT_OK;
    if (status)
        return status;
    agent.stalker = NULL;
    agent.keeping = 0;
    ct_stalk_signals_end();
    ct_stalk_threads_end(); /* the controller has cleared the register */
    for (uint32_t i = 0; i < FOLLOWERS && agent.followers[i]; i++) {
        ct_follower_forget_stacks(agent.followers[i]);
        (void)ct_os_free(agent.followers[i], sizeof *agent.followers[i]);
    }
    if (agent.native)
        (void)ct_os_free(agent.native, ct_tables.shared->target_capacity);
    if (agent.numbers)
        (void)ct_os_free(agent.numbers, SITES * sizeof *agent.numbers);
    return CT_OK;
}

__attribute__((visibility("default"), used)) uint64_t ct_stalk_agent_run(struct ct_stalk_boot *boot);

uint64_t ct_stalk_agent_run(struct ct_stalk_boot *boot) {
    boot->status = boot->magic != CT_STALK_BOOT_MAGIC   ? CT_ERR_UNSUPPORTED
                   : boot->command == CT_STALK_START    ? start_stalker(boot)
                   : boot->command == CT_STALK_UNFOLLOW ? unfollow_threads(boot)
                   : boot->command == CT_STALK_END      ? end_stalker(boot)
                                                        : CT_ERR_INVALID_ARGUMENT;
    return (uint64_t)(int64_t)boot->status;
}

/* The agent that follows threads: the Stalker inside another process, its events into the index lane.
 *
 * Entered by the controller, from outside, while every thread stands still. Calls and returns become events of the lane as a
 * stub would write them; blocks and call targets are counted in tables that are shared, so that they outlive the process.
 * Freestanding. The sink runs on the followed thread, one follower per thread; tables are changed by atomic operations. */
#include "abi/stalk_abi.h"
#include "agent/lane.h"
#include "agent/mail.h"
#include "isa/x64/decode.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/internal.h"

#define MAX_OPEN  (1u << 18)
#define NOWHERE   UINT32_MAX
#define FOLLOWERS 1024u
#define CACHED    512u  /* targets that a follower finds at once, */
#define BLOCKS    2048u /* and blocks */
#define SITES     (1u << 22)
#define GONE      4095u /* times that code was unmapped, */
#define SAME_GONE 16u   /* and of the same place */
#define PATIENCE  20000 /* turns of waiting for the controller's look at new code */

struct frame {
    uint32_t number;
    int32_t depth;
};

/* Counts of these are added to the tables when they make room for others, and at the end of a batch. */
struct cached {
    uint64_t key;
    uint32_t number, count;
};

struct cached_block {
    uint64_t start, end, count;
};

/* Where code was unmapped. */
struct gone {
    uint64_t start, end;
    bool fresh; /* nobody has looked there since */
};

/* A followed thread, as the lane sees it. */
struct follower {
    struct ct_block block; /* only what the lane needs of it */
    int32_t tid;
    uint32_t open;
    uint64_t stamp;              /* of the last call, or of the batch */
    uint32_t epoch;              /* gone_count as of what is cached */
    struct cached cache[CACHED]; /* by their address's low bits */
    struct cached_block blocks[BLOCKS];
    struct frame frames[MAX_OPEN];
};

static struct {
    struct ct_stalker *stalker;
    struct ct_stalk_tables *tables;
    struct ct_stalk_target *targets;
    struct ct_stalk_place *blocks;
    struct follower *followers[FOLLOWERS];
    uint8_t *native; /* by number of a target: NATIVE, FOLLOWED, 0: not known yet; with excluded ranges only */
    struct ct_stalk_code *code;
    uint8_t *lengths;
    uint32_t *numbers; /* of blocks in the table of code, plus 1, by their site's */
    uint32_t sites;    /* of these so many may be in use */
    uint32_t written;  /* events of blocks and instructions that are: CT_STALKER_BLOCK, EXEC, COMPILE */
    struct gone gone[GONE];
    uint32_t gone_count, gone_lock;
    bool returns;     /* are events */
    uint32_t keeping; /* signals: they stay ours until everybody is out, not only until the last one goes */
    int32_t pid;
} agent;
enum { FOLLOWED = 1, NATIVE = 2 };

/* ---- tables ---- */

static uint32_t hash(uint64_t address, uint32_t capacity) {
    return (uint32_t)(address * 0x9e3779b97f4a7c15ull >> 32) & (capacity - 1);
}

/* Where a call ends up: behind the jump of a linkage table, if it is bound already; 0: not yet. */
static uint64_t function_at(uint64_t key) {
    uint8_t code[16];
    uint64_t word = ct_os_peek(key, code, sizeof code) ? 0 : ct_x64_linkage_word(code, sizeof code, key), to;
    if (!word || ct_os_peek(word, &to, sizeof to))
        return key;
    return !ct_os_peek(to, code, sizeof code) && ct_x64_is_unbound(code, sizeof code) ? 0 : to;
}

static bool is_known(uint64_t address) {
    const struct ct_stalk_tables *t = agent.tables;
    uint32_t count = __atomic_load_n(&t->range_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count; i++)
        if (address - __atomic_load_n(&t->ranges[i][0], __ATOMIC_RELAXED) <
            __atomic_load_n(&t->ranges[i][1], __ATOMIC_RELAXED) - __atomic_load_n(&t->ranges[i][0], __ATOMIC_RELAXED))
            return true;
    return count >= CT_STALK_RANGES; /* too many to know */
}

/* The last time that what lay there was unmapped; NULL: never. Newer ones come last. */
static struct gone *gone_at(uint64_t address) {
    for (uint32_t i = __atomic_load_n(&agent.gone_count, __ATOMIC_ACQUIRE); i-- > 0;)
        if (address - agent.gone[i].start < agent.gone[i].end - agent.gone[i].start)
            return &agent.gone[i];
    return NULL;
}

/* An address's key: what is loaded where something else was is not the same. */
static uint64_t key_of(uint64_t address) {
    const struct gone *g = gone_at(address);
    return address | (g ? CT_STALK_AGAIN((uint64_t)(g - agent.gone) + 1) : 0);
}

static void wait_for_look(uint64_t address, bool fresh) {
    const struct ct_shm_control *c = ct_lane_control();
    struct ct_stalk_tables *t = agent.tables;
    uint64_t looks = __atomic_load_n(&t->looks, __ATOMIC_ACQUIRE), nobody = 0;
    for (unsigned i = 0; i < PATIENCE && (fresh || !is_known(address)); i++) {
        if (!__atomic_load_n(&c->listening, __ATOMIC_ACQUIRE) || !ct_lane_is_recording())
            return;
        if (__atomic_load_n(&t->looks, __ATOMIC_ACQUIRE) > looks + 1)
            return; /* the second has begun after we came, and has not found it */
        (void)__atomic_compare_exchange_n(&t->asked, &nobody, address, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
        nobody = 0;
        ct_lane_wait();
    }
}

/* Code that came after us: the controller looks at it while it is still there. */
static void introduce(uint64_t address) {
    struct gone *gone = gone_at(address);
    bool fresh = gone && __atomic_load_n(&gone->fresh, __ATOMIC_ACQUIRE);
    wait_for_look(address, fresh);
    if (fresh)
        __atomic_store_n(&gone->fresh, false, __ATOMIC_RELEASE);
}

/* A key's place in the table; NOWHERE: it is full. */
static uint32_t place_of(uint64_t key) {
    uint32_t capacity = agent.tables->target_capacity, i = hash(key, capacity);
    for (uint32_t n = 0; n < capacity / 2; n++, i = (i + 1) & (capacity - 1)) {
        struct ct_stalk_target *t = &agent.targets[i];
        uint64_t there = __atomic_load_n(&t->key, __ATOMIC_ACQUIRE);
        if (!there) {
            introduce(CT_STALK_ADDRESS(key));
            if (__atomic_compare_exchange_n(&t->key, &there, key, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
                there = key;
        }
        if (there == key)
            return i;
    }
    __atomic_fetch_add(&agent.tables->full, 1, __ATOMIC_RELAXED);
    return NOWHERE;
}

/* The number of a call's target. It means one function for ever: calls of a linkage table's stub that is not bound yet have
 * another one. *bound: it will stay this one. */
static uint32_t number_of(uint64_t to, bool *bound) {
    uint64_t key = key_of(to);
    uint32_t i = place_of(key);
    struct ct_stalk_target *t = &agent.targets[i];
    *bound = true;
    if (i == NOWHERE || __atomic_load_n(&t->address, __ATOMIC_RELAXED))
        return i;
    uint64_t address = function_at(to);
    *bound = address != 0;
    if (!address)
        return place_of(key | CT_STALK_UNBOUND);
    introduce(address);
    __atomic_store_n(&t->address, address, __ATOMIC_RELEASE);
    return i;
}

static void count_target(uint64_t to, uint64_t count) {
    bool bound;
    uint32_t i = number_of(to, &bound);
    if (i != NOWHERE)
        __atomic_fetch_add(&agent.targets[i].count, count, __ATOMIC_RELAXED);
}

static void flush_target(struct cached *c) {
    if (c->count)
        __atomic_fetch_add(&agent.targets[c->number].count, c->count, __ATOMIC_RELAXED);
    c->count = 0;
}

/* Of a call that is counted. */
static uint32_t number_for(struct follower *f, uint64_t key) {
    struct cached *c = &f->cache[(key ^ key >> 9) & (CACHED - 1)];
    if (c->key != key) {
        bool bound;
        uint32_t number = number_of(key, &bound);
        if (!bound && number != NOWHERE)
            __atomic_fetch_add(&agent.targets[number].count, 1, __ATOMIC_RELAXED);
        if (!bound || number == NOWHERE)
            return number;
        flush_target(c);
        *c = (struct cached){key, number, 0};
    }
    c->count++;
    return c->number;
}

static void add_to_block(uint64_t start, uint64_t end, uint64_t count) {
    uint64_t key = key_of(start);
    uint32_t capacity = agent.tables->block_capacity, i = hash(key, capacity);
    for (uint32_t n = 0; n < 4096; n++, i = (i + 1) & (capacity - 1)) {
        struct ct_stalk_place *b = &agent.blocks[i];
        uint64_t there = __atomic_load_n(&b->start, __ATOMIC_RELAXED);
        if (!there) {
            introduce(start);
            if (__atomic_compare_exchange_n(&b->start, &there, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                there = key;
        }
        if (there != key)
            continue;
        if (end > b->end) /* one that was left in the middle is no shorter block */
            b->end = end;
        __atomic_fetch_add(&b->count, count, __ATOMIC_RELAXED);
        return;
    }
    __atomic_fetch_add(&agent.tables->full, 1, __ATOMIC_RELAXED);
}

static void flush_block(struct cached_block *c) {
    if (c->count)
        add_to_block(c->start, c->end, c->count);
    c->count = 0;
}

static void count_block(struct follower *f, uint64_t start, uint64_t end) {
    struct cached_block *c = &f->blocks[(start ^ start >> 11) & (BLOCKS - 1)];
    if (c->start != start) {
        flush_block(c);
        *c = (struct cached_block){start, end, 0};
    }
    if (end > c->end)
        c->end = end;
    c->count++;
}

static void flush(struct follower *f, bool blocks) {
    for (uint32_t i = 0; i < CACHED; i++)
        flush_target(&f->cache[i]);
    for (uint32_t i = 0; blocks && i < BLOCKS; i++)
        flush_block(&f->blocks[i]);
}

/* ---- followers ---- */

/* For a thread that is new: one whose thread has ended, or another. */
static struct follower *take_follower(int tid) {
    for (uint32_t i = 0; i < FOLLOWERS; i++) {
        struct follower *f = __atomic_load_n(&agent.followers[i], __ATOMIC_ACQUIRE), *none = NULL;
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

static struct follower *find_follower(int tid) {
    for (uint32_t i = 0; i < FOLLOWERS; i++) {
        struct follower *f = __atomic_load_n(&agent.followers[i], __ATOMIC_ACQUIRE);
        if (!f)
            break;
        if (__atomic_load_n(&f->tid, __ATOMIC_RELAXED) == tid)
            return f;
    }
    return NULL;
}

static void begin_follower(struct follower *f) {
    f->block.tid = f->tid;
    f->block.event_bit = ct_lane_control()->chunk_bytes;
    f->block.base =
        (struct ct_shadow *)(uintptr_t)sizeof(struct ct_shadow); /* never followed: depths are differences */
    f->block.top = f->block.base + 1;
    ct_event_begin(&f->block);
}

static struct follower *follower_of(int tid) {
    struct follower *f = find_follower(tid);
    if (f || !(f = take_follower(tid)))
        return f;
    begin_follower(f);
    return f;
}

/* The frame is counted as open while its event is written: the lane tells depths in its chunks. */
static void write(struct follower *f, uint32_t number, uint32_t kind, uint64_t stamp) {
    f->block.top = f->block.base + 1 + f->open;
    struct ct_event *e = ct_event_reserve(&f->block, kind, NULL);
    if (!e)
        return;
    e->hook = number;
    e->kind = kind;
    __atomic_store_n(&e->timestamp, stamp ? stamp : ct_os_timestamp(), __ATOMIC_RELEASE);
}

/* ---- blocks that are written ---- */

/* A new place in the table of code; NOWHERE: it is full. */
static uint32_t define(uint64_t start, uint64_t end, const uint8_t *lengths, uint32_t insns) {
    struct ct_stalk_tables *t = agent.tables;
    uint64_t number = __atomic_fetch_add(&t->code_count, 1, __ATOMIC_RELAXED);
    uint64_t at = __atomic_fetch_add(&t->lengths_used, insns, __ATOMIC_RELAXED);
    if (number >= t->code_capacity || at + insns > CT_STALK_LENGTHS)
        return NOWHERE;
    introduce(start);
    for (uint32_t i = 0; i < insns; i++)
        agent.lengths[at + i] = lengths[i];
    agent.code[number] =
        (struct ct_stalk_code){.start = start, .size = (uint32_t)(end - start), .insns = insns, .lengths = at};
    return (uint32_t)number;
}

static uint32_t number_of_site(uint32_t id, const struct stalk_site *site) {
    if (id >= SITES)
        return NOWHERE;
    uint32_t number = __atomic_load_n(&agent.numbers[id], __ATOMIC_ACQUIRE);
    if (number)
        return number - 1;
    number = define(site->location, site->target, site->lengths, site->insns);
    if (number == NOWHERE)
        return NOWHERE;
    __atomic_store_n(&agent.numbers[id], number + 1, __ATOMIC_RELEASE);
    if (id >= __atomic_load_n(&agent.sites, __ATOMIC_RELAXED))
        __atomic_store_n(&agent.sites, id + 1, __ATOMIC_RELAXED);
    return number;
}

static uint32_t executed(const struct stalk_site *site, uint64_t end) {
    uint32_t n = 0;
    for (uint64_t pc = site->location; n < site->insns && pc < end; n++)
        pc += site->lengths[n];
    return n;
}

/* How many instructions it is. */
static uint32_t write_block(struct follower *f, const struct ct_stalker_event *e) {
    const struct stalk_site *site = ct_stalk_item(&agent.stalker->caches->sites, (uint32_t)e->depth);
    uint32_t n = executed(site, e->target), number = number_of_site((uint32_t)e->depth, site);
    if (number == NOWHERE)
        __atomic_fetch_add(&agent.tables->full, 1, __ATOMIC_RELAXED);
    write(f, number,
          n < site->insns && number != NOWHERE ? CT_SHM_EVENT_PART | n * CT_TAG_STEP : (uint32_t)CT_SHM_EVENT_BLOCK,
          f->stamp);
    return n;
}

static void write_compiled(struct follower *f, const struct ct_stalker_event *e) {
    write(f, define(e->location, e->target, NULL, 0), CT_SHM_EVENT_COMPILED, f->stamp);
}

static bool is_excluded(uint64_t address) {
    return ct_stalk_excluded(agent.stalker, address);
}

/* A call that nobody could see the return of: it ran natively, or returns are not asked for. */
static bool is_unseen(uint32_t number) {
    if (!agent.returns)
        return true;
    if (number == NOWHERE || !agent.native)
        return false;
    if (!agent.native[number]) {
        uint64_t key = CT_STALK_ADDRESS(agent.targets[number].key);
        agent.native[number] = is_excluded(key) || is_excluded(function_at(key)) ? NATIVE : FOLLOWED;
    }
    return agent.native[number] == NATIVE;
}

/* Frames at this depth and deeper were left without a return. */
static void leave_frames(struct follower *f, int32_t depth, uint64_t stamp) {
    while (f->open && f->frames[f->open - 1].depth >= depth) {
        uint32_t number = f->frames[f->open - 1].number;
        write(f, number, is_unseen(number) ? CT_EVENT_RETURN : CT_EVENT_EXCEPTION, stamp);
        f->open--;
    }
}

static void enter_frame(struct follower *f, const struct ct_stalker_event *e) {
    leave_frames(f, e->depth, e->timestamp);
    if (f->open == MAX_OPEN)
        return;
    uint32_t number = number_for(f, e->target);
    f->frames[f->open].number = number;
    f->frames[f->open++].depth = e->depth;
    write(f, number, CT_EVENT_CALL, e->timestamp);
}

static void return_from_frame(struct follower *f, const struct ct_stalker_event *e) {
    leave_frames(f, e->depth, e->timestamp);
    if (!f->open || f->frames[f->open - 1].depth != e->depth - 1)
        return; /* it was entered before we came */
    write(f, f->frames[f->open - 1].number, CT_EVENT_RETURN, e->timestamp);
    f->open--;
}

static void forget_numbers(struct follower *f) {
    for (uint32_t i = 0; i < CACHED; i++)
        f->cache[i] = (struct cached){0};
    for (uint32_t i = 0; i < BLOCKS; i++)
        f->blocks[i] = (struct cached_block){0};
}

/* Between batches nothing is counted there. */
static void forget_old_numbers(struct follower *f) {
    uint32_t epoch = __atomic_load_n(&agent.gone_count, __ATOMIC_ACQUIRE);
    if (f->epoch != epoch)
        forget_numbers(f);
    f->epoch = epoch;
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

/* Events of a child that a followed thread has forked are nobody's; nor are they when the recorder is gone. */
static bool is_wanted(void) {
    bool ours = ct_os_getpid() == agent.pid;
    if (ours && ct_lane_is_recording())
        return true;
    if (ours)
        keep_no_signals(); /* nobody will come to end this */
    else
        __atomic_fetch_add(&agent.tables->forked, 1, __ATOMIC_RELAXED);
    stop_following();
    return false;
}

/* Without the Stalker's lock, which the engine may hold: numbers that are a little old will do. */
static void tell_statistics(void) {
    const struct ct_stalker_statistics *s = &agent.stalker->statistics;
    agent.tables->blocks = s->blocks;
    agent.tables->fragments = s->fragments;
    agent.tables->original_bytes = s->original_bytes;
    agent.tables->code_bytes = s->code_bytes;
}

static void on_receive(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    (void)user;
    struct follower *f = is_wanted() ? follower_of(tid) : NULL;
    uint64_t seen[8] = {0};
    if (!f)
        return;
    forget_old_numbers(f);
    f->stamp = ct_os_timestamp();
    for (size_t i = 0; i < count; i++) {
        const struct ct_stalker_event *e = &events[i];
        seen[bit_of(e->kind)]++;
        if (e->timestamp)
            f->stamp = e->timestamp;
        if (e->kind == CT_STALKER_CALL)
            enter_frame(f, e);
        else if (e->kind == CT_STALKER_RET)
            return_from_frame(f, e);
        else if (e->kind == CT_STALKER_BLOCK) {
            count_block(f, e->location, e->target);
            if (agent.written & (CT_STALKER_BLOCK | CT_STALKER_EXEC))
                seen[bit_of(CT_STALKER_EXEC)] += write_block(f, e);
        } else if (e->kind == CT_STALKER_COMPILE && agent.written & CT_STALKER_COMPILE) {
            write_compiled(f, e);
        }
    }
    for (unsigned i = 0; i < 8; i++)
        __atomic_fetch_add(&agent.tables->events[i], seen[i], __ATOMIC_RELAXED);
    flush(f, seen[bit_of(CT_STALKER_BLOCK)] != 0);
    tell_statistics();
}

static void on_call_summary(void *user, int tid, const struct ct_stalker_call_count *counts, size_t count) {
    (void)user;
    if (!is_wanted() || !follower_of(tid))
        return;
    for (size_t i = 0; i < count; i++) {
        count_target(counts[i].target, counts[i].count);
        __atomic_fetch_add(&agent.tables->events[bit_of(CT_STALKER_CALL)], counts[i].count, __ATOMIC_RELAXED);
    }
}

static void on_start(void *user, int tid) {
    (void)user;
    (void)tid;
    __atomic_fetch_add(&agent.tables->started, 1, __ATOMIC_RELAXED);
}

static void on_stop(void *user, int tid, int status) {
    (void)user;
    if (ct_os_getpid() != agent.pid)
        return;
    __atomic_fetch_add(&agent.tables->stopped, 1, __ATOMIC_RELAXED);
    if (status) {
        __atomic_fetch_add(&agent.tables->left, 1, __ATOMIC_RELAXED);
        keep_no_signals(); /* it may be about to forbid itself the system calls that we make for each */
    }
    tell_statistics();
    struct follower *f = find_follower(tid);
    if (!f)
        return;
    ct_event_drain(&f->block);
    f->open = 0;
    __atomic_store_n(&f->tid, 0, __ATOMIC_RELEASE); /* its memory is for another thread */
}

/* ---- processes ---- */

/* Is a process that is about to be made to be followed? */
static bool wants_children(void) {
    const struct ct_shm_control *c = ct_lane_control();
    ct_mail_note_fork();
    return c->children && c->listening && ct_lane_is_recording();
}

/* Numbers are the parent's, the table is not there any more: what they stood for. NULL: nothing is open, or there is no memory. */
static uint64_t *keys_of_frames(const struct follower *f) {
    uint64_t *keys = f && f->open ? ct_os_alloc(f->open * sizeof *keys, CT_OS_READ | CT_OS_WRITE) : NULL;
    for (uint32_t i = 0; keys && i < f->open; i++) {
        uint32_t number = f->frames[i].number;
        keys[i] = number == NOWHERE ? 0 : CT_STALK_ADDRESS(agent.targets[number].key);
    }
    return keys;
}

static void number_frames_anew(struct follower *f, uint64_t *keys) {
    bool bound;
    for (uint32_t i = 0; keys && i < f->open; i++)
        f->frames[i].number = keys[i] ? number_of(keys[i], &bound) : NOWHERE;
    if (!keys)
        f->open = 0;
}

/* Tables and lane are the child's own, and empty; of the followers one is left. */
static void begin_in_child(struct follower *own, int tid) {
    agent.pid = ct_os_getpid();
    for (uint32_t i = 0; i < FOLLOWERS && agent.followers[i]; i++) {
        forget_numbers(agent.followers[i]);
        agent.followers[i]->tid = 0;
    }
    for (uint32_t i = 0; agent.native && i < agent.tables->target_capacity; i++)
        agent.native[i] = 0;
    for (uint32_t i = 0; i < agent.sites; i++)
        agent.numbers[i] = 0;
    agent.sites = 0;
    if (own) {
        own->tid = tid;
        begin_follower(own);
    }
}

static bool on_forked(int before, int tid) {
    struct follower *f = find_follower(before);
    uint64_t *keys = keys_of_frames(f);
    uint32_t open = f ? f->open : 0;
    bool followed = ct_mail_forked();
    if (followed) {
        begin_in_child(f, tid);
        if (f)
            number_frames_anew(f, keys);
    } else {
        __atomic_fetch_add(&agent.tables->forked, 1, __ATOMIC_RELAXED);
    }
    if (keys)
        (void)ct_os_free(keys, open * sizeof *keys);
    return followed;
}

static uint32_t times_gone(uint64_t start, uint64_t end) {
    uint32_t times = 0;
    for (uint32_t i = 0; i < agent.gone_count; i++)
        times += agent.gone[i].start == start && agent.gone[i].end == end;
    return times;
}

/* Names are found anew for what is loaded there next. A library that comes and goes without end shall not fill the tables. */
static void on_unmapped(uint64_t start, uint64_t end) {
    while (__atomic_exchange_n(&agent.gone_lock, 1, __ATOMIC_ACQUIRE)) /* released below */
        ct_lane_wait();
    if (agent.gone_count < GONE && times_gone(start, end) < SAME_GONE) {
        agent.gone[agent.gone_count] = (struct gone){start, end, true};
        __atomic_fetch_add(&agent.tables->unmapped, 1, __ATOMIC_RELEASE);
        __atomic_store_n(&agent.gone_count, agent.gone_count + 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&agent.gone_lock, 0, __ATOMIC_RELEASE);
}

static const struct stalk_family family = {
    .wants = wants_children, .forked = on_forked, .executes = ct_mail_executes, .unmapped = on_unmapped};

/* ---- what the controller asks for ---- */

static int make_stalker(const struct ct_stalk_boot *boot) {
    struct ct_shm_control *c = (struct ct_shm_control *)boot->shm;
    if (!ct_lane_open(boot->shm))
        return CT_ERR_BAD_FILE;
    agent.pid = boot->pid;
    agent.returns = boot->mask & CT_STALKER_RET;
    agent.tables = (struct ct_stalk_tables *)(boot->shm + c->extra_offset);
    agent.targets = (struct ct_stalk_target *)((uint64_t)agent.tables + agent.tables->targets_offset);
    agent.blocks = (struct ct_stalk_place *)((uint64_t)agent.tables + agent.tables->blocks_offset);
    if (agent.tables->code_offset) {
        agent.written = boot->mask & (CT_STALKER_BLOCK | CT_STALKER_EXEC | CT_STALKER_COMPILE);
        agent.code = (struct ct_stalk_code *)((uint64_t)agent.tables + agent.tables->code_offset);
        agent.lengths = (uint8_t *)((uint64_t)agent.tables + agent.tables->lengths_offset);
        agent.numbers = ct_os_alloc(SITES * sizeof *agent.numbers, CT_OS_READ | CT_OS_WRITE);
        if (!agent.numbers)
            return CT_ERR_NO_MEMORY;
    }
    struct ct_stalker_options options = {.queue_capacity = boot->queue_capacity,
                                         .drain_interval_ms = boot->drain_interval_ms,
                                         .follow_children = (int)boot->follow_new_threads};
    for (unsigned i = 0; i < STALK_FUNCTIONS; i++)
        ct_stalk_functions[i] = i == STALK_DEREGISTER ? 0 : boot->functions[i]; /* not while threads stand still */
    int status = ct_stalker_create(&agent.stalker, &options);
    if (!status)
        agent.stalker->keeps_sites = boot->mask & (CT_STALKER_BLOCK | CT_STALKER_EXEC) || boot->count_blocks;
    if (!status) {
        agent.stalker->family = &family;
        agent.stalker->tell_sites = agent.written != 0;
        status = ct_stalker_set_trust_threshold(agent.stalker, boot->trust);
    }
    const uint64_t(*excluded)[2] = (const uint64_t(*)[2])boot->excluded;
    agent.native = boot->excluded_count ? ct_os_alloc(agent.tables->target_capacity, CT_OS_READ | CT_OS_WRITE) : NULL;
    for (uint64_t i = 0; !status && i < boot->excluded_count; i++)
        status = ct_stalker_exclude(agent.stalker, excluded[i][0], excluded[i][1] - excluded[i][0]);
    return status;
}

/* A block tells of all its instructions. */
static uint32_t mask_of(const struct ct_stalk_boot *boot) {
    bool blocks = boot->mask & CT_STALKER_EXEC || boot->count_blocks;
    return (boot->mask & ~(uint32_t)CT_STALKER_EXEC) | (blocks ? CT_STALKER_BLOCK : 0);
}

static int follow(struct ct_stalk_boot_thread *thread, const struct ct_stalk_boot *boot) {
    struct ct_stalker_sink sink = {.mask = mask_of(boot), .start = on_start, .stop = on_stop};
    if (boot->count_calls)
        sink.on_call_summary = on_call_summary;
    else if (sink.mask & CT_STALKER_ALL_EVENTS)
        sink.on_receive = on_receive;
    uint64_t block;
    int status = CT_OK;
    struct stalk_thread *t =
        ct_stalk_thread_make(agent.stalker, thread->tid, NULL, &sink, thread->gs_base, &block, &status);
    if (!t)
        return status;
    ct_stalk_signals_take();
    t->begin = thread->pc;
    thread->pc = ct_stalk_helper(t->cache->regions, ct_stalk_begin);
    thread->gs_base = block;
    return CT_OK;
}

static int start(struct ct_stalk_boot *boot) {
    struct ct_stalk_boot_thread *threads = (struct ct_stalk_boot_thread *)boot->threads;
    int status = make_stalker(boot);
    ct_stalk_signals_take();
    agent.keeping = 1;
    for (uint64_t i = 0; !status && i < boot->thread_count; i++)
        threads[i].status = follow(&threads[i], boot);
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
static int unfollow(struct ct_stalk_boot *boot) {
    struct ct_stalk_boot_thread *threads = (struct ct_stalk_boot_thread *)boot->threads;
    boot->inside = boot->followed = 0;
    if (!agent.stalker)
        return CT_OK;                       /* who began here was killed before it got further */
    agent.stalker->follow_children = false; /* or there would be new ones each time */
    for (uint64_t i = 0; i < boot->thread_count; i++) {
        boot->inside += ct_stalk_is_inside(agent.stalker, threads[i].tid, threads[i].pc);
        threads[i].status = ct_stalk_let_go(agent.stalker, threads[i].tid, &threads[i].pc);
    }
    ct_stalk_let_go_gone(agent.stalker, is_listed, boot);
    boot->followed = __atomic_load_n(&agent.stalker->followed, __ATOMIC_ACQUIRE);
    return CT_OK;
}

void ct_stalk_signals_end(void); /* signal_x64.c */

static int end(void) {
    int status = agent.stalker ? ct_stalker_destroy(agent.stalker) : CT_OK;
    if (status)
        return status;
    agent.stalker = NULL;
    agent.keeping = 0;
    ct_stalk_signals_end();
    for (uint32_t i = 0; i < FOLLOWERS && agent.followers[i]; i++)
        (void)ct_os_free(agent.followers[i], sizeof *agent.followers[i]);
    if (agent.native)
        (void)ct_os_free(agent.native, agent.tables->target_capacity);
    if (agent.numbers)
        (void)ct_os_free(agent.numbers, SITES * sizeof *agent.numbers);
    return CT_OK;
}

__attribute__((visibility("default"), used)) uint64_t ct_stalk_agent_run(struct ct_stalk_boot *boot);

uint64_t ct_stalk_agent_run(struct ct_stalk_boot *boot) {
    boot->status = boot->magic != CT_STALK_BOOT_MAGIC   ? CT_ERR_UNSUPPORTED
                   : boot->command == CT_STALK_START    ? start(boot)
                   : boot->command == CT_STALK_UNFOLLOW ? unfollow(boot)
                   : boot->command == CT_STALK_END      ? end()
                                                        : CT_ERR_INVALID_ARGUMENT;
    return (uint64_t)(int64_t)boot->status;
}

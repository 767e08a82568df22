/* SPDX-License-Identifier: Apache-2.0 */
/* The index lane: where recorded events go. Replaces hook/event.c inside the agent.
 *
 * A thread's cursor (hook/layout.h) alone says which chunk the thread has. It is one word, which a stub adds to and
 * only a compare-and-swap replaces:
 *     an address in the pool, bit `chunk_bytes` set     the next slot of the active chunk
 *     an address in the pool, bit clear                 the active chunk, which is the window before, is full
 *     NO_CHUNK | number << 20                           there is none; `number` was the last one
 *     0                                                 a forked child: nothing may be written
 * A signal handler may come at any instruction, find the chunk full and put a new one in place: then the
 * compare-and-swap of the interrupted swap fails, and it gives its chunk back. There is no lock, no signal is blocked,
 * and no system call is made (except to wait for a chunk). Everything here runs on the thread that owns the block,
 * except ct_event_drain, whose thread has ended.
 *
 * A thread without a chunk takes a free one. If there is none, it waits, as long as it may (for ever in lossless mode,
 * else for a part of each second). Then it drops the oldest chunk that was submitted and that the controller has not
 * claimed yet. No step looks at more than a few chunks: the lists of abi/shm_abi.h lead there. */
#include "agent/agent_lane.h"
#include "agent/agent_detail.h"
#include "os/os.h"
#include "os/own_words.h"
#include "os/thread.h"

#define NO_CHUNK     (1ull << 63)
#define NUMBER_SHIFT 20
#define CHANGED      (1ull << 32) /* one change of the list of free chunks */
#define SPINS        64u
#define WAIT_US      50u
#define WAITS_ALIKE  4u
enum { WAIT_DOUBLINGS = 8 };

static struct {
    struct ct_shm_control *control;
    struct ct_shm_thread *threads;
    struct ct_shm_chunk *chunks;
    struct ct_shm_queue *queue;
    uint32_t *free_list; /* of the queue, like `submitted` */
    uint64_t *submitted;
    uint32_t room; /* of these lists */
    uint64_t pool, pool_end;
    uint64_t bytes; /* of a chunk */
    uint32_t count;
    int32_t pid;      /* the process that the events belong to: a child has this memory too */
    uint32_t stopped; /* the controller has died */
    const struct ct_boot_code *code;
} lane;

bool ct_agent_lane_open(uint64_t shm) {
    struct ct_shm_control *c = (struct ct_shm_control *)shm;
    if (c->magic != CT_SHM_MAGIC || c->version != CT_SHM_VERSION)
        return false;
    lane.stopped = 0;
    lane.pid = ct_os_getpid();
    lane.control = c;
    lane.threads = (struct ct_shm_thread *)(shm + c->threads_offset);
    lane.chunks = (struct ct_shm_chunk *)(shm + c->chunks_offset);
    lane.queue = (struct ct_shm_queue *)(shm + c->queue_offset);
    lane.room = c->queue_room;
    lane.free_list = (uint32_t *)(lane.queue + 1);
    lane.submitted = (uint64_t *)(lane.free_list + lane.room);
    lane.pool = shm + c->pool_offset;
    lane.bytes = c->chunk_bytes;
    lane.count = c->chunk_count;
    lane.pool_end = lane.pool + 2 * lane.bytes * lane.count;
    ct_agent_detail_open(shm);
    return true;
}

void ct_agent_lane_set_code(const struct ct_boot_code *code) {
    lane.code = code;
}

static bool is_in_regions(const struct ct_boot_code *code, uint64_t at, uint64_t size) {
    const struct ct_boot_region *regions = (const struct ct_boot_region *)code->regions;
    for (uint64_t i = 0; i < code->region_count; i++)
        if (at >= regions[i].start && at - regions[i].start <= regions[i].size - size)
            return true;
    return false;
}

bool ct_agent_lane_holds_stubs(uint64_t at, uint64_t size) {
    for (const struct ct_boot_code *code = lane.code; code; code = (const struct ct_boot_code *)code->next)
        if (is_in_regions(code, at, size))
            return true;
    return false;
}

struct ct_shm_control *ct_agent_lane_control(void) {
    return lane.control;
}

/* ---- the controller's death ---- */

static bool controller_died(void) {
    return __atomic_load_n(&lane.control->liveness, __ATOMIC_RELAXED) & CT_SHM_OWNER_DIED;
}

static bool protect_regions(const struct ct_boot_code *code, int prot) {
    const struct ct_boot_region *regions = (const struct ct_boot_region *)code->regions;
    for (uint64_t i = 0; i < code->region_count; i++)
        if (ct_os_is_silent() || ct_os_protect((void *)regions[i].start, regions[i].size, prot))
            return false;
    return true;
}

/* The program goes on as fast as it can: stubs lead straight to their bodies. Where code may not be changed, stubs stay
 * on, and find each time that nobody reads. */
static void switch_stubs_off(void) {
    for (const struct ct_boot_code *code = lane.code; code; code = (const struct ct_boot_code *)code->next) {
        const struct ct_boot_stub *stubs = (const struct ct_boot_stub *)code->stubs;
        if (!protect_regions(code, CT_OS_READ | CT_OS_WRITE | CT_OS_EXEC))
            return;
        for (uint64_t i = 0; i < code->stub_count; i++) {
            __atomic_store_n((uint64_t *)stubs[i].address, stubs[i].word_off, __ATOMIC_RELAXED);
            ct_os_sync_code(stubs[i].address, sizeof stubs[i].word_off);
        }
        (void)protect_regions(code, CT_OS_READ | CT_OS_EXEC);
    }
}

/* One store each, as above. Where memory may not be both writable and executable, the kernel writes it; nobody else
 * writes these bytes at that moment. */
static void store_code(const struct ct_boot_region *region, bool writable) {
    uint64_t offset, word;
    for (unsigned i = 0; ct_switch_word(i, &offset, &word); i++)
        if (writable) {
            __atomic_store_n((uint64_t *)(region->start + offset), word, __ATOMIC_RELAXED);
            ct_os_sync_code(region->start + offset, sizeof word);
        } else {
            (void)ct_os_poke(region->start + offset, &word, sizeof word);
        }
}

void ct_agent_lane_switch_code(void) {
    for (const struct ct_boot_code *code = lane.code; code; code = (const struct ct_boot_code *)code->next) {
        const struct ct_boot_region *regions = (const struct ct_boot_region *)code->regions;
        bool writable = protect_regions(code, CT_OS_READ | CT_OS_WRITE | CT_OS_EXEC);
        for (uint64_t i = 0; i < code->region_count; i++)
            store_code(&regions[i], writable);
        (void)protect_regions(code, CT_OS_READ | CT_OS_EXEC);
    }
}

static bool is_recording(void) {
    if (__atomic_load_n(&lane.stopped, __ATOMIC_RELAXED))
        return false;
    if (!controller_died())
        return __atomic_load_n(&lane.control->recording, __ATOMIC_RELAXED);
    if (!__atomic_exchange_n(&lane.stopped, 1, __ATOMIC_RELAXED)) {
        lane.control->agent_error = CT_AGENT_CONTROLLER_DIED;
        lane.control->agent_state = CT_AGENT_STOPPED;
        switch_stubs_off();
    }
    return false;
}

bool ct_agent_lane_is_recording(void) {
    return is_recording();
}

/* ---- chunks ---- */

static struct ct_event *events_of(uint32_t chunk) {
    return (struct ct_event *)(lane.pool + (2 * (uint64_t)chunk + 1) * lane.bytes);
}

/* Is the cursor past the end of a chunk? */
static bool is_past_chunk(uint64_t cursor) {
    return cursor > lane.pool && cursor <= lane.pool_end + lane.bytes && !(cursor & lane.bytes);
}

static uint32_t chunk_before(uint64_t cursor) {
    return (uint32_t)((cursor - lane.pool) / (2 * lane.bytes)) - 1;
}

static bool change_word(struct ct_shm_chunk *c, uint64_t from, uint64_t to) {
    return __atomic_compare_exchange_n(&c->word, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static bool change_count(uint64_t *count, uint64_t *from, uint64_t to) {
    return __atomic_compare_exchange_n(count, from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void clear_chunk(uint32_t chunk) {
    uint64_t *word = (uint64_t *)events_of(chunk), *end = word + lane.bytes / sizeof *word;
    while (word < end)
        *word++ = 0;
}

static void set_free(uint32_t chunk) {
    struct ct_shm_chunk *c = &lane.chunks[chunk];
    __atomic_store_n(&c->word, CT_CHUNK_WORD(CT_CHUNK_FREE, 0, CT_CHUNK_GENERATION(c->word)), __ATOMIC_RELEASE);
    uint64_t top = __atomic_load_n(&lane.queue->free_top, __ATOMIC_RELAXED);
    while ((uint32_t)top < lane.room) {
        __atomic_store_n(&lane.free_list[(uint32_t)top], chunk, __ATOMIC_RELAXED);
        if (change_count(&lane.queue->free_top, &top, top + CHANGED + 1))
            break;
    }
    __atomic_fetch_add(&lane.control->free_chunks, 1, __ATOMIC_RELAXED);
}

/* Makes the thread the owner. A chunk without a number is not read. */
static void claim_chunk(const struct ct_block *b, uint32_t chunk) {
    struct ct_shm_chunk *c = &lane.chunks[chunk];
    __atomic_store_n(&c->number, 0, __ATOMIC_RELEASE);
    c->thread = b->lane_slot;
    c->thread_generation = lane.threads[b->lane_slot].generation;
    __atomic_store_n(&c->generation, CT_CHUNK_GENERATION(c->word), __ATOMIC_RELEASE);
}

/* What a swap leaves if a handler jumps out of it: a chunk with the thread's slot in its word. */
static uint64_t taken_word(const struct ct_block *b, uint32_t generation) {
    return CT_CHUNK_WORD(CT_CHUNK_TAKEN, b->lane_slot, generation);
}

/* The note is written before the attempt: if it fails, the word is not the one that ct_event_abandon looks for. */
static bool try_chunk(const struct ct_block *b, uint32_t chunk, uint64_t word, uint64_t *note) {
    uint32_t generation = CT_CHUNK_GENERATION(word) + 1;
    *note = (uint64_t)generation << 32 | chunk << 1 | 1;
    return change_word(&lane.chunks[chunk], word, taken_word(b, generation));
}

static bool try_free(const struct ct_block *b, uint32_t chunk, uint64_t *note) {
    uint64_t word = __atomic_load_n(&lane.chunks[chunk].word, __ATOMIC_RELAXED);
    if (CT_CHUNK_STATE(word) != CT_CHUNK_FREE || !try_chunk(b, chunk, word, note))
        return false;
    claim_chunk(b, chunk);
    __atomic_fetch_sub(&lane.control->free_chunks, 1, __ATOMIC_RELAXED);
    return true;
}

/* An entry may be out of date: then the next one is tried. */
static long take_listed(const struct ct_block *b, uint64_t *note) {
    uint64_t top = __atomic_load_n(&lane.queue->free_top, __ATOMIC_ACQUIRE);
    while ((uint32_t)top - 1 < lane.room) {
        uint32_t chunk = __atomic_load_n(&lane.free_list[(uint32_t)top - 1], __ATOMIC_RELAXED);
        if (!change_count(&lane.queue->free_top, &top, top + CHANGED - 1))
            continue;
        if (chunk < lane.count && try_free(b, chunk, note))
            return chunk;
        top = __atomic_load_n(&lane.queue->free_top, __ATOMIC_ACQUIRE);
    }
    return -1;
}

/* A chunk that nobody has used yet. */
static long take_new(const struct ct_block *b, uint64_t *note) {
    uint32_t next = __atomic_load_n(&lane.control->hint, __ATOMIC_RELAXED);
    while (next < lane.count) {
        if (!__atomic_compare_exchange_n(&lane.control->hint, &next, next + 1, false, __ATOMIC_RELAXED,
                                         __ATOMIC_RELAXED))
            continue;
        if (try_free(b, next, note))
            return next;
        next = __atomic_load_n(&lane.control->hint, __ATOMIC_RELAXED);
    }
    return -1;
}

/* Chunks that should be listed and are not. If there is none, the count was wrong. */
static long search_free(const struct ct_block *b, uint64_t *note) {
    int32_t count = __atomic_load_n(&lane.control->free_chunks, __ATOMIC_RELAXED);
    if (count <= 0)
        return -1;
    for (uint32_t i = 0; i < lane.count; i++)
        if (try_free(b, i, note))
            return i;
    (void)__atomic_compare_exchange_n(&lane.control->free_chunks, &count, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return -1;
}

static long take_free(const struct ct_block *b, uint64_t *note) {
    long chunk = take_listed(b, note);
    if (chunk < 0)
        chunk = take_new(b, note);
    return chunk < 0 ? search_free(b, note) : chunk;
}

/* A stub that a handler interrupted may have reserved a slot that it has not filled yet: its chunk is not taken. */
static bool is_complete(uint32_t chunk) {
    const struct ct_event *e = events_of(chunk);
    for (uint64_t i = 0; i < lane.bytes / CT_EVENT_SIZE; i++)
        if (!__atomic_load_n(&e[i].timestamp, __ATOMIC_RELAXED))
            return false;
    return true;
}

/* What is to blame: a write that does not end, or a drain that cannot keep up. */
static enum ct_loss_reason lag_reason(void) {
    uint64_t since = __atomic_load_n(&lane.control->write_since, __ATOMIC_RELAXED);
    return since && ct_os_timestamp() - since > lane.control->slow_write ? CT_LOSS_DISK_SLOW : CT_LOSS_DRAIN_LAG;
}

static void count_loss(uint32_t thread, uint32_t generation, enum ct_loss_reason reason, uint64_t events) {
    struct ct_shm_thread *t = &lane.threads[thread];
    bool same = t->generation == generation;
    __atomic_fetch_add(same ? &t->lost[reason] : &lane.control->lost_unseen[reason], events, __ATOMIC_RELAXED);
}

/* `entry`: of the list of submitted chunks. Returns -1 if its chunk is no longer there, or cannot be dropped. */
static long drop_chunk(const struct ct_block *b, uint64_t entry, uint64_t *note) {
    uint32_t chunk = (uint32_t)entry;
    if (chunk >= lane.count)
        return -1;
    struct ct_shm_chunk *c = &lane.chunks[chunk];
    uint64_t word = __atomic_load_n(&c->word, __ATOMIC_ACQUIRE);
    uint32_t thread = c->thread, generation = c->thread_generation; /* valid while the word stays as it is */
    if (CT_CHUNK_STATE(word) != CT_CHUNK_FULL || CT_CHUNK_GENERATION(word) != entry >> 32 || !is_complete(chunk) ||
        !try_chunk(b, chunk, word, note))
        return -1;
    /* Counted while its header is valid: for that time no other thread gets its thread's slot. */
    count_loss(thread, generation, lag_reason(), lane.bytes / CT_EVENT_SIZE - CT_CHUNK_DRAINED(word));
    claim_chunk(b, chunk);
    clear_chunk(chunk);
    return chunk;
}

/* Chunks that the controller has claimed are passed over: it works on them, and what it works on is not lost. */
static long drop_oldest(const struct ct_block *b, uint64_t *note) {
    uint64_t at = __atomic_load_n(&lane.queue->oldest, __ATOMIC_RELAXED), submits;
    while (at < (submits = __atomic_load_n(&lane.queue->submits, __ATOMIC_ACQUIRE))) {
        uint64_t first = submits - at > lane.room ? submits - lane.room : at; /* the others are overwritten */
        uint64_t entry = __atomic_load_n(&lane.submitted[first & (lane.room - 1)], __ATOMIC_RELAXED);
        if (!change_count(&lane.queue->oldest, &at, first + 1))
            continue;
        long chunk = drop_chunk(b, entry, note);
        if (chunk >= 0)
            return chunk;
        at = first + 1;
    }
    return -1;
}

/* Full chunks that no entry leads to. Without a chunk, a thread comes here with each event: so this is done at most a
 * thousand times a second. */
static long search_full(const struct ct_block *b, uint64_t *note) {
    uint64_t now = ct_os_timestamp(), last = __atomic_load_n(&lane.queue->searched, __ATOMIC_RELAXED);
    if (now - last < lane.control->wait_second / 1000)
        return -1;
    __atomic_store_n(&lane.queue->searched, now, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < lane.count; i++) {
        uint64_t word = __atomic_load_n(&lane.chunks[i].word, __ATOMIC_RELAXED);
        if (CT_CHUNK_STATE(word) == CT_CHUNK_FULL && drop_chunk(b, word >> 32 << 32 | i, note) >= 0)
            return i;
    }
    return -1;
}

/* May the thread wait for a chunk? */
static bool has_patience(const struct ct_block *b) {
    const struct ct_shm_control *c = lane.control;
    struct ct_shm_thread *t = &lane.threads[b->lane_slot];
    if (c->lossless || !c->wait_counts)
        return c->lossless;
    uint64_t now = ct_os_timestamp();
    if (now - t->wait_since >= c->wait_second) {
        t->wait_since = now;
        t->wait_used = 0;
    }
    return t->wait_used < c->wait_counts;
}

static long take_chunk(const struct ct_block *b, uint64_t *note) {
    long chunk = take_free(b, note);
    if (chunk >= 0 || has_patience(b))
        return chunk;
    chunk = drop_oldest(b, note);
    return chunk < 0 ? search_full(b, note) : chunk;
}

/* Is any chunk about to become free? When threads that write nothing hold all of them, waiting is useless. */
static bool worth_waiting(void) {
    for (uint32_t i = 0; i < lane.count; i++) {
        uint64_t word = __atomic_load_n(&lane.chunks[i].word, __ATOMIC_RELAXED);
        unsigned state = CT_CHUNK_STATE(word);
        bool quarantined = state == CT_CHUNK_DRAINING && CT_CHUNK_DRAINED(word) == lane.bytes / CT_EVENT_SIZE;
        if (state != CT_CHUNK_ACTIVE && !quarantined)
            return true;
    }
    return false;
}

/* It sleeps, and a part of the lane is full. One thread wakes it. */
static void wake_controller(void) {
    if (ct_os_is_silent() ||
        __atomic_exchange_n(&lane.queue->wake_at, CT_SHM_NO_WAKE, __ATOMIC_ACQ_REL) == CT_SHM_NO_WAKE)
        return;
    __atomic_fetch_add(&lane.queue->wakes, 1, __ATOMIC_RELEASE);
    ct_os_wake(&lane.queue->wakes);
}

/* Unless the controller has already seen that the chunk is full. `generation`: from when it was known to be ours. */
static void submit_chunk(uint32_t chunk, uint32_t generation) {
    struct ct_shm_chunk *c = &lane.chunks[chunk];
    for (;;) {
        uint64_t word = __atomic_load_n(&c->word, __ATOMIC_RELAXED);
        unsigned state = CT_CHUNK_STATE(word);
        if ((state != CT_CHUNK_ACTIVE && state != CT_CHUNK_TAKEN) || CT_CHUNK_GENERATION(word) != generation)
            return;
        uint32_t drained = state == CT_CHUNK_ACTIVE ? CT_CHUNK_DRAINED(word) : 0;
        /* Try again if the controller has raised `drained` meanwhile. */
        if (change_word(c, word, CT_CHUNK_WORD(CT_CHUNK_FULL, drained, generation)))
            break;
    }
    uint64_t at = __atomic_fetch_add(&lane.queue->submits, 1, __ATOMIC_ACQ_REL);
    __atomic_store_n(&lane.submitted[at & (lane.room - 1)], (uint64_t)generation << 32 | chunk, __ATOMIC_RELEASE);
    if (at + 1 >= __atomic_load_n(&lane.queue->wake_at, __ATOMIC_RELAXED))
        wake_controller();
}

/* Generation of the chunk that the cursor is past the end of. */
static uint32_t full_generation(uint64_t cursor) {
    return is_past_chunk(cursor) ? lane.chunks[chunk_before(cursor)].generation : 0;
}

/* ---- the thread's cursor ---- */

static bool change_cursor(struct ct_block *b, uint64_t from, uint64_t to) {
    return ct_os_own_change(&b->cursor, from, to);
}

static struct ct_event *reserve_slot(struct ct_block *b) {
    uint64_t at = ct_os_own_add(&b->cursor, CT_EVENT_SIZE);
    return at & b->event_bit ? (struct ct_event *)at : NULL;
}

static uint64_t last_number(uint64_t cursor) {
    if (is_past_chunk(cursor))
        return lane.chunks[chunk_before(cursor)].number;
    return (cursor & ~NO_CHUNK) >> NUMBER_SHIFT;
}

/* A call's frame is on the shadow stack before its event is; a return's may be gone (ct_hook_leave_slow). */
static uint32_t open_frames(const struct ct_block *b, uint32_t kind) {
    uint32_t frames = (uint32_t)(b->top - b->base) - 1;
    return kind == CT_EVENT_CALL && frames ? frames - 1 : frames + b->popped;
}

/* Puts a fresh chunk in place of the full one. */
static void replace_chunk(struct ct_block *b, uint64_t cursor, uint32_t fresh, uint32_t kind, uint64_t *note) {
    struct ct_shm_chunk *c = &lane.chunks[fresh];
    uint32_t generation = full_generation(cursor);
    c->depth = open_frames(b, kind);
    c->stack = b->reported_stack;
    c->exhausted = lane.threads[b->lane_slot].lost[CT_LOSS_POOL_EXHAUSTED];
    c->waited = lane.threads[b->lane_slot].waited;
    __atomic_store_n(&c->number, last_number(cursor) + 1, __ATOMIC_RELEASE);
    uint64_t taken = c->word;
    if (!change_cursor(b, cursor, (uint64_t)events_of(fresh))) { /* a handler came */
        *note = 0;
        set_free(fresh);
        return;
    }
    uint64_t active = CT_CHUNK_WORD(CT_CHUNK_ACTIVE, 0, CT_CHUNK_GENERATION(taken));
    (void)change_word(c, taken, active); /* unless a handler has filled it already */
    if (is_past_chunk(cursor))
        submit_chunk(chunk_before(cursor), generation);
}

/* There is no chunk: the full one is submitted, or threads that wait would wait for each other. */
static void go_without_chunk(struct ct_block *b, uint64_t cursor) {
    uint64_t number = last_number(cursor);
    uint32_t generation = full_generation(cursor);
    bool full = is_past_chunk(cursor);
    if (change_cursor(b, cursor, NO_CHUNK | number << NUMBER_SHIFT) && full)
        submit_chunk(chunk_before(cursor), generation);
}

void ct_agent_lane_wait(void) {
    if (ct_os_is_silent())
        ct_os_relax();
    else
        ct_os_sleep_us(WAIT_US);
}

/* Waits longer each time: many threads that wake up all the time would keep the controller from the processor. Signals
 * have to wait too: a handler that comes between two waits would wait in turn, and handlers that come faster than
 * chunks become free, and may interrupt each other, would fill the stack. */
void ct_agent_lane_wait_longer(struct ct_block *b) {
    uint32_t waits = b->waits++;
    if (waits < SPINS || ct_os_is_silent()) {
        ct_os_relax();
        return;
    }
    uint32_t doublings = (waits - SPINS) / WAITS_ALIKE;
    ct_os_sleep_masked_us(WAIT_US << (doublings < WAIT_DOUBLINGS ? doublings : WAIT_DOUBLINGS));
}

void ct_agent_lane_wait_end(struct ct_block *b) {
    b->waits = 0;
}

/* No chunk is free. False: the event is lost. `*since`: when the thread began to wait, or when the last part of its
 * wait was counted; 0: it begins now. What is done between two parts counts too: without system calls they are
 * short. */
static bool wait_for_chunk(struct ct_block *b, uint64_t *since) {
    struct ct_shm_thread *t = &lane.threads[b->lane_slot];
    uint64_t from = *since ? *since : ct_os_timestamp();
    if (!has_patience(b) || (b->waits >= SPINS && !worth_waiting())) {
        __atomic_fetch_add(&t->lost[CT_LOSS_POOL_EXHAUSTED], 1, __ATOMIC_RELAXED);
        return false;
    }
    ct_agent_lane_wait_longer(b);
    *since = ct_os_timestamp();
    uint64_t spent = *since - from;
    t->waited += spent;
    t->wait_used += spent;
    return true;
}

/* A slot in a fresh chunk, or NULL. */
static struct ct_event *reserve_fresh(struct ct_block *b, uint32_t kind, uint64_t *note) {
    uint64_t waiting_since = 0;
    for (;;) {
        uint64_t cursor = __atomic_load_n(&b->cursor, __ATOMIC_RELAXED);
        if (cursor & b->event_bit) {
            struct ct_event *e = reserve_slot(b);
            if (e)
                return e;
            continue;
        }
        if (!(cursor & NO_CHUNK) && cursor < lane.pool) {
            b->cursor = 0; /* it must not grow until it looks valid */
            return NULL;
        }
        bool recording = is_recording();
        long fresh = recording ? take_chunk(b, note) : -1;
        if (fresh >= 0) {
            replace_chunk(b, cursor, (uint32_t)fresh, kind, note);
            ct_agent_lane_wait_end(b);
            waiting_since = 0;
            continue;
        }
        go_without_chunk(b, cursor);
        if (!recording || !wait_for_chunk(b, &waiting_since))
            return NULL;
    }
}

/* ---- what the runtime asks for ---- */

struct ct_event *ct_event_reserve(struct ct_block *b, uint32_t kind, uint64_t *note) {
    uint64_t unused, *to = note ? note : &unused;
    struct ct_event *e = reserve_slot(b);
    if (!e)
        e = reserve_fresh(b, kind, to);
    *to = (uint64_t)e;
    return e;
}

struct ct_event *ct_event_room(const struct ct_block *b, size_t *count) {
    bool active = b->cursor & b->event_bit && !(b->cursor & NO_CHUNK);
    *count = active ? (lane.bytes - (b->cursor & (lane.bytes - 1))) / CT_EVENT_SIZE : 0;
    return (struct ct_event *)b->cursor;
}

void ct_event_wrote(struct ct_block *b, size_t count) {
    (void)ct_os_own_add(&b->cursor, count * CT_EVENT_SIZE);
}

/* A slot gets a void event, so that nobody waits for it. A chunk is given back, unless the cursor is in it: then the
 * swap has succeeded. */
void ct_event_abandon(struct ct_block *b, uint64_t note) {
    if (!(note & 1)) {
        ct_event_fill((struct ct_event *)note, 0, CT_EVENT_VOID);
        return;
    }
    uint32_t chunk = (uint32_t)note >> 1;
    uint64_t word = __atomic_load_n(&lane.chunks[chunk].word, __ATOMIC_RELAXED), cursor = b->cursor;
    bool in_use =
        is_past_chunk(cursor) ? chunk_before(cursor) == chunk : cursor - (uint64_t)events_of(chunk) < lane.bytes;
    if (in_use || word != taken_word(b, (uint32_t)(note >> 32)))
        return;
    clear_chunk(chunk); /* it may have been interrupted in the middle of this */
    set_free(chunk);
}

static long take_slot(void) {
    uint32_t capacity = lane.control->thread_capacity;
    uint32_t start = __atomic_fetch_add(&lane.control->thread_hint, 1, __ATOMIC_RELAXED) % capacity;
    for (uint32_t n = 0; n < capacity; n++) {
        uint32_t i = (start + n) % capacity;
        uint32_t expected = CT_THREAD_FREE;
        if (__atomic_compare_exchange_n(&lane.threads[i].state, &expected, CT_THREAD_TAKEN, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return i;
    }
    return -1;
}

static void raise_high(uint32_t slots) {
    uint32_t high = __atomic_load_n(&lane.control->thread_high, __ATOMIC_RELAXED);
    while (high < slots && !__atomic_compare_exchange_n(&lane.control->thread_high, &high, slots, true,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static const uint64_t *tick_for(const struct ct_block *b) {
    const struct ct_shm_clock *clock = (const struct ct_shm_clock *)((uint64_t)lane.control + CT_SHM_CLOCK_OFFSET);
    return clock->fast ? &clock->tick : &b->no_tick;
}

void ct_event_begin(struct ct_block *b) {
    ct_event_reset(b);
    if (ct_os_getpid() != lane.pid || !is_recording()) /* a child, on our memory or a copy, is not ours to record */
        return;
    long slot = take_slot();
    if (slot < 0) {
        __atomic_fetch_add(&lane.control->lost_threads, 1, __ATOMIC_RELAXED);
        return;
    }
    struct ct_shm_thread *t = &lane.threads[slot];
    t->tid = b->tid;
    t->generation++;
    t->guarded_calls = t->deep_calls = t->left_frames = t->abandoned = t->limited = 0;
    t->waited = t->wait_since = t->wait_used = 0;
    for (unsigned i = 0; i < CT_LOSS_COUNT; i++)
        t->lost[i] = 0;
    if (b->tid == ct_os_gettid())
        ct_os_thread_name(t->name);
    else
        t->name[0] = 0; /* the controller reads the names of threads that were there before us */
    b->lane_slot = (uint32_t)slot;
    b->counters = (struct ct_counters *)&t->guarded_calls;
    b->cursor = NO_CHUNK;
    b->tick_at = tick_for(b);
    ct_agent_detail_begin(b);
    raise_high((uint32_t)slot + 1);
    __atomic_store_n(&t->state, CT_THREAD_ALIVE, __ATOMIC_RELEASE);
}

/* The thread has ended. The controller takes the rest of its chunk. */
void ct_event_drain(struct ct_block *b) {
    if (!b->cursor)
        return;
    ct_event_reset(b);
    __atomic_store_n(&lane.threads[b->lane_slot].state, CT_THREAD_ENDED, __ATOMIC_RELEASE);
}

void ct_event_reset(struct ct_block *b) {
    b->cursor = b->detail_cursor = 0;
    b->rules = NULL;
    b->tick_at = &b->no_tick;
    b->counters = &b->own_counters;
}

void ct_event_moved(struct ct_block *b) {
    ct_agent_detail_moved(b);
}

void ct_event_forget(struct ct_block *b) {
    ct_event_reset(b);
}

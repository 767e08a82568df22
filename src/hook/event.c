/* SPDX-License-Identifier: Apache-2.0 */
/* Event buffers of a thread: reserve, fill, hand over.
 *
 * Adding to the cursor reserves a slot. A slot counts once its timestamp, which is stored last, is not zero. When a
 * buffer is full it joins the list of full ones and a zeroed one takes its place. A full buffer with an empty slot
 * waits, and so do the buffers after it: a signal handler may have interrupted one of our stubs that has yet to fill
 * the slot. Only when many wait, or a caller asks for everything, the buffer is handed over, and the empty slot is
 * counted as abandoned. The thread that holds `delivering` hands full buffers to the sink, oldest first; other threads
 * leave them in the list. */
#include "hook/runtime.h"
#include "os/os.h"
#include "os/thread.h"

#define MAX_WAITING 64u /* full buffers */

static void lock(struct ct_block *b) {
    uint32_t tries = 0;
    while (__atomic_exchange_n(&b->event_lock, 1, __ATOMIC_ACQUIRE)) /* released by unlock */
        ct_runtime_pause(&tries);
}

static void unlock(struct ct_block *b) {
    __atomic_store_n(&b->event_lock, 0, __ATOMIC_RELEASE);
}

/* Three times the size always contains a place with the right bit set and the lower bits clear. */
static struct ct_buffer *map_buffer(size_t bytes) {
    uint8_t *memory = ct_os_alloc(sizeof(struct ct_buffer) + 3 * bytes, CT_OS_READ | CT_OS_WRITE);
    if (!memory)
        return NULL;
    uint64_t events = ((uint64_t)memory + sizeof(struct ct_buffer) + bytes - 1) & ~(uint64_t)(bytes - 1);
    if (!(events & bytes))
        events += bytes;
    return (struct ct_buffer *)(events - sizeof(struct ct_buffer));
}

static void clear_buffer(struct ct_buffer *buffer, size_t bytes) {
    uint64_t *word = (uint64_t *)buffer->events, *end = word + bytes / sizeof *word;
    while (word < end)
        *word++ = 0;
    buffer->next = NULL;
    buffer->delivered = 0;
}

/* ---- handing over ---- */

struct sink_call {
    ct_event_sink *sink;
    void *arg;
    int tid;
    const struct ct_event *events;
    size_t count;
};

static void call_sink(void *arg) {
    struct sink_call *c = arg;
    c->sink(c->arg, c->tid, c->events, c->count);
}

static bool is_filled(const struct ct_event *e) {
    return __atomic_load_n(&e->timestamp, __ATOMIC_ACQUIRE) != 0;
}

/* Delivers the filled slots in [delivered, used). At the end of a buffer that is still being written, empty slots are
 * left for later. Counts the empty slots that are skipped. */
static void deliver_buffer(struct ct_block *b, struct ct_buffer *buffer, size_t used, bool growing) {
    struct ct_runtime *rt = b->runtime;
    size_t end = used / CT_EVENT_SIZE, at = buffer->delivered / CT_EVENT_SIZE;
    while (growing && end > at && !is_filled(&buffer->events[end - 1]))
        end--;
    while (at < end) {
        size_t run = at;
        while (run < end && is_filled(&buffer->events[run]))
            run++;
        if (run > at && rt->sink) {
            struct sink_call c = {rt->sink, rt->sink_arg, b->tid, &buffer->events[at], run - at};
            ct_runtime_call_out(ct_block_current(), call_sink, &c);
        }
        for (at = run; at < end && !is_filled(&buffer->events[at]); at++)
            b->counters->abandoned++;
    }
    buffer->delivered = end * CT_EVENT_SIZE;
}

static bool has_holes(const struct ct_buffer *buffer, size_t bytes) {
    for (size_t i = buffer->delivered / CT_EVENT_SIZE; i < bytes / CT_EVENT_SIZE; i++)
        if (!is_filled(&buffer->events[i]))
            return true;
    return false;
}

/* The oldest full buffer, if it may be handed over. */
static struct ct_buffer *pop_full(struct ct_block *b, bool everything) {
    lock(b);
    struct ct_buffer *buffer = b->full;
    if (buffer && !everything && b->full_count < MAX_WAITING && has_holes(buffer, b->event_bit))
        buffer = NULL;
    if (buffer) {
        b->full_count--;
        if (!(b->full = buffer->next))
            b->full_last = NULL;
    }
    unlock(b);
    return buffer;
}

static void recycle_buffer(struct ct_block *b, struct ct_buffer *buffer) {
    clear_buffer(buffer, b->event_bit);
    lock(b);
    buffer->next = b->spare;
    b->spare = buffer;
    unlock(b);
}

static void deliver_full(struct ct_block *b, bool everything) {
    struct ct_buffer *buffer;
    while ((buffer = pop_full(b, everything))) {
        deliver_buffer(b, buffer, b->event_bit, false);
        recycle_buffer(b, buffer);
    }
}

static bool try_deliver(struct ct_block *b) {
    return !__atomic_exchange_n(&b->delivering, 1, __ATOMIC_ACQUIRE); /* released by end_deliver */
}

static void end_deliver(struct ct_block *b) {
    __atomic_store_n(&b->delivering, 0, __ATOMIC_RELEASE);
}

/* If another thread is delivering, this waits: the caller of flush expects everything to be handed over. */
void ct_event_drain(struct ct_block *b) {
    uint32_t tries = 0;
    while (!try_deliver(b))
        ct_runtime_pause(&tries);
    struct ct_buffer *active;
    uint64_t cursor;
    bool again;
    do { /* its thread may retire the active buffer meanwhile: then that one comes first */
        deliver_full(b, true);
        lock(b);
        active = b->active;
        cursor = b->cursor;
        again = b->full != NULL;
        unlock(b);
    } while (again);
    if (active)
        deliver_buffer(b, active, cursor & b->event_bit ? cursor - (uint64_t)active->events : b->event_bit, true);
    end_deliver(b);
}

void ct_event_moved(struct ct_block *b) {
    (void)b;
}

void ct_event_forget(struct ct_block *b) {
    b->active = b->full = b->full_last = b->spare = NULL;
    ct_event_reset(b);
}

void ct_event_begin(struct ct_block *b) {
    ct_event_reset(b);
}

void ct_event_reset(struct ct_block *b) {
    b->event_lock = b->delivering = 0;
    while (b->full) {
        struct ct_buffer *buffer = b->full;
        b->full = buffer->next;
        recycle_buffer(b, buffer);
    }
    b->full_last = NULL;
    b->full_count = 0;
    b->cursor = 0; /* not valid */
    if (b->active) {
        clear_buffer(b->active, b->event_bit);
        b->cursor = (uint64_t)b->active->events;
    }
}

/* ---- recording from C ---- */

/* Without a sink only the newest full buffer stays. */
static void drop_oldest(struct ct_block *b) {
    while (b->full_count > 1) {
        struct ct_buffer *buffer = pop_full(b, true);
        if (buffer)
            recycle_buffer(b, buffer);
    }
}

static void retire_active(struct ct_block *b) {
    struct ct_buffer *old = b->active;
    if (!old)
        return;
    old->next = NULL;
    if (b->full_last)
        b->full_last->next = old;
    else
        b->full = old;
    b->full_last = old;
    b->full_count++;
}

/* Puts a zeroed buffer in place of the full one. Signals are blocked. */
static bool swap_buffer(struct ct_block *b) {
    lock(b);
    struct ct_buffer *fresh = b->spare;
    if (fresh)
        b->spare = fresh->next;
    unlock(b);
    if (!fresh && !(fresh = map_buffer(b->event_bit)))
        return false;
    lock(b);
    retire_active(b);
    b->active = fresh;
    b->cursor = (uint64_t)fresh->events;
    unlock(b);
    if (!b->runtime->sink) {
        drop_oldest(b);
    } else if (try_deliver(b)) {
        deliver_full(b, false);
        end_deliver(b);
    }
    return true;
}

static struct ct_event *take_slot(struct ct_block *b) {
    uint64_t at = __atomic_fetch_add(&b->cursor, CT_EVENT_SIZE, __ATOMIC_RELAXED);
    return at & b->event_bit ? (struct ct_event *)at : NULL;
}

static struct ct_event *take_fresh_slot(struct ct_block *b) {
    uint64_t mask = ct_os_block_signals();
    bool ok = (b->cursor & b->event_bit) || swap_buffer(b); /* a handler may have swapped before us */
    struct ct_event *e = ok ? take_slot(b) : NULL;
    if (!e) {
        b->cursor = 0; /* no memory: the cursor must not grow until it looks valid again */
        b->counters->abandoned++;
    }
    ct_os_restore_signals(mask);
    return e;
}

struct ct_event *ct_event_reserve(struct ct_block *b, uint32_t kind, uint64_t *note) {
    (void)kind;
    struct ct_event *e = take_slot(b);
    if (!e)
        e = take_fresh_slot(b);
    if (note)
        *note = (uint64_t)e;
    return e;
}

void ct_event_abandon(struct ct_block *b, uint64_t note) {
    (void)b;
    (void)note; /* the hole is counted when the buffer is handed over */
}

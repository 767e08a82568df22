/* Event buffers of a thread: reserve, fill, hand over.
 *
 * A slot is reserved by adding to the cursor and counts once its timestamp is not zero; it is stored last. When a
 * buffer is full it joins the list of full ones and a zeroed one takes its place. The newest full buffer is kept back:
 * a signal handler may have interrupted a stub of ours that has yet to fill its slot there. A slot that is still empty when
 * its buffer is handed over, with filled ones behind it, is counted as abandoned.
 * Whoever holds `delivering` hands full buffers to the sink, oldest first; everybody else leaves them in the list. */
#include "hook/runtime.h"
#include "os/os.h"
#include "os/thread.h"

static void lock(struct ct_block *b) {
    while (__atomic_exchange_n(&b->event_lock, 1, __ATOMIC_ACQUIRE)) /* released by unlock */
        ct_os_relax();
}

static void unlock(struct ct_block *b) {
    __atomic_store_n(&b->event_lock, 0, __ATOMIC_RELEASE);
}

static struct ct_buffer *map_buffer(size_t bytes) {
    size_t size = (sizeof(struct ct_buffer) + bytes + 4095) & ~(size_t)4095;
    struct ct_buffer *buffer = ct_os_alloc(size, CT_OS_READ | CT_OS_WRITE);
    if (buffer)
        buffer->size = size;
    return buffer;
}

static void clear_buffer(struct ct_buffer *buffer, size_t bytes) {
    uint64_t *word = (uint64_t *)buffer->events, *end = word + bytes / sizeof *word;
    while (word < end)
        *word++ = 0;
    buffer->next = NULL;
    buffer->used = buffer->delivered = 0;
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

/* Delivers the filled slots among [delivered, used). At the end of a buffer that is still being written, empty slots are
 * left for later. Counts the empty ones that are passed over. */
static void deliver(struct ct_block *b, struct ct_buffer *buffer, size_t used, bool growing) {
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
            b->abandoned++;
    }
    buffer->delivered = end * CT_EVENT_SIZE;
}

static struct ct_buffer *pop_full(struct ct_block *b, bool keep_newest) {
    lock(b);
    struct ct_buffer *buffer = b->full;
    if (buffer && keep_newest && !buffer->next)
        buffer = NULL;
    if (buffer && !(b->full = buffer->next))
        b->full_last = NULL;
    unlock(b);
    return buffer;
}

static void recycle(struct ct_block *b, struct ct_buffer *buffer) {
    clear_buffer(buffer, buffer->used);
    lock(b);
    buffer->next = b->spare;
    b->spare = buffer;
    unlock(b);
}

static void deliver_full(struct ct_block *b, bool keep_newest) {
    struct ct_buffer *buffer;
    while ((buffer = pop_full(b, keep_newest))) {
        deliver(b, buffer, buffer->used, false);
        recycle(b, buffer);
    }
}

static bool try_deliver(struct ct_block *b) {
    return !__atomic_exchange_n(&b->delivering, 1, __ATOMIC_ACQUIRE); /* released by end_deliver */
}

static void end_deliver(struct ct_block *b) {
    __atomic_store_n(&b->delivering, 0, __ATOMIC_RELEASE);
}

/* Who finds somebody delivering waits: the caller of flush expects everything to be handed over. */
void ct_event_drain(struct ct_block *b) {
    while (!try_deliver(b))
        ct_os_relax();
    deliver_full(b, false);
    lock(b);
    struct ct_buffer *active = b->active;
    uint64_t cursor = b->cursor, end = b->end;
    unlock(b);
    if (active && end) {
        uint64_t start = (uint64_t)active->events;
        if (cursor > end)
            cursor = end;
        deliver(b, active, cursor > start ? cursor - start : 0, true);
    }
    end_deliver(b);
}

void ct_event_reset(struct ct_block *b) {
    b->event_lock = b->delivering = 0;
    struct ct_buffer *buffer = b->full;
    while (buffer) {
        struct ct_buffer *next = buffer->next;
        clear_buffer(buffer, buffer->used);
        buffer->next = b->spare;
        b->spare = buffer;
        buffer = next;
    }
    b->full = b->full_last = NULL;
    b->cursor = b->end = 0;
    if (b->active) {
        clear_buffer(b->active, b->runtime->buffer_bytes);
        b->cursor = (uint64_t)b->active->events;
        b->end = b->cursor + b->runtime->buffer_bytes;
    }
}

/* ---- recording from C ---- */

/* Without a sink only the newest full buffer stays. */
static void drop_oldest(struct ct_block *b) {
    struct ct_buffer *buffer = pop_full(b, true);
    if (buffer)
        recycle(b, buffer);
}

static void retire_active(struct ct_block *b, size_t bytes) {
    struct ct_buffer *old = b->active;
    if (!old)
        return;
    old->used = bytes;
    old->next = NULL;
    if (b->full_last)
        b->full_last->next = old;
    else
        b->full = old;
    b->full_last = old;
    b->active = NULL;
}

/* Puts a zeroed buffer in place of the full one. Signals are blocked. */
static bool swap(struct ct_block *b) {
    size_t bytes = b->runtime->buffer_bytes;
    lock(b);
    struct ct_buffer *fresh = b->spare;
    if (fresh)
        b->spare = fresh->next;
    unlock(b);
    if (!fresh && !(fresh = map_buffer(bytes)))
        return false;
    fresh->next = NULL;
    lock(b);
    retire_active(b, bytes);
    b->active = fresh;
    b->end = 0; /* no slot may be reserved in between */
    b->cursor = (uint64_t)fresh->events;
    b->end = (uint64_t)fresh->events + bytes;
    unlock(b);
    if (!b->runtime->sink) {
        drop_oldest(b);
    } else if (try_deliver(b)) {
        deliver_full(b, true);
        end_deliver(b);
    }
    return true;
}

static struct ct_event *reserve(struct ct_block *b) {
    uint64_t at = __atomic_fetch_add(&b->cursor, CT_EVENT_SIZE, __ATOMIC_RELAXED);
    return at < b->end ? (struct ct_event *)at : NULL;
}

void ct_event_write(struct ct_block *b, uint32_t hook, uint32_t kind, uint32_t depth) {
    struct ct_event *e = reserve(b);
    if (!e) {
        uint64_t mask = ct_os_block_signals();
        bool ok = b->cursor < b->end || swap(b); /* a handler may have swapped before us */
        e = ok ? reserve(b) : NULL;
        ct_os_restore_signals(mask);
        if (!e) {
            b->abandoned++;
            return;
        }
    }
    e->hook = hook;
    e->kind = kind & 0xff;
    e->depth = depth & 0xffffff;
    __atomic_store_n(&e->timestamp, ct_os_timestamp(), __ATOMIC_RELEASE);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks events ahead: see ahead.h. Pieces are numbered; piece n is in slot n % SLOTS until the reader has passed it.
 * Helpers take the next piece where the one before ends, which is where its block ends. */
#include "trace/ahead.h"
#include "base/grow.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum {
    SLOTS = 8,
    HELPERS = 2, /* unpacking is faster than all that readers do with events */
    RAW_PIECE = 8192,
    MAX_PROCESSORS = 1024,
};

struct slot {
    struct ct_ahead_block block;
    uint64_t first, end;
    bool ready;
};

struct ct_ahead {
    struct ct_trace *trace;
    size_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t next, end;    /* positions: where the next piece begins */
    uint64_t taken, owned; /* pieces: the first that no helper has, and the first that the reader has not passed */
    bool stop;
    struct slot slots[SLOTS];
    pthread_t helpers[HELPERS];
    unsigned helper_count, working;
};

unsigned ct_ahead_processors(const struct ct_trace *trace) {
    cpu_set_t *set = CPU_ALLOC(MAX_PROCESSORS);
    size_t size = CPU_ALLOC_SIZE(MAX_PROCESSORS);
    int count = set && sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 1;
    CPU_FREE(set);
    unsigned processors = count > 0 ? (unsigned)count : 1;
    if (trace->ahead_least && processors == 1)
        processors = 2;
    return trace->jobs && trace->jobs < processors ? trace->jobs : processors;
}

/* ---- helpers ---- */

/* Fills the slot; its piece is not read where anything is missing. */
static void read_piece(struct ct_index *index, struct slot *slot) {
    struct ct_ahead_block *block = &slot->block;
    size_t wanted = (size_t)(slot->end - slot->first), count = 1;
    block->count = 0;
    block->clean = false;
    if (wanted > CTP_BLOCK_EVENTS) /* no block, but a gap between parts */
        return;
    if (!ct_grow(&block->events, &block->room, wanted - 1, sizeof *block->events, RAW_PIECE))
        return;
    while (count && block->count < wanted) {
        count = ct_index_read(index, slot->first + block->count, block->events + block->count, wanted - block->count);
        block->count += count;
    }
    if (block->count < wanted)
        block->count = 0;
    else
        block->clean = ct_packed_is_clean(index, slot->first, slot->end);
}

/* Takes the next piece, with the lock held. NULL: there is none at the moment. */
static struct slot *take_piece(struct ct_ahead *a, const struct ct_index *index) {
    if (a->taken >= a->owned + SLOTS)
        return NULL;
    struct slot *slot = &a->slots[a->taken++ % SLOTS];
    slot->first = a->next;
    slot->end = ct_index_block_end(index, a->next, RAW_PIECE);
    if (slot->end > a->end)
        slot->end = a->end;
    a->next = slot->end;
    slot->ready = false;
    return slot;
}

static void read_pieces(struct ct_ahead *a, struct ct_index *index) {
    while (!a->stop && a->next < a->end) {
        struct slot *slot = take_piece(a, index);
        if (!slot) {
            pthread_cond_wait(&a->changed, &a->lock);
            continue;
        }
        pthread_mutex_unlock(&a->lock);
        read_piece(index, slot);
        pthread_mutex_lock(&a->lock);
        slot->ready = true;
        pthread_cond_broadcast(&a->changed);
    }
}

static void *help(void *arg) {
    struct ct_ahead *a = arg;
    const struct ct_trace_thread *info = &a->trace->threads[a->thread].info;
    char *path = ct_file_path("%s/thread_%u", a->trace->processes[info->process].directory, info->id);
    struct ct_index index;
    bool good = path && ct_index_open(&index, &a->trace->cache, path) == 0;
    free(path);
    pthread_mutex_lock(&a->lock);
    if (good)
        read_pieces(a, &index);
    a->working--; /* without a helper the reader is on its own */
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (good)
        ct_index_close(&index);
    return NULL;
}

/* ---- the reader ---- */

static void start_helpers(struct ct_ahead *a, unsigned wanted) {
    pthread_mutex_lock(&a->lock);
    while (a->helper_count < wanted && !pthread_create(&a->helpers[a->helper_count], NULL, help, a))
        a->helper_count++;
    a->working += a->helper_count;
    pthread_mutex_unlock(&a->lock);
}

struct ct_ahead *ct_ahead_open(struct ct_trace *trace, size_t thread, uint64_t first) {
    const struct ct_index *index = &trace->threads[thread].index;
    unsigned processors = ct_ahead_processors(trace);
    if (processors < 2 || first >= index->end ||
        index->end - first < (trace->ahead_least ? trace->ahead_least : CT_AHEAD_LEAST))
        return NULL;
    struct ct_ahead *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (struct ct_ahead){.trace = trace, .thread = thread, .next = first, .end = index->end};
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    start_helpers(a, processors > HELPERS ? HELPERS : processors - 1);
    return a;
}

/* The piece that contains the position, with the lock held. NULL: there is none, or nobody reads it. */
static struct slot *find_piece(struct ct_ahead *a, uint64_t sequence) {
    for (;;) {
        struct slot *slot = &a->slots[a->owned % SLOTS];
        bool taken = a->owned < a->taken;
        if (taken && slot->ready && sequence < slot->end)
            return slot;
        if (taken && slot->ready) {
            slot->ready = false;
            a->owned++;
            pthread_cond_broadcast(&a->changed);
        } else if (!a->working) {
            return NULL;
        } else {
            pthread_cond_wait(&a->changed, &a->lock);
        }
    }
}

bool ct_ahead_take(struct ct_ahead *a, uint64_t sequence, struct ct_ahead_block *block) {
    if (!a || sequence >= a->end)
        return false;
    pthread_mutex_lock(&a->lock);
    struct slot *slot = find_piece(a, sequence);
    bool good = slot && slot->first == sequence && slot->block.count;
    if (good) {
        struct ct_ahead_block unpacked = slot->block;
        slot->block = *block;
        *block = unpacked;
        slot->ready = false;
        a->owned++;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
    return good;
}

void ct_ahead_close(struct ct_ahead *a) {
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    for (unsigned i = 0; i < a->helper_count; i++)
        pthread_join(a->helpers[i], NULL);
    for (int i = 0; i < SLOTS; i++)
        free(a->slots[i].block.events);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* scribble MODE SEED: writes over the lane while it is recorded.
 *
 * anywhere, control_block, layout (sizes and offsets), chunks, threads, marks, segments: values at places of these
 * parts; tables: of what a followed process has besides. requests: a flood of requests that say a library was loaded.
 * depth: chunks of events that begin four billion calls deep. generations: each chunk is of a thread that nobody has
 * seen before. words: chunks change their state all the time. events: times and hooks that cannot be. names: thread
 * slots with names that do not end, and with bytes that terminals obey. */
#include "hostile.h"
#include "abi/stalk_abi.h"
#include <contrail/hook.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct hostile_lane lane;
static struct ct_shm_control control;
static uint64_t state;
static int self;

HOSTILE_INLINE uint64_t random64(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

HOSTILE_INLINE uint64_t below(uint64_t limit) {
    return random64() % limit;
}

/* Mostly one at which something overflows. */
HOSTILE_INLINE uint64_t any_value(void) {
    static const uint64_t edges[] = {0,         1,          2,          3,          4,          0xff,     0xffff,
                                     INT32_MAX, UINT32_MAX, 0x80000000, 1ull << 32, UINT64_MAX, INT64_MAX};
    return below(3) ? edges[below(sizeof edges / sizeof *edges)] : random64();
}

HOSTILE_INLINE void put8(uint64_t offset, uint64_t value) {
    if (lane.start + offset + 8 <= lane.end)
        hostile_write8(lane.start + offset, value);
}

HOSTILE_INLINE void put4(uint64_t offset, uint64_t value) {
    if (lane.start + offset + 4 <= lane.end)
        hostile_write4(lane.start + offset, (uint32_t)value);
}

HOSTILE_INLINE uint64_t chunk_offset(uint64_t chunk) {
    return control.chunks_offset + chunk * sizeof(struct ct_shm_chunk);
}

HOSTILE_INLINE uint64_t any_chunk(void) {
    return chunk_offset(below(control.chunk_count));
}

/* The mutex is another program's matter. */
HOSTILE_INLINE bool is_mutex(uint64_t offset) {
    return offset + 8 > offsetof(struct ct_shm_control, liveness) && offset < offsetof(struct ct_shm_control, hint);
}

/* ---- one write of each mode ---- */

HOSTILE_INLINE void anywhere(void) {
    uint64_t offset = below(lane.end - lane.start) & ~7ull;
    if (!is_mutex(offset))
        put8(offset, any_value());
}

HOSTILE_INLINE void control_block(void) {
    uint64_t offset = below(CT_SHM_REQUESTS_OFFSET) & ~3ull;
    if (!is_mutex(offset))
        put4(offset, any_value());
}

/* What says how large everything is, and where. */
HOSTILE_INLINE void layout(void) {
    static const uint32_t fields[] = {
        offsetof(struct ct_shm_control, chunk_bytes),     offsetof(struct ct_shm_control, thread_capacity),
        offsetof(struct ct_shm_control, threads_offset),  offsetof(struct ct_shm_control, chunks_offset),
        offsetof(struct ct_shm_control, pool_offset),     offsetof(struct ct_shm_control, size),
        offsetof(struct ct_shm_control, segments_offset), offsetof(struct ct_shm_control, segment_of_chunk_offset),
        offsetof(struct ct_shm_control, rules_offset),    offsetof(struct ct_shm_control, budgets_offset),
        offsetof(struct ct_shm_control, segment_count),   offsetof(struct ct_shm_control, detail_pool_offset),
        offsetof(struct ct_shm_control, stack_bytes),     offsetof(struct ct_shm_control, hook_room),
        offsetof(struct ct_shm_control, queue_offset),    offsetof(struct ct_shm_control, queue_room),
    };
    put8(fields[below(sizeof fields / sizeof *fields)], any_value());
}

HOSTILE_INLINE void chunks(void) {
    put8(any_chunk() + below(sizeof(struct ct_shm_chunk)) / 8 * 8, any_value());
    put8(control.queue_offset + (below(CT_SHM_QUEUE_SIZE(control.queue_room)) & ~7ull), any_value());
}

HOSTILE_INLINE void threads(void) {
    uint64_t slot = control.threads_offset + below(200) * sizeof(struct ct_shm_thread);
    put4(slot + below(sizeof(struct ct_shm_thread)) / 4 * 4, any_value());
}

HOSTILE_INLINE void requests(void) {
    static uint32_t rings;
    struct ct_shm_request request = {.kind = CT_REQUEST_LOADED, .pid = self, .tid = self};
    uint64_t request_futex = lane.start + offsetof(struct ct_shm_control, request_futex);
    request.state = (uint32_t)(below(2) ? CT_REQUEST_POSTED : below(CT_REQUEST_ANSWERED + 2));
    hostile_write(lane.start + CT_SHM_REQUESTS_OFFSET + below(CT_SHM_REQUESTS) * sizeof request, &request,
                  sizeof request);
    hostile_write4(request_futex, ++rings);
    hostile_call(SYS_futex, (long)request_futex, FUTEX_WAKE, 1, 0, 0, 0);
}

HOSTILE_INLINE void marks(void) {
    put8(CT_SHM_MARKS_OFFSET + (below(CT_SHM_HEAD_SIZE - CT_SHM_MARKS_OFFSET) & ~7ull), any_value());
    put8(offsetof(struct ct_shm_control, stack_bytes) + below(8) * 8, any_value());
}

HOSTILE_INLINE void segments(void) {
    uint64_t segment = control.segments_offset + below(control.segment_count + 64) * sizeof(struct ct_shm_segment);
    put4(segment + below(sizeof(struct ct_shm_segment)) / 4 * 4, any_value());
}

/* Of a process that is followed: what comes before the ranges, or anything in all that lies there. */
HOSTILE_INLINE void tables(void) {
    uint64_t head = offsetof(struct ct_stalk_tables, ranges), all = lane.end - lane.start - control.extra_offset;
    if (control.extra_offset)
        put4(control.extra_offset + below(below(2) ? head : all) / 4 * 4, any_value());
}

HOSTILE_INLINE void full_chunk(uint32_t slot, uint32_t generation, uint32_t depth, uint64_t number) {
    enum { GENERATION = 7 };
    uint64_t offset = any_chunk();
    struct ct_shm_chunk chunk = {
        .number = number,
        .thread = slot,
        .thread_generation = generation,
        .depth = depth,
        .generation = GENERATION,
    };
    hostile_write(lane.start + offset, &chunk, sizeof chunk);
    put8(offset, CT_CHUNK_WORD(CT_CHUNK_FULL, 0, GENERATION));
}

HOSTILE_INLINE void depth(void) {
    static uint64_t number = 1;
    full_chunk(5, 1, UINT32_MAX, number);
    number += 2;
    hostile_sleep(50);
}

HOSTILE_INLINE void generations(void) {
    static uint32_t generation = 2;
    full_chunk((uint32_t)below(control.thread_capacity), generation++, 0, 1);
    hostile_sleep(20);
}

/* Whoever waits for a state, or tries again when it has changed, does so for long. */
HOSTILE_INLINE void words(void) {
    static const enum ct_chunk_state states[] = {CT_CHUNK_DRAINING, CT_CHUNK_FULL, CT_CHUNK_ACTIVE, CT_CHUNK_TAKEN};
    put8(any_chunk(), CT_CHUNK_WORD(states[below(4)], below(1 << 24), below(8)));
}

HOSTILE_INLINE void events(void) {
    struct ct_event event = {.timestamp = any_value(), .hook = (uint32_t)any_value(), .kind = (uint32_t)any_value()};
    uint64_t chunk = below(control.chunk_count), slot = below(control.chunk_bytes / sizeof event);
    uint64_t pool = lane.start + control.pool_offset;
    hostile_write(pool + (2 * chunk + 1) * control.chunk_bytes + slot * sizeof event, &event, sizeof event);
    if (below(16) == 0)
        full_chunk((uint32_t)below(4), (uint32_t)below(3), (uint32_t)below(100), below(1000));
}

HOSTILE_INLINE void names(void) {
    static const char name[16] = "\033]0;owned\a\033[2J\n\r";
    uint64_t slot = control.threads_offset + below(8) * sizeof(struct ct_shm_thread);
    hostile_write(lane.start + slot + offsetof(struct ct_shm_thread, name), name, sizeof name);
    hostile_sleep(100);
}

/* ---- all of them ---- */

/* clang-format off */
#define MODES(X) \
    X(anywhere) X(control_block) X(layout) X(chunks) X(threads) X(requests) X(marks) X(segments) X(depth) \
    X(generations) X(words) X(events) X(names) X(tables)
/* clang-format on */

#define NUMBER(mode) MODE_##mode,
enum mode { MODES(NUMBER) MODE_COUNT };
#define NAME(mode) #mode,
static const char *const mode_names[] = {MODES(NAME)};

/* One function: nothing here goes through a hook. */
static void *scribble(void *arg) {
    enum { BATCH = 2000, REST_US = 200 };
    static const char said[] = "attacked\n";
    enum mode mode = *(enum mode *)arg;
    for (unsigned long i = 1;; i++) {
        switch (mode) {
#define WRITE(mode)                                                                                                    \
    case MODE_##mode:                                                                                                  \
        mode();                                                                                                        \
        break;
            MODES(WRITE)
        default:
            return NULL;
        }
        if (i == 1)
            hostile_call(SYS_write, STDERR_FILENO, (long)said, sizeof said - 1, 0, 0, 0);
        if (i % BATCH == 0)
            hostile_sleep(REST_US);
    }
}

int main(int argc, char **argv) {
    static enum mode mode;
    pthread_t thread;
    if (argc != 3)
        hostile_end("usage: scribble MODE SEED");
    while (mode < MODE_COUNT && strcmp(mode_names[mode], argv[1]) != 0)
        mode++;
    if (mode == MODE_COUNT)
        hostile_end("no such mode");
    hostile_begin();
    self = getpid();
    state = strtoull(argv[2], NULL, 0) * 2654435761u + 88172645463325252ull;
    hostile_wait_for_lane(&lane);
    control = hostile_control(&lane);
    if (pthread_create(&thread, NULL, scribble, &mode))
        hostile_end("no thread");
    if (mode == MODE_anywhere || mode == MODE_control_block || mode == MODE_layout || mode == MODE_tables)
        hostile_beat_silently();
    hostile_beat_on();
}

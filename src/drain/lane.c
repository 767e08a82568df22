/* SPDX-License-Identifier: Apache-2.0 */
/* See lane.h. */
#include "drain/lane.h"
#include "os/thread.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define CHUNKS_WANTED   2048u /* this many threads can have one each */
#define CHUNK_MIN       4096u
#define CHUNK_MAX       65536u
#define CHUNKS_MIN      64u
#define THREAD_CAPACITY 16384u
#define LIST_TRIES      64u

static uint64_t round_up(uint64_t value, uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint32_t chunk_size(size_t memory) {
    uint32_t bytes = CHUNK_MIN;
    while (bytes < CHUNK_MAX && (size_t)bytes * 2 * CHUNKS_WANTED <= memory)
        bytes *= 2;
    return bytes;
}

/* ---- segments ---- */

/* How the detail pool is divided. Large segments are for the threads that come first: with the default 32 MiB these are
 * mebibytes, which stay in a processor's cache and reach back a few thousand calls. A thread whose pre-roll needs more
 * has several. Small ones are for many threads: the default has segments for 669. */
enum { SHARES = 32, MEDIUM = 16, DETAIL_MIN = 1 << 20, LARGE_MIN = 4 << 20, SMALL_MOST = 1024, MEDIUM_MOST = 64 };
enum { CONDITIONS = CT_TRIGGER_BITS * CT_TRIGGER_CONDITIONS };

static uint32_t smaller(uint64_t a, uint64_t b) {
    return (uint32_t)(a < b ? a : b);
}

/* Less memory has smaller segments, so that a thread may have several of them. */
static uint32_t large_chunks(uint64_t all) {
    uint32_t chunks = CT_LANE_MOST_CHUNKS;
    while (all * CT_SHM_DETAIL_CHUNK >= LARGE_MIN && chunks > MEDIUM && chunks * SHARES > all)
        chunks /= 2;
    return chunks;
}

/* Where threads have as many segments as the pre-roll needs, nearly all of the memory is for that: one busy thread may
 * have it, and many have equal parts. Threads begin with a small segment, so that those that do little take little. */
enum { PARTS = 256, SMALL_SHARE = 20, SMALL_LEAST = 8 };
static void divide_for_growth(struct ct_lane *lane, size_t memory) {
    uint64_t all = (memory < DETAIL_MIN ? DETAIL_MIN : memory) / CT_SHM_DETAIL_CHUNK;
    uint64_t small = larger(all / SMALL_SHARE / CT_SHM_SMALL_CHUNKS, SMALL_LEAST);
    uint32_t chunks = CT_SHM_SMALL_CHUNKS;
    while (chunks < CT_LANE_MOST_CHUNKS && 2 * chunks * PARTS <= all)
        chunks *= 2;
    lane->segments_of_class[2] = smaller(small, SMALL_MOST);
    lane->segments_of_class[1] = 0;
    uint64_t rest = all - lane->segments_of_class[2] * CT_SHM_SMALL_CHUNKS;
    lane->segments_of_class[0] = smaller(rest / chunks, THREAD_CAPACITY);
    lane->chunks_of_class[0] = chunks;
    lane->chunks_of_class[1] = MEDIUM;
    lane->chunks_of_class[2] = CT_SHM_SMALL_CHUNKS;
    lane->chunks_of_class[3] = CT_SHM_DRY_CHUNKS;
}

static void divide(struct ct_lane *lane, size_t memory) {
    uint64_t all = (memory < DETAIL_MIN ? DETAIL_MIN : memory) / CT_SHM_DETAIL_CHUNK;
    bool few = all * CT_SHM_DETAIL_CHUNK < LARGE_MIN;
    uint64_t small = all * (few ? 17 : 10) / SHARES / CT_SHM_SMALL_CHUNKS,
             medium = all * (few ? 3 : 1) / SHARES / MEDIUM;
    const uint32_t chunks[CT_LANE_CLASSES] = {large_chunks(all), MEDIUM, CT_SHM_SMALL_CHUNKS, CT_SHM_DRY_CHUNKS};
    lane->segments_of_class[2] = smaller(small, SMALL_MOST);
    lane->segments_of_class[1] = smaller(medium, MEDIUM_MOST);
    uint64_t rest = all - lane->segments_of_class[2] * CT_SHM_SMALL_CHUNKS - lane->segments_of_class[1] * MEDIUM;
    lane->segments_of_class[0] = smaller(rest / chunks[0], THREAD_CAPACITY);
    memcpy(lane->chunks_of_class, chunks, sizeof chunks);
}

static void cut_segments(struct ct_lane *lane, uint16_t *segment_of_chunk) {
    uint32_t segment = 0, chunk = 0;
    for (unsigned k = 0; k < CT_LANE_CLASSES; k++)
        for (uint32_t n = lane->segments_of_class[k]; n > 0; n--, segment++) {
            lane->segments[segment] = (struct ct_shm_segment){.chunk = chunk, .chunks = lane->chunks_of_class[k]};
            for (uint32_t end = chunk + lane->chunks_of_class[k]; chunk < end; chunk++)
                segment_of_chunk[chunk] = (uint16_t)segment;
        }
}

/* After the chunk headers. */
static void lay_out_queue(struct ct_shm_control *c, uint64_t *at) {
    c->queue_room = CHUNKS_MIN;
    while (c->queue_room < c->chunk_count)
        c->queue_room *= 2;
    c->queue_offset = round_up(*at, 64);
    *at = c->queue_offset + CT_SHM_QUEUE_SIZE(c->queue_room);
}

static void lay_out_detail(struct ct_lane *lane, struct ct_shm_control *c, const struct ct_lane_options *o,
                           uint64_t window, uint64_t *at) {
    if (!o->detail_memory)
        return;
    if (o->detail_grows)
        divide_for_growth(lane, o->detail_memory);
    else
        divide(lane, o->detail_memory);
    c->dry = lane->segments_of_class[3] = CT_SHM_DRY_SEGMENTS;
    for (unsigned k = 0; k < CT_LANE_CLASSES - 1; k++) {
        c->segment_count += lane->segments_of_class[k];
        c->detail_chunk_count += lane->segments_of_class[k] * lane->chunks_of_class[k];
    }
    c->large = lane->segments_of_class[0];
    c->grows = o->detail_grows;
    c->stack_bytes = o->stack_bytes;
    c->vectors = o->vectors;
    c->errno_offset = o->errno_offset;
    c->strings = o->strings < CT_STRINGS_MOST ? o->strings : CT_STRINGS_MOST;
    c->detail_rate = o->detail_rate;
    c->free_segments = (int32_t)c->segment_count;
    c->segments_offset = round_up(*at, 64);
    uint64_t chunks = c->detail_chunk_count + c->dry * CT_SHM_DRY_CHUNKS;
    c->segment_of_chunk_offset = c->segments_offset + (c->segment_count + c->dry) * sizeof(struct ct_shm_segment);
    c->rules_offset = round_up(c->segment_of_chunk_offset + chunks * sizeof(uint16_t), 64);
    c->conditions_offset = round_up(c->rules_offset + (uint64_t)o->hook_room * sizeof(uint32_t), 64);
    c->budgets_offset = c->conditions_offset + CONDITIONS * sizeof(struct ct_trigger_condition);
    uint64_t end = c->budgets_offset + (o->detail_rate ? (uint64_t)o->hook_room * sizeof(int32_t) : 0);
    c->detail_pool_offset = round_up(end, window);
    *at = c->detail_pool_offset + 2ull * CT_SHM_DETAIL_CHUNK * chunks;
    if (getrandom(&c->detail_key, sizeof c->detail_key, GRND_NONBLOCK) != sizeof c->detail_key)
        c->detail_key = 0x9e3779b97f4a7c15ull ^ (uint64_t)(uintptr_t)c;
    c->detail_key |= 1ull << 63;
}

static uint64_t lay_out(struct ct_lane *lane, struct ct_shm_control *c, const struct ct_lane_options *o) {
    uint32_t bytes = chunk_size(o->index_memory);
    uint64_t count = o->index_memory / bytes, window = 2 * larger(bytes, CT_SHM_DETAIL_CHUNK);
    *c = (struct ct_shm_control){
        .magic = CT_SHM_MAGIC,
        .version = CT_SHM_VERSION,
        .chunk_bytes = bytes,
        .chunk_count = (uint32_t)(count < CHUNKS_MIN ? CHUNKS_MIN : count),
        .thread_capacity = THREAD_CAPACITY,
        .lossless = o->lossless,
        .hook_room = o->hook_room,
        .recording = 1,
    };
    c->free_chunks = (int32_t)c->chunk_count;
    c->threads_offset = CT_SHM_HEAD_SIZE;
    c->chunks_offset = c->threads_offset + (uint64_t)THREAD_CAPACITY * sizeof(struct ct_shm_thread);
    uint64_t at = c->chunks_offset + (uint64_t)c->chunk_count * sizeof(struct ct_shm_chunk);
    lay_out_queue(c, &at);
    lay_out_detail(lane, c, o, window, &at);
    if (o->sample) {
        c->sample = o->sample;
        c->counts_offset = round_up(at, 64);
        at = c->counts_offset + (uint64_t)CT_SHM_COUNT_BANKS * o->hook_room * sizeof(struct ct_shm_count);
    }
    c->pool_offset = round_up(at, window);
    c->size = c->pool_offset + 2 * (uint64_t)bytes * c->chunk_count;
    c->extra_offset = o->extra ? c->size : 0;
    c->size += o->extra;
    return window;
}

/* Takes sizes and offsets from our own copy: the target can write to the shared memory. */
static void point_to_parts(struct ct_lane *lane, uint8_t *at, const struct ct_shm_control *c) {
    lane->control = (struct ct_shm_control *)at;
    lane->threads = (struct ct_shm_thread *)(at + c->threads_offset);
    lane->chunks = (struct ct_shm_chunk *)(at + c->chunks_offset);
    lane->queue = (struct ct_shm_queue *)(at + c->queue_offset);
    lane->free_list = (uint32_t *)(lane->queue + 1);
    lane->submitted = (uint64_t *)(lane->free_list + c->queue_room);
    lane->pool = at + c->pool_offset;
    lane->marks = (struct ct_shm_mark *)(at + CT_SHM_MARKS_OFFSET);
    lane->more_marks = (struct ct_shm_more_marks *)(at + CT_SHM_MORE_MARKS_OFFSET);
    lane->regions = (struct ct_shm_regions *)(at + CT_SHM_REGIONS_OFFSET);
    lane->clock = (struct ct_shm_clock *)(at + CT_SHM_CLOCK_OFFSET);
    lane->segments = (struct ct_shm_segment *)(at + c->segments_offset);
    lane->rules = (uint32_t *)(at + c->rules_offset);
    lane->conditions = (struct ct_trigger_condition *)(at + c->conditions_offset);
    lane->budgets = c->detail_rate ? (int32_t *)(at + c->budgets_offset) : NULL;
    lane->counts = c->sample ? (struct ct_shm_count *)(at + c->counts_offset) : NULL;
    lane->detail_pool = at + c->detail_pool_offset;
    lane->extra = c->extra_offset ? at + c->extra_offset : NULL;
}

/* ---- the memory itself ---- */

/* The target has made the file, and its seccomp filter may have answered for the kernel. So a file that can shrink,
 * that blocks on access, or that matters to somebody else, is refused before it is changed. */
static bool is_new_memfd(int fd) {
    struct stat info;
    struct statfs place;
    return !fstat(fd, &info) && S_ISREG(info.st_mode) && !info.st_nlink && !info.st_size && !fstatfs(fd, &place) &&
           place.f_type == TMPFS_MAGIC && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR && !fcntl(fd, F_GET_SEALS);
}

/* From now on the file neither shrinks nor grows: an access never ends in SIGBUS. */
static int fix_size(int fd, uint64_t size) {
    struct stat info;
    if (!is_new_memfd(fd))
        return CT_ERR_BAD_FILE;
    if (ftruncate(fd, (off_t)size))
        return CT_ERR_NO_MEMORY;
    bool fixed = !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) && !fstat(fd, &info);
    return fixed && (uint64_t)info.st_size == size ? 0 : CT_ERR_BAD_FILE;
}

int ct_lane_seal(struct ct_lane *lane) {
    int failed = fcntl(lane->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
    if (failed && errno == EINVAL) /* before Linux 5.1 */
        failed = fcntl(lane->fd, F_ADD_SEALS, F_SEAL_SEAL);
    return failed ? CT_ERR_BAD_FILE : 0;
}

int ct_lane_create(struct ct_lane *lane, int fd, const struct ct_lane_options *options) {
    struct ct_shm_control control;
    struct ct_lane parts = {0};
    uint64_t window = lay_out(&parts, &control, options);
    *lane = (struct ct_lane){
        .fd = fd,
        .size = control.size,
        .window = window,
        .chunk_bytes = control.chunk_bytes,
        .chunk_count = control.chunk_count,
        .thread_capacity = control.thread_capacity,
        .queue_room = control.queue_room,
        .lossless = options->lossless,
        .fast_clock = options->fast_clock,
        .segment_count = control.segment_count,
        .dry_count = control.dry,
        .detail_chunk_count = control.detail_chunk_count,
        .stack_bytes = control.stack_bytes,
        .hook_room = control.hook_room,
        .detail_rate = control.detail_rate,
        .detail_grows = options->detail_grows,
        .vectors = control.vectors,
        .reals = options->reals,
        .has_errno = control.errno_offset != 0,
        .strings = control.strings,
        .detail_key = control.detail_key,
    };
    memcpy(lane->segments_of_class, parts.segments_of_class, sizeof parts.segments_of_class);
    memcpy(lane->chunks_of_class, parts.chunks_of_class, sizeof parts.chunks_of_class);
    int status = fix_size(fd, lane->size);
    if (status)
        return status;
    void *at = mmap(NULL, lane->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return CT_ERR_NO_MEMORY;
    point_to_parts(lane, at, &control);
    *lane->control = control;
    *lane->clock = (struct ct_shm_clock){.tick = UINT64_MAX, .fast = options->fast_clock};
    lane->queue->wake_at = CT_SHM_NO_WAKE;
    if (lane->segment_count)
        cut_segments(lane, (uint16_t *)((uint8_t *)at + control.segment_of_chunk_offset));
    return 0;
}

/* Others that have the descriptor may move its file offset: only return values of lseek are used. */
bool ct_lane_find_used(const struct ct_lane *lane, size_t *from, size_t *to) {
    if (*from >= *to)
        return false;
    off_t data = lseek(lane->fd, (off_t)*from, SEEK_DATA);
    if (data < 0)
        return errno != ENXIO; /* the file system does not support it: all of it */
    off_t hole = lseek(lane->fd, data, SEEK_HOLE);
    if ((size_t)data >= *to)
        return false;
    if ((size_t)data > *from)
        *from = (size_t)data;
    if (hole > data && (size_t)hole < *to)
        *to = (size_t)hole;
    return true;
}

void ct_lane_refill_budgets(struct ct_lane *lane, size_t hooks) {
    int32_t rate = (int32_t)lane->detail_rate;
    for (size_t i = 0; lane->budgets && i < hooks && i < lane->hook_room; i++)
        __atomic_store_n(&lane->budgets[i], rate, __ATOMIC_RELAXED);
}

uint64_t ct_lane_calls(const struct ct_lane *lane, uint32_t hook) {
    uint64_t calls = 0;
    for (uint32_t bank = 0; lane->counts && hook < lane->hook_room && bank < CT_SHM_COUNT_BANKS; bank++)
        calls += __atomic_load_n(&lane->counts[(uint64_t)bank * lane->hook_room + hook].calls, __ATOMIC_RELAXED);
    return calls;
}

void ct_lane_mark(struct ct_lane *lane) {
    __atomic_fetch_add(&lane->control->mark_serial, 1, __ATOMIC_RELEASE); /* read by agent/agent_detail.c */
}

void ct_lane_segment(const struct ct_lane *lane, uint32_t segment, uint32_t *chunk, uint32_t *chunks) {
    unsigned k = 0;
    for (*chunk = 0; k < CT_LANE_CLASSES - 1 && segment >= lane->segments_of_class[k]; k++) {
        *chunk += lane->segments_of_class[k] * lane->chunks_of_class[k];
        segment -= lane->segments_of_class[k];
    }
    *chunks = lane->chunks_of_class[k];
    *chunk += segment * lane->chunks_of_class[k];
}

/* Clears only chunks that were used: the others may have no memory yet. */
void ct_lane_free_segment(struct ct_lane *lane, uint32_t segment) {
    struct ct_shm_segment *s = &lane->segments[segment];
    uint32_t chunk, chunks, turns = s->turns;
    ct_lane_segment(lane, segment, &chunk, &chunks);
    turns = s->again ? chunks : turns;
    for (uint32_t i = 0; i < chunks && i <= turns; i++)
        memset(lane->detail_pool + (2 * (uint64_t)(chunk + i) + 1) * CT_SHM_DETAIL_CHUNK, 0, CT_SHM_DETAIL_CHUNK);
    s->begin = s->again = 0;
    __atomic_store_n(&s->word, CT_SEGMENT_FREE, __ATOMIC_RELEASE); /* acquired by agent/agent_detail.c */
    if (segment < lane->segment_count)
        __atomic_fetch_add(&lane->control->free_segments, 1, __ATOMIC_RELAXED);
}

void ct_lane_count_segments(struct ct_lane *lane) {
    int32_t count = 0;
    for (uint32_t i = 0; i < lane->segment_count; i++)
        count += __atomic_load_n(&lane->segments[i].word, __ATOMIC_RELAXED) == CT_SEGMENT_FREE;
    __atomic_store_n(&lane->control->free_segments, count, __ATOMIC_RELAXED);
}

void ct_lane_destroy(struct ct_lane *lane) {
    if (lane->control)
        munmap(lane->control, lane->size);
    if (lane->fd >= 0)
        close(lane->fd);
    *lane = (struct ct_lane){.fd = -1};
}

/* The kernel finds the word by the address of the private node plus an offset, so it follows only our own memory. While
 * the thread holds the lane it locks no robust mutex of the C library, whose list is put away. */
int ct_lane_hold(struct ct_lane *lane) {
    struct ct_lane_robust *r = &lane->robust;
    size_t size;
    r->head.list.next = &r->node;
    r->head.futex_offset = (char *)&lane->control->liveness - (char *)&r->node;
    r->head.list_op_pending = NULL;
    r->node.next = &r->head.list;
    if (syscall(SYS_get_robust_list, 0, &r->before, &size))
        return CT_ERR_SYSTEM;
    __atomic_store_n(&lane->control->liveness, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    return syscall(SYS_set_robust_list, &r->head, sizeof r->head) ? CT_ERR_SYSTEM : 0;
}

void ct_lane_release(struct ct_lane *lane) {
    (void)syscall(SYS_set_robust_list, lane->robust.before, sizeof lane->robust.head);
    __atomic_store_n(&lane->control->liveness, 0, __ATOMIC_RELEASE);
}

bool ct_lane_change_word(struct ct_lane *lane, uint32_t chunk, uint64_t from, uint64_t to) {
    return __atomic_compare_exchange_n(&lane->chunks[chunk].word, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Adds a chunk to the list of free ones. Threads of the target may keep changing it, so the tries are counted: a chunk
 * that is not listed is found by a search. */
static void list_free(struct ct_lane *lane, uint32_t chunk) {
    uint64_t top = __atomic_load_n(&lane->queue->free_top, __ATOMIC_RELAXED);
    for (unsigned tries = 0; tries < LIST_TRIES && (uint32_t)top < lane->queue_room; tries++) {
        __atomic_store_n(&lane->free_list[(uint32_t)top], chunk, __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(&lane->queue->free_top, &top, top + (1ull << 32) + 1, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) /* acquired by take_listed in agent/agent_lane.c */
            return;
    }
}

void ct_lane_count_chunks(struct ct_lane *lane) {
    int32_t count = 0;
    for (uint32_t i = 0; i < lane->chunk_count; i++)
        count += CT_CHUNK_STATE(__atomic_load_n(&lane->chunks[i].word, __ATOMIC_RELAXED)) == CT_CHUNK_FREE;
    __atomic_store_n(&lane->control->free_chunks, count, __ATOMIC_RELAXED);
}

void ct_lane_pass_submitted(struct ct_lane *lane, uint64_t submits) {
    uint64_t oldest = __atomic_load_n(&lane->queue->oldest, __ATOMIC_RELAXED);
    if (oldest < submits) /* a thread that drops something at this moment wins */
        (void)__atomic_compare_exchange_n(&lane->queue->oldest, &oldest, submits, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED);
}

uint32_t ct_lane_copy_filled(struct ct_event *to, const struct ct_event *slots, uint32_t from, uint32_t end) {
    for (; from < end; from++, to++) {
        uint64_t what,
            timestamp = __atomic_load_n(&slots[from].timestamp, __ATOMIC_ACQUIRE); /* stored last by the stub */
        if (!timestamp)
            break;
        what = __atomic_load_n((const uint64_t *)&slots[from].hook, __ATOMIC_RELAXED);
        to->timestamp = timestamp;
        memcpy(&to->hook, &what, sizeof what);
    }
    return from;
}

void ct_lane_free_chunk(struct ct_lane *lane, uint32_t chunk) {
    struct ct_shm_chunk *c = &lane->chunks[chunk];
    memset((void *)(uintptr_t)ct_lane_events(lane, chunk), 0, lane->chunk_bytes);
    uint64_t word = CT_CHUNK_WORD(CT_CHUNK_FREE, 0, CT_CHUNK_GENERATION(c->word));
    __atomic_store_n(&c->word, word, __ATOMIC_RELEASE); /* acquired by try_free in agent/agent_lane.c */
    list_free(lane, chunk);
    __atomic_fetch_add(&lane->control->free_chunks, 1, __ATOMIC_RELAXED);
}

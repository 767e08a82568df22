/* See lane.h. */
#include "ctl/lane.h"
#include <contrail/status.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE            4096u
#define CHUNKS_WANTED   4096u /* so many threads can have one each; fewer and larger ones would not be faster */
#define CHUNK_MIN       4096u
#define CHUNK_MAX       65536u
#define CHUNKS_MIN      64u
#define THREAD_CAPACITY 16384u

_Static_assert(sizeof(pthread_mutex_t) <= sizeof((struct ct_shm_control *)0)->liveness, "it must fit");

static uint64_t round_up(uint64_t value, uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}

static void lay_out(struct ct_shm_control *c, size_t memory, bool lossless) {
    uint32_t bytes = CHUNK_MIN;
    while (bytes < CHUNK_MAX && (size_t)bytes * 2 * CHUNKS_WANTED <= memory)
        bytes *= 2;
    uint64_t count = memory / bytes;
    *c = (struct ct_shm_control){
        .magic = CT_SHM_MAGIC,
        .version = CT_SHM_VERSION,
        .chunk_bytes = bytes,
        .chunk_count = (uint32_t)(count < CHUNKS_MIN ? CHUNKS_MIN : count),
        .thread_capacity = THREAD_CAPACITY,
        .lossless = lossless,
        .recording = 1,
    };
    c->free_chunks = (int32_t)c->chunk_count;
    c->threads_offset = PAGE;
    c->chunks_offset = c->threads_offset + (uint64_t)THREAD_CAPACITY * sizeof(struct ct_shm_thread);
    c->pool_offset =
        round_up(c->chunks_offset + (uint64_t)c->chunk_count * sizeof(struct ct_shm_chunk), 2 * (uint64_t)bytes);
    c->size = c->pool_offset + 2 * (uint64_t)bytes * c->chunk_count;
}

int ct_lane_create(struct ct_lane *lane, int fd, size_t memory, bool lossless) {
    struct ct_shm_control control;
    lay_out(&control, memory, lossless);
    *lane = (struct ct_lane){
        .fd = fd,
        .size = control.size,
        .window = 2 * (uint64_t)control.chunk_bytes,
        .chunk_bytes = control.chunk_bytes,
        .chunk_count = control.chunk_count,
        .thread_capacity = control.thread_capacity,
    };
    if (ftruncate(fd, (off_t)lane->size))
        return CT_ERR_NO_MEMORY;
    void *at = mmap(NULL, lane->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return CT_ERR_NO_MEMORY;
    lane->control = at;
    *lane->control = control;
    lane->threads = (struct ct_shm_thread *)((uint8_t *)at + control.threads_offset);
    lane->chunks = (struct ct_shm_chunk *)((uint8_t *)at + control.chunks_offset);
    lane->pool = (uint8_t *)at + control.pool_offset;
    return 0;
}

void ct_lane_destroy(struct ct_lane *lane) {
    if (lane->control)
        munmap(lane->control, lane->size);
    if (lane->fd >= 0)
        close(lane->fd);
    *lane = (struct ct_lane){.fd = -1};
}

int ct_lane_hold(struct ct_lane *lane) {
    pthread_mutex_t *mutex = (pthread_mutex_t *)lane->control->liveness;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    int failed = pthread_mutex_init(mutex, &attributes) || pthread_mutex_lock(mutex);
    pthread_mutexattr_destroy(&attributes);
    return failed ? CT_ERR_SYSTEM : 0;
}

void ct_lane_release(struct ct_lane *lane) {
    pthread_mutex_unlock((pthread_mutex_t *)lane->control->liveness);
}

bool ct_lane_change_word(struct ct_lane *lane, uint32_t chunk, uint64_t from, uint64_t to) {
    return __atomic_compare_exchange_n(&lane->chunks[chunk].word, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

void ct_lane_free_chunk(struct ct_lane *lane, uint32_t chunk) {
    struct ct_shm_chunk *c = &lane->chunks[chunk];
    memset((void *)(uintptr_t)ct_lane_events(lane, chunk), 0, lane->chunk_bytes);
    uint64_t word = CT_CHUNK_WORD(CT_CHUNK_FREE, 0, CT_CHUNK_GENERATION(c->word));
    __atomic_store_n(&c->word, word, __ATOMIC_RELEASE); /* acquired by take_free in agent/lane.c */
    __atomic_fetch_add(&lane->control->free_chunks, 1, __ATOMIC_RELAXED);
}

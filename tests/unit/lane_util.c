/* SPDX-License-Identifier: Apache-2.0 */
/* See lane_util.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/tools/place_of.h"
#include "lane_util.h"
#include "os/os.h"
#include "os/thread.h"

static void map_view(struct lane_fixture *f) {
    f->view_size = f->lane.size + f->lane.window;
    f->view = mmap(NULL, f->view_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(f->view, MAP_FAILED);
    uint8_t *at = (uint8_t *)(((uint64_t)f->view + f->lane.window - 1) / f->lane.window * f->lane.window);
    assert_ptr_equal(mmap(at, f->lane.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, f->lane.fd, 0), at);
    assert_true(ct_agent_lane_open((uint64_t)at));
}

void lane_start(struct lane_fixture *f, size_t memory, bool lossless, uint32_t chunks) {
    lane_start_with(f, &(struct ct_lane_options){.index_memory = memory, .lossless = lossless}, chunks);
}

void lane_start_with(struct lane_fixture *f, const struct ct_lane_options *options, uint32_t chunks) {
    memset(f, 0, sizeof *f);
    int fd = memfd_create("lane", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ct_lane_create(&f->lane, fd, options), 0);
    if (chunks) {
        assert_true(chunks <= f->lane.control->chunk_count);
        f->lane.control->chunk_count = f->lane.chunk_count = chunks;
        f->lane.control->free_chunks = (int32_t)chunks;
    }
    map_view(f);
    f->runtime.pid = ct_os_getpid();
    f->runtime.max_depth = 64;
    f->runtime.buffer_bytes = f->lane.control->chunk_bytes;
    f->runtime.children_blind = 1;
    f->runtime.parked = ct_os_alloc(CT_PARKED_CAPACITY * sizeof *f->runtime.parked, CT_OS_READ | CT_OS_WRITE);
    ct_clock_start(&f->clock);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

void lane_end(struct lane_fixture *f) {
    if (f->drain.threads_end)
        ct_drain_free(&f->drain);
    for (struct ct_block *b = f->runtime.blocks, *next; b; b = next) {
        next = b->next;
        ct_os_free(b, b->size);
    }
    ct_os_free(f->runtime.parked, CT_PARKED_CAPACITY * sizeof *f->runtime.parked);
    munmap(f->view, f->view_size);
    ct_lane_destroy(&f->lane);
    free(f->function_ids);
    if (f->directory[0])
        nftw(f->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    memset(f, 0, sizeof *f);
}

struct ct_block *lane_thread(struct lane_fixture *f) {
    struct ct_block *b = ct_block_create(&f->runtime, ct_os_gettid(), ct_os_thread_pointer());
    assert_non_null(b);
    return b;
}

/* As retire_ended in hook/block.c does. */
void lane_thread_ends(struct ct_block *b) {
    ct_event_drain(b);
    b->in_use = 0;
}

static void count_second(void *arg) {
    ((struct lane_fixture *)arg)->seconds++;
}

void lane_prepare_drain(struct lane_fixture *f) {
    strcpy(f->directory, "/tmp/contrail-lane-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    f->function_ids = malloc(MAX_HOOKS * sizeof *f->function_ids);
    assert_non_null(f->function_ids);
    for (uint32_t i = 0; i < MAX_HOOKS; i++)
        f->function_ids[i] = i + 1;
    while (ct_clock_now() - f->clock.first.ns < 2000000)
        usleep(200);
    ct_clock_calibrate(&f->clock);
    f->drain = (struct ct_drain){
        .lane = &f->lane,
        .clock = &f->clock,
        .function_ids = f->function_ids,
        .hook_count = MAX_HOOKS,
        .place = place_of(f->directory),
        .pid = ct_os_getpid(),
        .interval_ms = 1,
        .spare_threads = 1u << 20,                      /* most threads of these tests are blocks without one */
        .format = {.encoding = CT_SESSION_FORMAT_ATF2}, /* what lane_read reads */
        .every_second = count_second,
        .every_second_arg = f,
    };
}

void lane_start_drain(struct lane_fixture *f) {
    lane_prepare_drain(f);
    assert_int_equal(ct_drain_start(&f->drain), 0);
}

int lane_finish_drain(struct lane_fixture *f) {
    return ct_drain_finish(&f->drain);
}

struct atf_index_event *lane_read(struct lane_fixture *f, uint32_t id, size_t *count) {
    char path[128];
    struct atf_index_header header;
    snprintf(path, sizeof path, "%s/thread_%u/index.atf", f->directory, id);
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    assert_int_equal(fread(&header, sizeof header, 1, file), 1);
    assert_memory_equal(header.magic, ATF_INDEX_MAGIC, 4);
    *count = header.event_count;
    struct atf_index_event *events = malloc(*count * sizeof *events + 1);
    assert_non_null(events);
    assert_int_equal(fread(events, sizeof *events, *count, file), *count);
    fclose(file);
    return events;
}

struct ct_drain_thread *lane_drained_thread(struct lane_fixture *f, uint32_t id) {
    struct ct_drain_thread *t = f->drain.threads;
    while (t && t->id != id)
        t = t->next;
    return t;
}

uint32_t lane_chunks_in(const struct lane_fixture *f, enum ct_chunk_state state) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->lane.control->chunk_count; i++)
        count += CT_CHUNK_STATE(ct_lane_word(&f->lane, i)) == state;
    return count;
}

uint64_t lane_lost(const struct lane_fixture *f) {
    uint64_t sum = 0;
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        sum += f->drain.statistics.lost[i];
    return sum;
}

uint32_t lane_room(const struct lane_fixture *f, const struct ct_block *b) {
    uint64_t bytes = f->lane.control->chunk_bytes;
    return b->cursor & bytes ? (uint32_t)((bytes - (b->cursor & (bytes - 1))) / CT_EVENT_SIZE) : 0;
}

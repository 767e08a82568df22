/* SPDX-License-Identifier: Apache-2.0 */
/* The index lane, from the agent's side: chunks are taken, filled, submitted, dropped; threads come and go; signal
 * handlers write in the middle of swaps; the controller dies; the process forks. Each event carries a running number as
 * its hook, so that order, losses and doubles show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <stdint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "lane_util.h"
#include "os/os.h"
#include "os/thread.h"
#include <contrail/status.h>

#define SMALL (256u << 10) /* 64 chunks of 256 events */

static struct lane_fixture f;

static int clean(void **state) {
    (void)state;
    if (f.lane.control)
        lane_end(&f);
    return 0;
}

static void write_numbered(struct ct_block *b, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++)
        ct_event_write(b, i, CT_EVENT_ENTRY);
}

static uint32_t chunk_of(const struct ct_block *b) {
    uint64_t pool =
        ((uint64_t)f.view + f.lane.window - 1) / f.lane.window * f.lane.window + f.lane.control->pool_offset;
    return (uint32_t)((b->cursor - 1 - pool) / (2 * f.lane.chunk_bytes));
}

static const struct ct_shm_chunk *header_of(uint32_t chunk) {
    return &f.lane.chunks[chunk];
}

static unsigned state_of(uint32_t chunk) {
    return CT_CHUNK_STATE(ct_lane_word(&f.lane, chunk));
}

/* ---- chunks ---- */

static void test_swap_at_full_chunk(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    struct ct_block *b = lane_thread(&f);
    uint32_t capacity = lane_capacity(&f);
    assert_int_equal(lane_chunks_in(&f, CT_CHUNK_FREE), f.lane.control->chunk_count);
    write_numbered(b, 0, 1);
    uint32_t first = chunk_of(b);
    assert_int_equal(state_of(first), CT_CHUNK_ACTIVE);
    assert_int_equal(f.lane.control->free_chunks, f.lane.control->chunk_count - 1);
    write_numbered(b, 1, capacity);
    assert_int_equal(state_of(first), CT_CHUNK_ACTIVE); /* full, but nobody needs another yet */
    assert_int_equal(ct_lane_submits(&f.lane), 0);
    write_numbered(b, capacity, capacity + 1);
    uint32_t second = chunk_of(b);
    assert_int_not_equal(first, second);
    assert_int_equal(state_of(first), CT_CHUNK_FULL);
    assert_int_equal(state_of(second), CT_CHUNK_ACTIVE);
    assert_int_equal(ct_lane_submits(&f.lane), 1);
    assert_int_equal(f.lane.submitted[0], (uint64_t)header_of(first)->generation << 32 | first);
    assert_int_equal(header_of(first)->number, 1);
    assert_int_equal(header_of(second)->number, 2);
    const struct ct_event *events = ct_lane_events(&f.lane, first);
    for (uint32_t i = 0; i < capacity; i++) {
        assert_int_equal(events[i].hook, i);
        assert_int_equal(events[i].kind, CT_EVENT_ENTRY);
        assert_true(events[i].timestamp != 0);
    }
    assert_int_equal(ct_lane_events(&f.lane, second)->hook, capacity);
    assert_int_equal(lane_room(&f, b), capacity - 1);
}

static void test_numbers_and_order(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    struct ct_block *b = lane_thread(&f), *other = lane_thread(&f);
    uint32_t capacity = lane_capacity(&f);
    for (uint32_t i = 1; i <= 20; i++) {
        write_numbered(b, 0, capacity);
        write_numbered(other, 0, 2 * capacity);
        uint32_t chunk = chunk_of(b);
        assert_int_equal(header_of(chunk)->number, i);
        assert_int_equal(header_of(chunk)->thread, b->lane_slot);
        assert_int_equal(header_of(chunk)->thread_generation, f.lane.threads[b->lane_slot].generation);
        write_numbered(b, 0, 1);
        assert_int_equal(state_of(chunk), CT_CHUNK_FULL);
        write_numbered(b, 0, lane_room(&f, b));
        assert_int_equal(header_of(chunk_of(b))->number, ++i);
    }
}

/* Frames that are open before a chunk's first event. A call's own frame is on the shadow stack already. */
static void test_depth_in_headers(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    struct ct_block *b = lane_thread(&f);
    static const struct {
        uint32_t kind, frames, depth;
    } cases[] = {{CT_EVENT_CALL, 1, 0},  {CT_EVENT_CALL, 5, 4},      {CT_EVENT_RETURN, 5, 5}, {CT_EVENT_RETURN, 1, 1},
                 {CT_EVENT_ENTRY, 3, 3}, {CT_EVENT_EXCEPTION, 2, 2}, {CT_EVENT_ENTRY, 0, 0},  {CT_EVENT_CALL, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        b->top = b->base + 1 + cases[i].frames;
        ct_event_write(b, 0, cases[i].kind);
        assert_int_equal(header_of(chunk_of(b))->depth, cases[i].depth);
        b->top = b->base + 1;
        write_numbered(b, 0, lane_room(&f, b));
    }
}

/* Chunk sizes that the command line can ask for; all offsets fit and addresses show what they should. */
static void test_layouts(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 4096, 100000, 1u << 20, 16u << 20, 32u << 20, 100u << 20, 1u << 30};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        lane_start(&f, sizes[i], false, 0);
        const struct ct_shm_control *c = f.lane.control;
        assert_int_equal(c->chunk_bytes & (c->chunk_bytes - 1), 0);
        assert_true((uint64_t)c->chunk_bytes * c->chunk_count <= (sizes[i] > SMALL ? sizes[i] : SMALL));
        assert_int_equal(c->pool_offset % (2 * c->chunk_bytes), 0);
        struct ct_block *b = lane_thread(&f);
        for (unsigned k = 0; k < 3; k++) {
            write_numbered(b, 0, 1);
            assert_true(b->cursor & c->chunk_bytes);
            write_numbered(b, 0, lane_room(&f, b));
            assert_false(b->cursor & c->chunk_bytes);
        }
        lane_end(&f);
    }
}

/* ---- losses ---- */

/* Numbers rise; where one is missing there is a gap at this very place with this very loss. */
static void check_gaps(uint32_t id, uint64_t happened) {
    size_t count, gap = 0;
    struct atf_index_event *e = lane_read(&f, id, &count);
    const struct ct_drain_thread *t = lane_drained_thread(&f, id);
    assert_non_null(e);
    assert_int_equal(count, t->events);
    uint64_t next = 1, lost = 0;
    for (size_t i = 0; i <= count; i++) {
        uint64_t number = i < count ? e[i].function_id : happened + 1;
        assert_true(number >= next);
        if (number > next) {
            assert_true(gap < t->gap_count);
            assert_int_equal(t->gaps[gap].at, i);
            assert_int_equal(t->gaps[gap].lost, number - next);
            lost += t->gaps[gap++].lost;
        }
        next = number + 1;
        if (i && i < count)
            assert_true(e[i].timestamp_ns >= e[i - 1].timestamp_ns);
    }
    assert_int_equal(gap, t->gap_count);
    assert_int_equal(count + lost, happened);
    uint64_t counted = 0;
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        counted += t->lost[i];
    assert_int_equal(counted, lost);
    free(e);
}

/* Nobody reads for a while: the newest stay, the rest is counted. */
static void test_drop_oldest(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    struct ct_block *b = lane_thread(&f);
    uint32_t capacity = lane_capacity(&f), chunks = f.lane.control->chunk_count;
    uint32_t happened = capacity * chunks * 3 + capacity / 2;
    write_numbered(b, 0, happened);
    uint64_t lost = f.lane.threads[b->lane_slot].lost[CT_LOSS_DRAIN_LAG];
    assert_true(lost >= (uint64_t)capacity * chunks * 2 - capacity && lost % capacity == 0);
    assert_int_equal(lane_chunks_in(&f, CT_CHUNK_FULL) + 1, chunks);
    lane_start_drain(&f);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(f.drain.statistics.events + lane_lost(&f), happened);
    assert_int_equal(lane_lost(&f), lost);
    check_gaps(1, happened);
}

/* A chunk is taken while it is in use, all of it. Then the thread fills all others, and drops it. */
static bool drop_taken(void *arg) {
    struct ct_block *b = arg;
    uint32_t capacity = lane_capacity(&f), chunks = f.lane.control->chunk_count;
    uint64_t word = ct_lane_word(&f.lane, 0);
    if (CT_CHUNK_STATE(word) == CT_CHUNK_FREE) {
        write_numbered(b, 0, capacity);
    } else if (CT_CHUNK_STATE(word) == CT_CHUNK_ACTIVE && CT_CHUNK_GENERATION(word) == 1) {
        assert_int_equal(CT_CHUNK_DRAINED(word), capacity);
        write_numbered(b, capacity, capacity * (chunks + 1));
        word = ct_lane_word(&f.lane, 0);
        assert_int_equal(CT_CHUNK_GENERATION(word), 2);
    }
    return true;
}

/* Nothing is missing then, so there is no gap. */
static void test_drop_taken(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 4);
    struct ct_block *b = lane_thread(&f);
    lane_prepare_drain(&f);
    f.drain.every_pass = drop_taken;
    f.drain.on_pass_arg = b;
    assert_int_equal(ct_drain_start(&f.drain), 0);
    uint32_t happened = lane_capacity(&f) * (f.lane.control->chunk_count + 1);
    while (__atomic_load_n(&f.drain.statistics.events, __ATOMIC_RELAXED) < happened)
        usleep(1000);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(lane_lost(&f), 0);
    assert_int_equal(lane_drained_thread(&f, 1)->gap_count, 0);
    check_gaps(1, happened);
}

struct writer {
    pthread_t thread;
    uint32_t events, pause_every;
};

static void *write_from_thread(void *arg) {
    struct writer *w = arg;
    struct ct_block *b = lane_thread(&f);
    for (uint32_t i = 0; i < w->events; i++) {
        ct_event_write(b, i, CT_EVENT_ENTRY);
        if (w->pause_every && i % w->pause_every == 0)
            usleep(1000);
    }
    lane_thread_ends(b);
    return NULL;
}

static void run_writers(struct writer *writers, size_t count) {
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_from_thread, &writers[i]), 0);
    for (size_t i = 0; i < count; i++)
        pthread_join(writers[i].thread, NULL);
}

/* Writers that are faster than the drain: written + lost is exactly what happened, for each thread, at each gap. */
static void test_accounting_under_lag(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 8);
    lane_start_drain(&f);
    struct writer writers[3] = {{.events = 400000}, {.events = 400000}, {.events = 30000, .pause_every = 3000}};
    run_writers(writers, 3);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(f.drain.statistics.threads_seen, 3);
    assert_int_equal(f.drain.statistics.events + lane_lost(&f), 830000);
    assert_int_equal(f.drain.statistics.abandoned, 0);
    for (uint32_t id = 1; id <= 3; id++) {
        const struct ct_drain_thread *t = lane_drained_thread(&f, id);
        uint64_t sum = t->events;
        for (int i = 0; i < CT_LOSS_COUNT; i++)
            sum += t->lost[i];
        assert_true(sum == 400000 || sum == 30000);
        check_gaps(id, sum);
    }
}

static void test_lossless(void **state) {
    (void)state;
    lane_start(&f, SMALL, true, 8);
    lane_start_drain(&f);
    struct writer writers[3] = {{.events = 300000}, {.events = 300000}, {.events = 30000, .pause_every = 3000}};
    run_writers(writers, 3);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(lane_lost(&f), 0);
    assert_int_equal(f.drain.statistics.events, 630000);
    for (uint32_t id = 1; id <= 3; id++)
        check_gaps(id, lane_drained_thread(&f, id)->events);
}

/* Idle threads hold all chunks: a thread that waits for one of them waits for ever. The loss is counted, the program
 * goes on. */
static void test_lossless_with_too_many_threads(void **state) {
    (void)state;
    lane_start(&f, SMALL, true, 4);
    lane_start_drain(&f);
    struct ct_block *b[6];
    for (unsigned i = 0; i < 6; i++) {
        b[i] = lane_thread(&f);
        write_numbered(b[i], 0, 100);
    }
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(f.drain.statistics.events, 400);
    assert_int_equal(f.drain.statistics.lost[CT_LOSS_POOL_EXHAUSTED], 200);
}

/* More threads than chunks, none of them full: the newcomers' events are lost, and said so where they were. */
static void test_pool_exhausted(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 4);
    struct ct_block *b[6];
    for (unsigned i = 0; i < 6; i++) {
        b[i] = lane_thread(&f);
        write_numbered(b[i], 0, 100);
    }
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(f.lane.threads[b[i]->lane_slot].lost[CT_LOSS_POOL_EXHAUSTED], i < 4 ? 0 : 100);
    /* One gets a chunk when another's is full and drained: that one has lost an event first. */
    write_numbered(b[0], 100, lane_capacity(&f));
    lane_start_drain(&f);
    write_numbered(b[0], lane_capacity(&f), lane_capacity(&f) + 1);
    while (__atomic_load_n(&f.lane.control->free_chunks, __ATOMIC_RELAXED) < 1)
        usleep(1000);
    write_numbered(b[4], 100, 150);
    assert_int_equal(header_of(chunk_of(b[4]))->exhausted, 100);
    assert_int_equal(lane_finish_drain(&f), 0);
    uint64_t sums[6] = {lane_capacity(&f) + 1, 100, 100, 100, 150, 100}, happened = 0;
    for (unsigned i = 0; i < 6; i++)
        happened += sums[i];
    assert_int_equal(f.drain.statistics.events + lane_lost(&f), happened);
    assert_int_equal(f.drain.statistics.threads_seen, 6); /* the last one too, which has lost everything */
    for (struct ct_drain_thread *t = f.drain.threads; t; t = t->next)
        for (unsigned i = 0; i < 6; i++)
            if (t->slot == b[i]->lane_slot)
                check_gaps(t->id, sums[i]);
}

/* ---- threads ---- */

static void test_slots_are_reused(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    lane_start_drain(&f);
    uint32_t capacity = f.lane.control->thread_capacity, lost = 0;
    f.lane.control->thread_capacity = capacity = 8;
    for (uint32_t i = 0; i < 200; i++) {
        struct ct_block *b = lane_thread(&f);
        while (!b->cursor) { /* all slots are in use: the thread was not recorded */
            lost++;
            lane_thread_ends(b);
            usleep(1000);
            b = lane_thread(&f);
        }
        write_numbered(b, i * 10, i * 10 + 10);
        lane_thread_ends(b);
    }
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(f.lane.control->lost_threads, lost);
    assert_int_equal(f.drain.statistics.threads_seen, 200);
    assert_int_equal(f.drain.statistics.events, 2000);
    assert_int_equal(f.drain.statistics.abandoned, 0);
    assert_true(f.lane.control->thread_high <= capacity);
    uint8_t seen[200] = {0};
    for (uint32_t id = 1; id <= 200; id++) {
        size_t count;
        struct atf_index_event *e = lane_read(&f, id, &count);
        assert_int_equal(count, 10);
        for (size_t k = 0; k < 10; k++)
            assert_int_equal(e[k].function_id, e[0].function_id + k);
        seen[(e[0].function_id - 1) / 10]++;
        free(e);
    }
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(seen[i], 1);
}

static void test_name_is_known(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    struct ct_block *b = lane_thread(&f);
    assert_string_equal(f.lane.threads[b->lane_slot].name, name);
    assert_int_equal(f.lane.threads[b->lane_slot].tid, ct_os_gettid());
    assert_int_equal(f.lane.threads[b->lane_slot].state, CT_THREAD_ALIVE);
}

/* ---- signal handlers ---- */

static __thread struct ct_block *mine;
static __thread uint32_t handler_events;
static __thread uint32_t handler_writes;

/* Program and handler number their events each for itself: even ones and odd ones. */
static void write_in_handler(int number) {
    (void)number;
    if (!mine || handler_events > MAX_HOOKS / 2 - 1000)
        return;
    for (uint32_t i = 0; i < handler_writes; i++)
        ct_event_write(mine, 2 * handler_events++ + 1, CT_EVENT_ENTRY);
}

struct stormy {
    pthread_t thread;
    uint32_t events, handled, writes;
    int timer_us, ready;
};

static void *write_in_storm(void *arg) {
    struct stormy *s = arg;
    struct ct_block *b = lane_thread(&f);
    timer_t timer;
    struct sigevent how = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    how._sigev_un._tid = ct_os_gettid();
    handler_events = 0;
    handler_writes = s->writes;
    mine = b;
    if (s->timer_us) {
        struct itimerspec when = {{0, s->timer_us * 1000}, {0, s->timer_us * 1000}};
        assert_int_equal(timer_create(CLOCK_MONOTONIC, &how, &timer), 0);
        assert_int_equal(timer_settime(timer, 0, &when, NULL), 0);
    }
    __atomic_store_n(&s->ready, 1, __ATOMIC_RELEASE);
    uint32_t count = 0;
    for (; count < s->events || (handler_events < 200 && count < MAX_HOOKS / 2); count++)
        ct_event_write(b, 2 * count, CT_EVENT_ENTRY);
    s->events = count;
    if (s->timer_us)
        timer_delete(timer);
    __atomic_store_n(&s->ready, 2, __ATOMIC_RELEASE);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    s->handled = handler_events;
    mine = NULL;
    lane_thread_ends(b);
    return NULL;
}

static void handle(int signal, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    assert_int_equal(sigaction(signal, &action, NULL), 0);
}

/* Both sequences are whole, whichever thread's they are. */
static void check_sequences(struct stormy *s, size_t count) {
    uint64_t total = 0;
    for (uint32_t id = 1; id <= count; id++) {
        size_t n;
        struct atf_index_event *e = lane_read(&f, id, &n);
        assert_non_null(e);
        uint64_t next[2] = {0, 0};
        for (size_t i = 0; i < n; i++) {
            uint64_t number = e[i].function_id - 1;
            assert_int_equal(number >> 1, next[number & 1]);
            next[number & 1]++;
        }
        free(e);
        total += n;
        bool known = false;
        for (size_t k = 0; k < count; k++)
            known |= next[0] == s[k].events && next[1] == s[k].handled;
        assert_true(known);
    }
    assert_int_equal(f.drain.statistics.events, total);
}

static void run_storm(struct stormy *s, size_t count, bool from_outside) {
    handle(SIGUSR1, write_in_handler);
    lane_start_drain(&f);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&s[i].thread, NULL, write_in_storm, &s[i]), 0);
    for (bool more = from_outside; more;) {
        more = false;
        for (size_t i = 0; i < count; i++) {
            int ready = __atomic_load_n(&s[i].ready, __ATOMIC_ACQUIRE);
            more |= ready != 2;
            if (ready == 1)
                pthread_kill(s[i].thread, SIGUSR1);
        }
        usleep(1); /* handlers without end would hold up what they have interrupted for so long that it is given up */
    }
    uint32_t handled = 0;
    for (size_t i = 0; i < count; i++) {
        pthread_join(s[i].thread, NULL);
        handled += s[i].handled;
    }
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_true(handled >= 100);
    assert_int_equal(lane_lost(&f), 0);
    assert_int_equal(f.drain.statistics.abandoned, 0);
    assert_int_equal(f.drain.statistics.threads_seen, count);
    check_sequences(s, count);
}

static void test_timers(void **state) {
    (void)state;
    lane_start(&f, 8u << 20, true, 0);
    struct stormy s[3] = {{.events = 500000, .timer_us = 20, .writes = 1},
                          {.events = 500000, .timer_us = 35, .writes = 100},
                          {.events = 500000, .timer_us = 50, .writes = 300}};
    run_storm(s, 3, false);
}

static void test_signals_from_another_thread(void **state) {
    (void)state;
    lane_start(&f, 8u << 20, true, 0);
    struct stormy s[2] = {{.events = 300000, .writes = 3}, {.events = 300000, .writes = 255}};
    run_storm(s, 2, true);
}

/* ---- the controller's death ---- */

static void test_controller_dies(void **state) {
    (void)state;
    lane_start(&f, SMALL, true, 4); /* lossless: nobody must wait for the dead */
    struct ct_block *b = lane_thread(&f);
    int told[2];
    char byte;
    assert_int_equal(pipe(told), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)!write(told[1], ct_lane_hold(&f.lane) ? "-" : "+", 1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(told[0], &byte, 1), 1);
    assert_int_equal(byte, '+');
    write_numbered(b, 0, 3 * lane_capacity(&f));
    assert_int_equal(f.lane.control->agent_error, CT_AGENT_NO_ERROR);
    /* One that may be switched off, in memory of its own. */
    uint64_t *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ct_boot_stub stub = {(uint64_t)code + 64, 0x1122334455667788};
    struct ct_boot_region region = {(uint64_t)code, 4096};
    struct ct_boot_code more = {
        .stubs = (uint64_t)&stub, .stub_count = 1, .regions = (uint64_t)&region, .region_count = 1};
    struct ct_boot_code first = {.next = (uint64_t)&more};
    ct_agent_lane_set_code(&first);
    kill(child, SIGSTOP); /* a stopped controller is not a dead one */
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    write_numbered(b, 0, lane_capacity(&f));
    assert_int_equal(f.lane.control->agent_error, CT_AGENT_NO_ERROR);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(f.lane.control->liveness & CT_SHM_OWNER_DIED);
    write_numbered(b, 0, 10 * lane_capacity(&f));
    assert_int_equal(f.lane.control->agent_error, CT_AGENT_CONTROLLER_DIED);
    assert_int_equal(f.lane.control->agent_state, CT_AGENT_STOPPED);
    assert_int_equal(code[8], 0x1122334455667788);
    assert_false(b->cursor & b->event_bit);
    struct ct_block *late = lane_thread(&f); /* a thread that starts now is not recorded */
    assert_int_equal(late->cursor, 0);
    write_numbered(late, 0, 1000);
    assert_int_equal(late->cursor, 0);
    munmap(code, 4096);
    close(told[0]);
    close(told[1]);
}

static void test_recording_is_switched_off(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    struct ct_block *b = lane_thread(&f);
    write_numbered(b, 0, 10);
    f.lane.control->recording = 0;
    write_numbered(b, 10, 5 * lane_capacity(&f));
    assert_int_equal(lane_chunks_in(&f, CT_CHUNK_FREE), f.lane.control->chunk_count - 1);
    assert_int_equal(lane_chunks_in(&f, CT_CHUNK_FULL), 1);
    assert_int_equal(lane_thread(&f)->cursor, 0);
}

/* ---- the memory itself ---- */

static int try_lane(int fd) {
    struct ct_lane lane = {0};
    int status = ct_lane_create(&lane, fd, &(struct ct_lane_options){.index_memory = SMALL});
    ct_lane_destroy(&lane);
    return status;
}

/* The target makes the descriptor, and may answer with any other of its own. None of them is changed. */
static void test_other_descriptors(void **state) {
    (void)state;
    char path[] = "/tmp/contrail-lane-XXXXXX", place[32];
    struct stat info;
    int file = mkstemp(path);
    assert_true(file >= 0 && write(file, "precious", 8) == 8);
    assert_int_equal(try_lane(dup(file)), CT_ERR_BAD_FILE);
    assert_int_equal(unlink(path), 0); /* a file without a name is still none of ours */
    assert_int_equal(try_lane(dup(file)), CT_ERR_BAD_FILE);
    assert_int_equal(fstat(file, &info), 0);
    assert_int_equal(info.st_size, 8);
    close(file);
    assert_int_equal(try_lane(open("/dev/zero", O_RDWR)), CT_ERR_BAD_FILE);
    assert_int_equal(try_lane(memfd_create("lane", 0)), CT_ERR_BAD_FILE); /* cannot be sealed */
    int full = memfd_create("lane", MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(full, 4096), 0);
    assert_int_equal(try_lane(full), CT_ERR_BAD_FILE);
    int sealed = memfd_create("lane", MFD_ALLOW_SEALING);
    assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_SEAL), 0);
    assert_int_equal(try_lane(sealed), CT_ERR_BAD_FILE);
    int new = memfd_create("lane", MFD_ALLOW_SEALING);
    snprintf(place, sizeof place, "/proc/self/fd/%d", new);
    assert_int_equal(try_lane(open(place, O_RDONLY)), CT_ERR_BAD_FILE);
    assert_int_equal(try_lane(new), 0);
    assert_int_equal(try_lane(-1), CT_ERR_BAD_FILE);
}

/* It cannot shrink under us, and a process without a mapping for writing gets none. */
static void test_seals(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    assert_int_equal(ftruncate(f.lane.fd, 0), -1);
    assert_int_equal(ftruncate(f.lane.fd, (off_t)f.lane.size * 2), -1);
    assert_int_equal(ct_lane_seal(&f.lane), 0);
    void *got = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f.lane.fd, 0);
    assert_ptr_equal(got, MAP_FAILED);
    assert_int_equal(pwrite(f.lane.fd, "x", 1, 0), -1);
    assert_int_equal(fallocate(f.lane.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    write_numbered(lane_thread(&f), 0, 3 * lane_capacity(&f)); /* mappings that are there work */
}

/* What lies beside the word in shared memory is nothing that anybody follows. */
static void test_liveness_is_a_word(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    struct ct_shm_control *c = f.lane.control;
    assert_int_equal(ct_lane_hold(&f.lane), 0);
    assert_int_equal(c->liveness, ct_os_gettid());
    for (size_t i = 0; i < sizeof c->pad_liveness; i++)
        assert_int_equal(c->pad_liveness[i], 0);
    memset(&c->liveness, 0x41, sizeof c->liveness + sizeof c->pad_liveness);
    ct_lane_release(&f.lane);
    assert_int_equal(c->liveness, 0);
    pthread_mutexattr_t robust; /* the C library's own list is back */
    pthread_mutex_t mutex;
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    assert_int_equal(pthread_mutex_init(&mutex, &robust), 0);
    assert_int_equal(pthread_mutex_lock(&mutex), 0);
    assert_int_equal(pthread_mutex_unlock(&mutex), 0);
}

/* ---- fork ---- */

/* Whoever is in the child, nothing of it shows in the memory that parent and controller share. */
static void *write_in_childs_thread(void *arg) {
    (void)arg;
    struct ct_block *b = lane_thread(&f);
    write_numbered(b, 0, 3 * lane_capacity(&f));
    return NULL;
}

static void act_in_child(struct ct_block *b) {
    write_numbered(b, 0, 3 * lane_capacity(&f)); /* its first page is wiped */
    assert_int_equal(ct_os_set_block(b), 0);
    if (ct_block_current() != b || !b->detached)
        _exit(1);
    write_numbered(b, 0, 3 * lane_capacity(&f));
    b->counters->deep_calls++;
    pthread_t thread;
    if (pthread_create(&thread, NULL, write_in_childs_thread, NULL))
        _exit(2);
    pthread_join(thread, NULL);
    f.lane.control->liveness |= 0; /* (reads are fine) */
    _exit(0);
}

static void test_fork(void **state) {
    (void)state;
    lane_start(&f, SMALL, false, 0);
    struct ct_block *b = lane_thread(&f), *other = lane_thread(&f);
    write_numbered(b, 0, lane_capacity(&f) + 17);
    write_numbered(other, 0, 5);
    uint8_t *before = malloc(f.lane.size);
    memcpy(before, f.lane.control, f.lane.size);
    pid_t child = fork();
    if (child == 0)
        act_in_child(b);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_memory_equal(before, f.lane.control, f.lane.size);
    free(before);
    write_numbered(b, 0, 1); /* and we go on */
    assert_int_equal(header_of(chunk_of(b))->number, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_swap_at_full_chunk, clean),
        cmocka_unit_test_teardown(test_numbers_and_order, clean),
        cmocka_unit_test_teardown(test_depth_in_headers, clean),
        cmocka_unit_test_teardown(test_layouts, clean),
        cmocka_unit_test_teardown(test_drop_oldest, clean),
        cmocka_unit_test_teardown(test_drop_taken, clean),
        cmocka_unit_test_teardown(test_accounting_under_lag, clean),
        cmocka_unit_test_teardown(test_lossless, clean),
        cmocka_unit_test_teardown(test_lossless_with_too_many_threads, clean),
        cmocka_unit_test_teardown(test_pool_exhausted, clean),
        cmocka_unit_test_teardown(test_slots_are_reused, clean),
        cmocka_unit_test_teardown(test_name_is_known, clean),
        cmocka_unit_test_teardown(test_timers, clean),
        cmocka_unit_test_teardown(test_signals_from_another_thread, clean),
        cmocka_unit_test_teardown(test_recording_is_switched_off, clean),
        cmocka_unit_test(test_other_descriptors),
        cmocka_unit_test_teardown(test_seals, clean),
        cmocka_unit_test_teardown(test_liveness_is_a_word, clean),
        cmocka_unit_test_teardown(test_fork, clean),
        cmocka_unit_test_teardown(test_controller_dies, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

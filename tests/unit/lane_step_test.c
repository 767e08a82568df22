/* SPDX-License-Identifier: Apache-2.0 */
/* A signal at every instruction of a swap.
 *
 * A child fills its chunk to the last slot, then records one more call in a window between two breakpoints, again and
 * again. Its parent lets it run k instructions into the k-th window and delivers a signal there, whose handler records
 * events of its own: one, or more than a chunk's worth. It then returns, or leaves by siglongjmp; then the shadow entry
 * of the call that was interrupted is closed as the hooks do it. At the end everything is drained, and the child
 * compares: each window holds its call and the handler's events exactly once, whatever was hit; a call that was jumped
 * out of is there with its end, or not at all; no chunk has been lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "lane_util.h"
#include "os/os.h"
#include "step_util.h"

__asm__(".text\n"
        ".balign 16\n"
        "window_begin: int3\n ret\n"
        ".balign 16\n"
        "window_end: int3\n ret\n");
void window_begin(void), window_end(void);

struct kind {
    const char *name;
    uint32_t handler_events;
    bool jumps, crowded; /* no chunk is free: the oldest must go */
};

#define MAX_WINDOWS 4000
#define FILLER      0u
#define CALL_OF(w)  (2 * (uint32_t)(w) + 2)
#define EXTRA_OF(w) (2 * (uint32_t)(w) + 3)

static struct lane_fixture f;
static struct kind kind;
static struct ct_block *b;
static volatile long done; /* poked by the parent */
static volatile int window, hits[MAX_WINDOWS];
static volatile sig_atomic_t armed;
static sigjmp_buf out;
static uint64_t written; /* for sure */

/* ---- the child ---- */

static void handler(int number) {
    (void)number;
    hits[window]++;
    for (uint32_t i = 0; i < kind.handler_events; i++)
        ct_event_write(b, EXTRA_OF(window), CT_EVENT_ENTRY);
    written += kind.handler_events;
    if (armed)
        siglongjmp(out, 1);
}

/* Stubs that are only bytes, one for each window: what closing an entry looks at. */
static uint8_t stubs[MAX_WINDOWS][32] __attribute__((aligned(8)));
static struct ct_hook_entry hooks[2 * MAX_WINDOWS + 4];

static void prepare_hooks(void) {
    for (uint32_t i = 0; i < sizeof hooks / sizeof hooks[0]; i++)
        hooks[i].flavor = CT_ACTION_RECORD;
    for (uint32_t i = 0; i < MAX_WINDOWS; i++) {
        uint32_t number = CALL_OF(i);
        memcpy(stubs[i] + CT_STUB_NUMBER, &number, sizeof number);
    }
    f.runtime.hooks = hooks;
}

static uint64_t place; /* where the return address would be */

/* What a stub and ct_hook_event_slow do. */
static void record_call(int number) {
    struct ct_shadow *e = b->top;
    e->stub = (uint64_t)stubs[number] + CT_STUB_AFTER_ENTER;
    e->data = 0;
    e->slot = (uint64_t)&place + CT_SLOT_ENTERING;
    b->top++;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    struct ct_event *event = ct_event_reserve(b, CT_EVENT_CALL, &e->data);
    if (event)
        ct_event_fill(event, CALL_OF(number), CT_EVENT_CALL);
    ct_shadow_filled(b, (uint64_t)&place);
}

static void record_return(int number) {
    ct_event_write(b, CALL_OF(number), CT_EVENT_RETURN);
    ct_shadow_release(b);
}

static void fill_up(void) {
    do {
        ct_event_write(b, FILLER, CT_EVENT_ENTRY);
        written++;
    } while (lane_room(&f, b));
}

static void run_window(int number) {
    fill_up();
    window = number;
    if (sigsetjmp(out, 1) == 0) {
        armed = kind.jumps;
        window_begin();
        record_call(number);
        window_end();
        armed = 0;
        record_return(number);
        written += 2;
    } else {
        armed = 0;
        ct_shadow_close_range(b, (uint64_t)&place, (uint64_t)&place + 8);
    }
}

static uint32_t calls[MAX_WINDOWS], ends[MAX_WINDOWS], extras[MAX_WINDOWS];

static void count_events(size_t *total) {
    struct atf_index_event *e = lane_read(&f, 1, total);
    assert_non_null(e);
    for (size_t i = 0; i < *total; i++) {
        uint64_t number = e[i].function_id - 1;
        if (number == FILLER)
            continue;
        uint64_t w = (number - 2) / 2;
        assert_true(w < MAX_WINDOWS);
        if (number == EXTRA_OF(w))
            extras[w]++;
        else if (e[i].event_kind == ATF_CALL)
            calls[w]++;
        else
            ends[w]++;
    }
    free(e);
}

static void check(int windows) {
    size_t total;
    lane_start_drain(&f);
    assert_int_equal(lane_finish_drain(&f), 0);
    assert_int_equal(f.drain.statistics.threads_seen, 1);
    count_events(&total);
    for (int w = 0; w < windows; w++) {
        if (calls[w] > 1 || ends[w] > 1 || extras[w] > (uint32_t)hits[w] * kind.handler_events)
            fail_msg("window %d: %u calls, %u ends, %u extras", w, calls[w], ends[w], extras[w]);
        if (kind.crowded)
            continue;
        bool jumped = kind.jumps && hits[w];
        if (calls[w] != ends[w] || (!jumped && calls[w] != 1) || extras[w] != (uint32_t)hits[w] * kind.handler_events)
            fail_msg("window %d: %u calls, %u ends, %u extras", w, calls[w], ends[w], extras[w]);
    }
    if (!kind.jumps) {
        assert_int_equal(total + lane_lost(&f), written);
        assert_int_equal(f.drain.statistics.abandoned, 0);
    }
}

/* No chunk is left that is neither free nor in use. (One with events may be TAKEN still: the jump came before its state
 * was set, and again before it was submitted.) */
static void check_chunks(void) {
    for (uint32_t i = 0; i < f.lane.chunk_count; i++)
        if (CT_CHUNK_STATE(ct_lane_word(&f.lane, i)) == CT_CHUNK_TAKEN && !ct_lane_events(&f.lane, i)->timestamp)
            fail_msg("chunk %u is lost", i);
}

static void child(void **state) {
    (void)state;
    int windows = 0, hit = 0;
    lane_start(&f, kind.crowded ? 0 : 16u << 20, false, kind.crowded ? 3 : 0);
    prepare_hooks();
    b = lane_thread(&f);
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; kind.crowded && i < 16; i++)
        fill_up();
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    while (!done && windows < MAX_WINDOWS)
        run_window(windows++);
    for (int i = 0; i < windows; i++)
        hit += hits[i];
    printf("%d signals\n", hit);
    assert_true(hit > 10);
    check_chunks();
    check(windows);
    lane_end(&f);
}

/* ---- the parent ---- */

/* The loops over a chunk's slots are long. */
static int stride(int k, int length) {
    (void)k;
    return length < 800 ? 1 : length / 25 | 1;
}

static int parent(pid_t pid) {
    return step_run(&(struct step_course){(uint64_t)window_begin, (uint64_t)window_end, &done, stride}, pid);
}

static const struct kind kinds[] = {
    {"one event", 1, false, false},
    {"more than a chunk's", 600, false, false},
    {"one event and a jump", 1, true, false},
    {"more than a chunk's and a jump", 600, true, false},
    {"a jump", 0, true, false},
    {"one event, no chunk is free", 1, false, true},
    {"more than a chunk's, no chunk is free", 600, false, true},
    {"one event and a jump, no chunk is free", 1, true, true},
    {"more than a chunk's and a jump, no chunk is free", 600, true, true},
};

/* Each in a process of its own, which is a whole test program: a check that fails ends it. */
int main(void) {
    int failed = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        kind = kinds[i];
        pid_t pid = fork();
        if (pid == 0) {
            const struct CMUnitTest one[] = {{kind.name, child, NULL, NULL, NULL}};
            int result = cmocka_run_group_tests_name(kind.name, one, NULL, NULL);
            fflush(stdout);
            _exit(result); /* a traced process cannot look for leaks */
        }
        failed += parent(pid) != 0;
    }
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A signal at every instruction of a stub that captures detail, and of what it needs when its chunk is full.
 *
 * A child fills its segment so that the next record does not fit, then calls a function through a stub, in a window
 * between two breakpoints, again and again, while a drain takes what it has recorded. Its parent lets it run k
 * instructions into the k-th window and delivers a signal there, whose handler makes such calls itself: one, or more
 * than a segment's worth. It then returns, or leaves by siglongjmp. Where no segment is to be had the thread hands its
 * own over and waits. At the end the child compares: each record is that of its event, with the argument and the result
 * of its call; what is not there is counted; nothing was written outside of the lanes; and no segment is left that
 * nobody uses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/agent_detail.h"
#include "lane_util.h"
#include "os/os.h"
#include "step_util.h"

#define LEAF     1
#define ENTRY    2
#define HOOKS    64u

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
/* Stubs as the planner writes them (hook/layout.h). */
__asm__(".text\n"
        ".balign 16\n"
        "window_begin: int3\n ret\n"
        ".balign 16\n"
        "window_end: int3\n ret\n"
        ".balign 32\n"
        "stub_leaf:\n"
        "  call ct_hook_enter_detail\n"
        "  nopl (%rax)\n"
        "  call leaf\n"
        "  .byte 0xe9\n"
        "  .long ct_hook_leave_detail - . - 4\n"
        "  .word 0\n"
        "  .long " TEXT(LEAF) "\n"
                              ".balign 32\n"
                              "stub_entry:\n"
                              "  call ct_hook_enter_entry_detail\n"
                              "  nopl (%rax)\n"
                              "  .byte 0xe9\n"
                              "  .long leaf - . - 4\n"
                              "  .byte 0, 0, 0, 0, 0, 0, 0\n"
                              "  .long " TEXT(ENTRY) "\n"
                                                     ".balign 16\n"
                                                     "leaf: lea 1(%rdi), %rax\n ret\n");
void window_begin(void), window_end(void);
uint64_t stub_leaf(uint64_t x), stub_entry(uint64_t x);

struct kind {
    const char *name;
    int handler_calls;
    bool jumps, lossless, scarce; /* no segment is free */
};

#define MAX_WINDOWS 4000
#define AT_ONCE     700 /* instructions that are hit one by one; in longer windows the rest is waiting */
#define REST        40  /* signals after them */

static struct lane_fixture f;
static struct ct_windows windows;
static struct kind kind;
static struct ct_block *b;
static struct ct_hook_entry hooks[HOOKS];
static volatile long done; /* poked by the parent */
static volatile int hits;
static volatile sig_atomic_t armed;
static sigjmp_buf out;

/* ---- the child ---- */

static void call(uint64_t x) {
    if (stub_leaf(x) != x + 1 || stub_entry(x) != x + 1)
        abort();
}

static void handler(int number) {
    (void)number;
    hits++;
    for (int i = 0; i < kind.handler_calls; i++)
        call(1000000 + (uint64_t)i);
    if (armed)
        siglongjmp(out, 1);
}

static bool is_segment_full(void) {
    uint64_t at = b->detail_cursor, bytes = CT_SHM_DETAIL_CHUNK;
    if (!(at & bytes) || at >> 63)
        return false;
    uint8_t *agent = (uint8_t *)ct_agent_lane_control();
    uint64_t chunk = (at - (uint64_t)(agent + f.lane.control->detail_pool_offset)) / (2 * bytes);
    const uint16_t *segment_of = (const uint16_t *)(agent + f.lane.control->segment_of_chunk_offset);
    const struct ct_shm_segment *s = &f.lane.segments[segment_of[chunk]];
    return s->turns + 1 >= s->chunks && !((at + b->call_size - 1) & bytes);
}

/* Returns are smaller than calls: sooner or later the end is met, if they come in no pattern. */
static void fill_up(void) {
    static unsigned random = 1;
    while (!is_segment_full()) {
        random = random * 1103515245u + 12345u;
        if (random >> 16 & 1)
            (void)stub_entry(7);
        else
            (void)stub_leaf(7);
    }
}

static void run_window(uint64_t number) {
    fill_up();
    if (kind.scarce)
        __atomic_store_n(&f.lane.control->free_segments, 0, __ATOMIC_RELAXED);
    if (sigsetjmp(out, 1) == 0) {
        armed = kind.jumps;
        window_begin();
        uint64_t result = stub_leaf(number);
        window_end();
        armed = 0;
        if (result != number + 1)
            abort();
    } else {
        armed = 0;
    }
    ct_lane_count_segments(&f.lane);
}

static void start(void) {
    struct ct_lane_options o = {.index_memory = 16u << 20,
                                .detail_memory = 1u << 20,
                                .hook_room = HOOKS,
                                .stack_bytes = 64,
                                .lossless = kind.lossless};
    lane_start_with(&f, &o, 0);
    ct_windows_init(&windows, &(struct ct_windows_options){.detail = CT_SESSION_DETAIL_ALWAYS});
    lane_prepare_drain(&f);
    f.drain.windows = &windows;
    ct_windows_start(&windows, f.clock.first.ns);
    f.lane.control->persisting = 1;
    for (uint32_t i = 0; i < HOOKS; i++)
        hooks[i].flavor = CT_ACTION_RECORD;
    f.runtime.hooks = hooks;
    b = lane_thread(&f);
    assert_int_equal(ct_block_install(b), 0);
    assert_int_equal(ct_drain_start(&f.drain), 0);
}

/* ---- what was written ---- */

static void check_record(const struct atf_detail_call *r, const struct atf_index_event *events, size_t count) {
    bool returned = r->event.event_type == ATF_DETAIL_RETURN;
    assert_true(r->event.index_seq < count);
    const struct atf_index_event *e = &events[r->event.index_seq];
    assert_true(e->function_id == r->function_id && e->timestamp_ns == r->event.timestamp);
    assert_true(e->event_kind == ATF_CALL ? !returned : returned);
    uint64_t x = r->registers[0] - returned;
    assert_true(x < MAX_WINDOWS || (x >= 1000000 && x < 1000000 + 600));
    if (!returned)
        assert_int_equal(r->stack_size, 64);
}

static size_t check_file(size_t *events) {
    char path[128];
    static uint8_t bytes[256 << 20];
    struct atf_index_event *index = lane_read(&f, 1, events);
    snprintf(path, sizeof path, "%s/thread_1/detail.atf", f.directory);
    FILE *file = fopen(path, "re");
    assert_true(index && file);
    size_t size = fread(bytes, 1, sizeof bytes, file), found = 0, at = 64;
    fclose(file);
    assert_true(size < sizeof bytes);
    for (; at + 64 < size; found++) {
        const struct atf_detail_call *r = (const struct atf_detail_call *)(bytes + at);
        check_record(r, index, *events);
        at += r->event.total_length;
    }
    free(index);
    return found;
}

static uint32_t owned(void) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f.lane.segment_count; i++)
        count += CT_SEGMENT_STATE(f.lane.segments[i].word) == CT_SEGMENT_OWNED;
    return count;
}

static void check(void) {
    size_t events;
    assert_int_equal(lane_finish_drain(&f), 0);
    size_t found = check_file(&events);
    uint64_t lost = lane_drained_thread(&f, 1)->detail.lost;
    printf("%d signals, %zu records, %u lost\n", hits, found, (unsigned)lost);
    assert_int_equal(lane_lost(&f), 0);
    assert_true(hits > 100);
    assert_true(found > 100);
    if (!kind.jumps) /* else frames that were left have an event and no record */
        assert_int_equal(found + lost, events);
    if (kind.lossless &&
        !kind.jumps) /* what was reserved in a segment that the handler has handed over, and what it was written over */
        assert_in_range(lost, 0, 3 * hits);
}

static void child(void **state) {
    (void)state;
    int number = 0;
    start();
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    while (!done && number < MAX_WINDOWS)
        run_window((uint64_t)number++);
    /* Whoever wants for one finds what was left. */
    for (int i = 0; i < 3; i++) {
        fill_up();
        __atomic_store_n(&f.lane.control->free_segments, 0, __ATOMIC_RELAXED);
        call(7);
    }
    /* A jump may come while one is being taken: some 20 to 30 instructions, as the compiler made them, of 500. */
    assert_in_range(owned(), 1, kind.jumps ? 64 : 1);
    check();
    lane_end(&f);
    ct_windows_free(&windows);
}

/* ---- the parent ---- */

static int stride(int k, int length) {
    return k < AT_ONCE ? 1 : (length - AT_ONCE) / REST | 1;
}

static int parent(pid_t pid) {
    return step_run(&(struct step_course){(uint64_t)window_begin, (uint64_t)window_end, &done, stride}, pid);
}

static const struct kind kinds[] = {
    {"a call", 1, false, true, false},
    {"more than a segment's", 50, false, true, false},
    {"a call and a jump", 1, true, true, false},
    {"a call, no segment is free", 1, false, true, true},
    {"more than a segment's, no segment is free", 50, false, true, true},
    {"a call and a jump, no segment is free", 1, true, true, true},
    {"more than a segment's, no segment is free, may lose", 50, false, false, true},
};

/* In a process of its own, which is a whole test program: a check that fails ends it. */
static int run(const struct kind *k) {
    kind = *k;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it would go on for ever */
        const struct CMUnitTest one[] = {{kind.name, child, NULL, NULL, NULL}};
        int result = cmocka_run_group_tests_name(kind.name, one, NULL, NULL);
        fflush(stdout);
        _exit(result); /* a traced process cannot look for leaks */
    }
    return parent(pid);
}

static void print_all(FILE *output) {
    char line[256];
    rewind(output);
    while (fgets(line, sizeof line, output))
        fputs(line, stdout);
    fclose(output);
}

/* All at once: most of the time they wait. What they print comes in order. */
int main(void) {
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    int failed = 0, status;
    pid_t pids[KINDS];
    FILE *outputs[KINDS];
    for (size_t i = 0; i < KINDS; i++) {
        outputs[i] = tmpfile();
        pids[i] = outputs[i] ? fork() : -1;
        if (pids[i] < 0)
            return 1;
        if (pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            dup2(fileno(outputs[i]), STDOUT_FILENO);
            dup2(fileno(outputs[i]), STDERR_FILENO);
            exit(run(&kinds[i]) != 0);
        }
    }
    for (size_t i = 0; i < KINDS; i++) {
        failed += waitpid(pids[i], &status, 0) != pids[i] || status != 0;
        print_all(outputs[i]);
    }
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Registers of stopped threads: reading, setting, and moving threads that are in a system call. */
#include "stop_util.h"
#include <asm/prctl.h>

/* ---- registers ---- */

static volatile uint64_t gs_seen;
static volatile int look_at_gs;

static void *show_gs(void *arg) {
    volatile int *tid = arg;
    *tid = gettid_now();
    while (!look_at_gs)
        ;
    uint64_t base = 0;
    syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
    gs_seen = base;
    return NULL;
}

static void test_gs_base(void **state) {
    (void)state;
    pthread_t thread;
    static volatile int tid;
    tid = look_at_gs = 0;
    start_thread(&thread, show_gs, (void *)&tid);
    while (!tid)
        usleep(100);
    uint64_t fs = 0;
    syscall(SYS_arch_prctl, ARCH_GET_FS, &fs);
    struct ct_os_stopped *s = stop();
    struct ct_registers regs = {0}, back = {0}, bad;
    int i = stopped_index(s, tid);
    int got = ct_os_stopped_get_regs(s, (size_t)i, &regs);
    bad = regs;
    ct_registers_set_block(&bad, 1ull << 63);
    int refused = ct_os_stopped_set_regs(s, (size_t)i, &bad);
    int out_of_range = ct_os_stopped_get_regs(s, ct_os_stopped_count(s), &bad);
    ct_registers_set_block(&regs, 0x12345678000);
    int set = ct_os_stopped_set_regs(s, (size_t)i, &regs);
    ct_os_stopped_get_regs(s, (size_t)i, &back);
    ct_os_resume_threads(s);
    look_at_gs = 1;
    pthread_join(thread, NULL);
    assert_int_equal(got, CT_OK);
    assert_int_equal(set, CT_OK);
    assert_int_equal(refused, CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(out_of_range, CT_ERR_INVALID_ARGUMENT);
    assert_int_equal(gs_seen, 0x12345678000);
    assert_int_equal(ct_registers_block(&back), 0x12345678000);
    assert_true(ct_registers_thread_base(&regs) != 0 && ct_registers_thread_base(&regs) != fs);
}

/* jmp self · mov eax, 5; ret */
static const uint8_t loop_code[] = {0xeb, 0xfe, 0xb8, 5, 0, 0, 0, 0xc3};

static uint8_t *code_page(void) {
    uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    return page;
}

static void *call_code(void *code) {
    long (*function)(void);
    memcpy(&function, &code, sizeof function);
    waiter_tid = gettid_now();
    return (void *)function();
}

/* Starts a thread that runs `code` until it is at code + offset. */
static pthread_t start_code(uint8_t *code) {
    pthread_t thread;
    waiter_tid = 0;
    start_thread(&thread, call_code, code);
    while (!waiter_tid)
        usleep(100);
    return thread;
}

/* Moves the thread, once it is at `from`, and sends it a signal (0: none) while it is stopped. False: it has ended
 * before. */
static bool move_thread(const uint8_t *from, const uint8_t *to, uint64_t call_size, int number) {
    struct ct_registers regs = {0};
    int status;
    do { /* it may not have got there yet */
        struct ct_os_stopped *s = stop();
        int i = stopped_index(s, waiter_tid);
        if (i < 0) {
            ct_os_resume_threads(s);
            return false;
        }
        status = ct_os_stopped_get_regs(s, (size_t)i, &regs);
        if (status == CT_OK && ct_registers_pc(&regs) == (uint64_t)(uintptr_t)from &&
            ct_registers_call_size(&regs) == call_size) {
            ct_registers_set_pc(&regs, (uint64_t)(uintptr_t)to);
            status = ct_os_stopped_set_regs(s, (size_t)i, &regs);
            from = NULL;
            if (number)
                syscall(SYS_tgkill, getpid(), waiter_tid, number);
        }
        ct_os_resume_threads(s);
        assert_int_equal(status, CT_OK);
    } while (from);
    return true;
}

static long join_code(pthread_t thread) {
    void *result;
    pthread_join(thread, &result);
    return (long)result;
}

static void test_move_a_spinning_thread(void **state) {
    (void)state;
    uint8_t *page = code_page();
    memcpy(page, loop_code, sizeof loop_code);
    pthread_t thread = start_code(page);
    assert_true(move_thread(page, page + 2, 0, 0));
    assert_int_equal(join_code(thread), 5);
    munmap(page, 4096);
}

/* ---- moving a thread that is in a system call ---- */

/* Code: mov eax, number; mov edi, a; mov rsi, b; mov edx, c; clear r10, r8, r9; syscall; add rax, extra; ret.
 * Returns the offset of the system call. */
static size_t write_call(uint8_t *at, int number, int a, const void *b, int c, int extra, bool nop_first) {
    uint8_t *p = at;
#define BYTES(...)                                                                                                     \
    do {                                                                                                               \
        const uint8_t bytes[] = {__VA_ARGS__};                                                                         \
        memcpy(p, bytes, sizeof bytes);                                                                                \
        p += sizeof bytes;                                                                                             \
    } while (0)
#define INT(value) (memcpy(p, &(int){value}, 4), p += 4)
    BYTES(0xb8);
    INT(number);
    BYTES(0xbf);
    INT(a);
    BYTES(0x48, 0xbe);
    memcpy(p, &b, 8);
    p += 8;
    BYTES(0xba);
    INT(c);
    BYTES(0x4d, 0x31, 0xd2, 0x4d, 0x31, 0xc0, 0x4d, 0x31, 0xc9);
    BYTES(0xeb, 0x02, 0x0f, 0x0b); /* jmp over; ud2: stepping back too far is deadly */
    size_t call = (size_t)(p - at);
    if (nop_first)
        BYTES(0x90);
    BYTES(0x0f, 0x05, 0x48, 0x05);
    INT(extra);
    BYTES(0xc3);
#undef BYTES
#undef INT
    return call;
}

enum { COPY = 512, ELSEWHERE = 1024 };
static int pipe_fds[2];

/* The same call three times: as it is, a copy (result + 1000), and at another place (a nop before it; + 2000). */
static size_t write_calls(uint8_t *page, int number, int a, const void *b, int c) {
    write_call(page + COPY, number, a, b, c, 1000, false);
    write_call(page + ELSEWHERE, number, a, b, c, 2000, true);
    return write_call(page, number, a, b, c, 0, false);
}

static int signal_at_move;
enum { TOO_LATE = -1000000 };

static long move_in_call(int number, int a, const void *b, int c, int to, void (*then)(void)) {
    uint8_t *page = code_page();
    size_t call = write_calls(page, number, a, b, c);
    pthread_t thread = start_code(page);
    bool moved = move_thread(page + call, page + to + call, 2, signal_at_move);
    if (moved && then)
        then();
    long result = join_code(thread);
    munmap(page, 4096);
    return moved ? result : TOO_LATE;
}

static void write_pipe(void) {
    wait_asleep(waiter_tid);
    assert_int_equal(write(pipe_fds[1], "abc", 3), 3);
}

/* Ends a call that goes on though it should not. */
static void write_late(void) {
    usleep(20000);
    assert_int_equal(write(pipe_fds[1], "abc", 3), 3);
}

static void send_signal(void) {
    wait_asleep(waiter_tid);
    syscall(SYS_tgkill, getpid(), waiter_tid, SIGUSR1);
}

static void test_move_a_thread_in_a_call(void **state) {
    (void)state;
    static char buffer[16];
    assert_int_equal(pipe(pipe_fds), 0);
    handle(SIGUSR1, count_signal, 0);
    for (int to = COPY, extra = 1000; to <= ELSEWHERE; to += 512, extra += 1000) {
        assert_int_equal(move_in_call(SYS_read, pipe_fds[0], buffer, 16, to, write_pipe), 3 + extra);
        assert_int_equal(move_in_call(SYS_pause, 0, NULL, 0, to, send_signal), -EINTR + extra);
        /* with a time limit: goes on by restart_syscall */
        long result = TOO_LATE;
        for (int limit = 100; result == TOO_LATE; limit *= 2)
            result = move_in_call(SYS_poll, 0, NULL, limit, to, NULL);
        assert_int_equal(result, 0 + extra);
    }
    /* onto a copy, with a signal on its way: the call is interrupted as if it had not been moved */
    signal_at_move = SIGUSR1;
    assert_int_equal(move_in_call(SYS_poll, 0, NULL, 60000, COPY, NULL), -EINTR + 1000);
    assert_int_equal(move_in_call(SYS_read, pipe_fds[0], buffer, 16, COPY, write_late), -EINTR + 1000);
    signal_at_move = 0;
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gs_base),
        cmocka_unit_test(test_move_a_spinning_thread),
        cmocka_unit_test(test_move_a_thread_in_a_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

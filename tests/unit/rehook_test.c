/* SPDX-License-Identifier: Apache-2.0 */
/* Single hooks of another process: taken out and put back, each only where its bytes are what they should be. The
 * plans are made by hand; the target is a child that spins in a page of ours. */
#include "remote_util.h"

#include "inject/rehook.h"

enum { HOST = 0x100, BOARD = HOST + 5, GUEST = 0x140, SPIN = 0x200, BODY = 0x300 };

struct subject {
    uint8_t *page;
    int pid;
    struct ct_remote *remote;
    struct ct_target_hook host, guest, spin;
};

static void add_patch(struct ct_plan *plan, uint8_t *page, unsigned at, unsigned size, uint8_t byte) {
    struct ct_patch *p = &plan->patches[plan->patch_count++];
    *p = (struct ct_patch){.at = (uint64_t)(page + at), .size = (uint8_t)size};
    memcpy(p->original, page + at, size);
    memset(p->bytes, byte, size);
}

static void make_plans(struct subject *s) {
    s->host.plan.place = (uint64_t)(s->page + HOST);
    add_patch(&s->host.plan, s->page, HOST, 5, 0xe9);
    s->guest.plan.place = (uint64_t)(s->page + GUEST);
    add_patch(&s->guest.plan, s->page, BOARD, 5, 0xe8);
    add_patch(&s->guest.plan, s->page, GUEST, 2, 0xeb);
    /* nop; jmp to itself */
    s->spin.plan.place = (uint64_t)(s->page + SPIN);
    s->spin.plan.body = (uint64_t)(s->page + BODY);
    s->spin.plan.move_count = 2;
    s->spin.plan.move_from[1] = s->spin.plan.move_to[1] = 1;
    add_patch(&s->spin.plan, s->page, SPIN, 5, 0x90);
}

static void start(struct subject *s) {
    *s = (struct subject){0};
    s->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(s->page, MAP_FAILED);
    memset(s->page, 0x90, 4096);
    for (unsigned at = SPIN; at <= BODY; at += BODY - SPIN)
        memcpy(s->page + at + 1, (const uint8_t[]){0xeb, 0xfe}, 2);
    make_plans(s);
    int parent = getpid();
    s->pid = fork();
    if (s->pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
            _exit(1);
        ((void (*)(void))(uintptr_t)(s->page + SPIN))();
    }
    s->remote = open_remote(s->pid);
    stop_remote(s->remote);
}

static uint64_t pc_of(struct subject *s) {
    struct ct_registers regs;
    assert_int_equal(ct_remote_get_regs(s->remote, 0, &regs), 0);
    return ct_registers_pc(&regs) - (uint64_t)s->page;
}

/* It has come to its loop. */
static void wait_for_loop(struct subject *s) {
    for (int i = 0; i < 10000 && pc_of(s) != SPIN + 1; i++) {
        assert_int_equal(ct_remote_resume(s->remote), 0);
        usleep(500);
        stop_remote(s->remote);
    }
    assert_int_equal(pc_of(s), SPIN + 1);
}

static void finish(struct subject *s) {
    ct_remote_close(s->remote);
    assert_int_equal(kill(s->pid, SIGKILL), 0);
    assert_int_equal(waitpid(s->pid, NULL, 0), s->pid);
    munmap(s->page, 4096);
}

static bool change(struct subject *s, const struct ct_target_hook *hook, const struct ct_target_hook *host, bool back) {
    bool done = true;
    const struct ct_rehook c = {s->remote, &hook, &host, 1, UINT64_MAX, &done};
    assert_int_equal(back ? ct_rehook_put_back(&c) : ct_rehook_take_out(&c), 0);
    return done;
}

static uint8_t byte_at(struct subject *s, unsigned at) {
    uint8_t byte;
    assert_int_equal(ct_remote_read(s->remote, (uint64_t)(s->page + at), &byte, 1), 0);
    return byte;
}

static void put_byte(struct subject *s, unsigned at, uint8_t byte) {
    assert_int_equal(ct_remote_write(s->remote, (uint64_t)(s->page + at), &byte, 1), 0);
}

static void test_back_and_out(void **state) {
    (void)state;
    struct subject s;
    start(&s);
    assert_true(change(&s, &s.host, NULL, true));
    assert_int_equal(byte_at(&s, HOST), 0xe9);
    assert_true(change(&s, &s.host, NULL, true)); /* it is there already */
    assert_true(change(&s, &s.host, NULL, false));
    assert_int_equal(byte_at(&s, HOST), 0x90);
    put_byte(&s, HOST + 4, 0xcc); /* neither ours nor the function's */
    assert_false(change(&s, &s.host, NULL, true));
    assert_int_equal(byte_at(&s, HOST), 0x90);
    finish(&s);
}

/* A springboard is never put into the bytes of a function that runs there. */
static void test_guest_needs_host(void **state) {
    (void)state;
    struct subject s;
    start(&s);
    assert_false(change(&s, &s.guest, &s.host, true));
    assert_int_equal(byte_at(&s, BOARD), 0x90);
    assert_int_equal(byte_at(&s, GUEST), 0x90);
    assert_true(change(&s, &s.host, NULL, true));
    assert_true(change(&s, &s.guest, &s.host, true));
    assert_int_equal(byte_at(&s, BOARD), 0xe8);
    assert_int_equal(byte_at(&s, GUEST), 0xeb);
    finish(&s);
}

/* Both at once: the host of the list is in place when its guest comes. */
static void test_host_and_guest(void **state) {
    (void)state;
    struct subject s;
    bool done[2] = {false, false};
    start(&s);
    const struct ct_target_hook *hooks[2] = {&s.host, &s.guest}, *hosts[2] = {NULL, &s.host};
    const struct ct_rehook c = {s.remote, hooks, hosts, 2, UINT64_MAX, done};
    assert_int_equal(ct_rehook_put_back(&c), 0);
    assert_true(done[0] && done[1]);
    assert_int_equal(byte_at(&s, BOARD), 0xe8);
    finish(&s);
}

/* Where the bytes are not those of the hook, a thread is in somebody else's code. */
static void test_threads_of_others(void **state) {
    (void)state;
    struct subject s;
    start(&s);
    wait_for_loop(&s);
    put_byte(&s, SPIN + 3, 0xcc);
    assert_false(change(&s, &s.spin, NULL, true));
    assert_int_equal(pc_of(&s), SPIN + 1);
    put_byte(&s, SPIN + 3, 0x90);
    assert_true(change(&s, &s.spin, NULL, true));
    assert_int_equal(pc_of(&s), BODY + 1);
    finish(&s);
    start(&s);
    s.spin.plan.patches[0].at = (uint64_t)(s.page + SPIN + 1);
    s.spin.plan.patches[0].forward = (uint64_t)(s.page + BODY + 1);
    wait_for_loop(&s);
    assert_false(change(&s, &s.spin, NULL, false));
    assert_int_equal(pc_of(&s), SPIN + 1);
    finish(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_back_and_out),
        cmocka_unit_test(test_guest_needs_host),
        cmocka_unit_test(test_host_and_guest),
        cmocka_unit_test(test_threads_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds a lock and who waits for whom, from calls that are written here (report/locks_holders.c). */
#include "report/locks_internal.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, A = 0x1000, B = 0x2000, C = 0x3000 };

/* A lock call from `began` to `ended`; 0: it is open at 1000. */
static struct ct_lock_op lock(size_t thread, uint64_t address, uint64_t began, uint64_t ended) {
    return (struct ct_lock_op){.role = CT_LOCK_TAKE,
                               .open = !ended,
                               .taken = ended != 0,
                               .fits = true,
                               .what = "mutex",
                               .thread = thread,
                               .address = address,
                               .sequence = began,
                               .began_ns = began,
                               .ended_ns = ended ? ended : 1000,
                               .lasted_ns = (ended ? ended : 1000) - began};
}

static struct ct_lock_op unlock(size_t thread, uint64_t address, uint64_t began) {
    struct ct_lock_op op = lock(thread, address, began, began + 1);
    op.role = CT_LOCK_GIVE;
    op.sequence++; /* after a lock call of that time */
    op.taken = false;
    return op;
}

static struct ct_lock_op failed(size_t thread, uint64_t address, uint64_t began) {
    struct ct_lock_op op = lock(thread, address, began, began + 1);
    op.role = CT_LOCK_TRY;
    op.taken = false;
    return op;
}

static struct ct_locks *follow(const struct ct_lock_op *ops, size_t count) {
    struct ct_locks *locks = calloc(1, sizeof *locks);
    assert_non_null(locks);
    assert_int_equal(ct_locks_follow(locks, ops, count, THREADS), 0);
    return locks;
}

static const struct ct_lock *find(const struct ct_locks *locks, uint64_t address) {
    for (size_t i = 0; i < locks->lock_count; i++)
        if (locks->locks[i].address == address)
            return &locks->locks[i];
    fail();
    return NULL;
}

static void circle_of_three(void **state) {
    const struct ct_lock_op ops[] = {
        lock(0, A, 10, 11), lock(1, B, 20, 21), lock(2, C, 30, 31), lock(0, B, 40, 0),
        lock(1, C, 50, 0),  lock(2, A, 60, 0),  lock(3, A, 70, 0), /* waits too, but nobody for it */
    };
    static const size_t order[] = {0, 1, 2, 3};
    (void)state;
    struct ct_locks *locks = follow(ops, sizeof ops / sizeof *ops);
    assert_int_equal(locks->cycles, 1);
    assert_int_equal(locks->wait_count, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct ct_lock_wait *wait = &locks->waits[i];
        assert_int_equal(wait->thread, order[i]);
        assert_int_equal(wait->cycle, i < 3);
        assert_int_equal(locks->locks[wait->lock].holders[wait->holder].thread, i < 3 ? order[(i + 1) % 3] : 0);
    }
    assert_int_equal(locks->locks[locks->waits[0].lock].holders[0].since_ns, 21);
    ct_locks_free(locks);
}

static void two_circles(void **state) {
    const struct ct_lock_op ops[] = {lock(0, A, 10, 11), lock(0, A, 20, 0), lock(1, B, 10, 11),
                                     lock(2, C, 10, 11), lock(1, C, 20, 0), lock(2, B, 20, 0)};
    (void)state;
    struct ct_locks *locks = follow(ops, sizeof ops / sizeof *ops);
    assert_int_equal(locks->cycles, 2);
    assert_int_equal(locks->wait_count, 3);
    assert_int_equal(locks->waits[0].cycle, 1);
    assert_int_equal(locks->waits[1].cycle, 2);
    assert_int_equal(locks->waits[2].cycle, 2);
    ct_locks_free(locks);
}

/* The holder was unlocked at the time when the next one has it; and a wait begins at that time. */
static void equal_times(void **state) {
    const struct ct_lock_op ops[] = {lock(1, A, 10, 10), unlock(1, A, 10), lock(0, A, 9, 10),
                                     lock(2, A, 10, 50), unlock(0, A, 20), unlock(2, A, 60)};
    (void)state;
    struct ct_locks *locks = follow(ops, sizeof ops / sizeof *ops);
    const struct ct_lock *a = find(locks, A);
    assert_int_equal(a->holder_count, 0);
    assert_int_equal(a->locked, 3);
    assert_int_equal(a->held_max_ns, 10);
    ct_locks_free(locks);
}

static void recursive(void **state) {
    struct ct_lock_op ops[] = {lock(0, A, 10, 11), lock(0, A, 12, 13), unlock(0, A, 20),
                               failed(1, A, 30),   unlock(0, A, 40),   failed(1, A, 50)};
    (void)state;
    struct ct_locks *locks = follow(ops, sizeof ops / sizeof *ops);
    const struct ct_lock *a = find(locks, A);
    assert_int_equal(a->locked, 4);
    assert_int_equal(a->waited, 1);
    assert_int_equal(a->pair_count, 1);
    assert_int_equal(a->pairs[0].max_at_ns, 30);
    assert_int_equal(a->held_max_ns, 29);
    assert_int_equal(a->holder_count, 0);
    ct_locks_free(locks);
}

/* Of two readers one waits: the writer is in a circle with that one. */
static void readers(void **state) {
    const struct ct_lock_op ops[] = {lock(0, A, 10, 11), lock(1, A, 12, 13), lock(2, B, 14, 15), lock(2, A, 20, 0),
                                     lock(1, B, 30, 0)};
    (void)state;
    struct ct_locks *locks = follow(ops, sizeof ops / sizeof *ops);
    assert_int_equal(find(locks, A)->holder_count, 2);
    assert_int_equal(locks->cycles, 1);
    assert_int_equal(locks->waits[0].thread, 2);
    assert_int_equal(find(locks, A)->holders[locks->waits[0].holder].thread, 1);
    assert_int_equal(find(locks, A)->pairs[0].holder, 0); /* when the wait began: the oldest */
    ct_locks_free(locks);
}

/* After a gap, what the thread held is not known; other threads hold what they held. */
static void gap(void **state) {
    struct ct_lock_op hole = {.role = CT_LOCK_GAP, .thread = 0, .sequence = 30, .began_ns = 30};
    const struct ct_lock_op ops[] = {lock(0, A, 10, 11), lock(0, B, 12, 13), lock(1, C, 14, 15), hole,
                                     failed(2, A, 40),   lock(2, B, 50, 0),  lock(3, C, 60, 0)};
    (void)state;
    struct ct_locks *locks = follow(ops, sizeof ops / sizeof *ops);
    assert_int_equal(find(locks, A)->waited, 0);
    assert_int_equal(find(locks, C)->waited, 1);
    assert_int_equal(locks->wait_count, 2);
    assert_true(locks->waits[0].holder == SIZE_MAX);
    assert_int_equal(locks->waits[1].holder, 0);
    ct_locks_free(locks);
}

/* Calls that do not fit do not count, but they take locks; of open ones only those in a circle are listed. */
static void not_fitting(void **state) {
    struct ct_lock_op ops[] = {lock(0, A, 10, 11), failed(1, A, 20), lock(2, B, 30, 31), lock(3, B, 40, 0)};
    (void)state;
    ops[0].fits = ops[2].fits = ops[3].fits = false;
    struct ct_locks *locks = follow(ops, sizeof ops / sizeof *ops);
    assert_int_equal(locks->order_count, 1);
    assert_int_equal(locks->locks[locks->order[0]].address, A);
    assert_int_equal(find(locks, A)->locked, 1);
    assert_int_equal(find(locks, A)->waited, 1);
    assert_int_equal(locks->wait_count, 0);
    ct_locks_free(locks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(circle_of_three), cmocka_unit_test(two_circles), cmocka_unit_test(equal_times),
        cmocka_unit_test(recursive),       cmocka_unit_test(readers),     cmocka_unit_test(gap),
        cmocka_unit_test(not_fitting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

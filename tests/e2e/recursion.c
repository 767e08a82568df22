/* SPDX-License-Identifier: Apache-2.0 */
/* Recursion to depth 100,000, mutual recursion, and calls beyond the deepest level that is recorded.
 *
 * An engine can go wrong here by a shadow stack that is too small or grows in place, by finding an open call by its
 * function instead of by its frame, and by losing count when it leaves its deepest level again. */
#include "harness.h"
#include <pthread.h>
#include <string.h>

static E2E_FN long dive(long depth) {
    if (depth == 0)
        return 0;
    long below = dive(depth - 1);
    E2E_BARRIER();
    return below + 1;
}

static E2E_FN long fib(long n) {
    if (n < 2)
        return n;
    long one = fib(n - 1);
    long two = fib(n - 2);
    E2E_BARRIER();
    return one + two;
}

static long odd(long n);
static E2E_FN long even(long n) {
    if (n == 0)
        return 1;
    long answer = odd(n - 1);
    E2E_BARRIER();
    return answer;
}

static E2E_FN long odd(long n) {
    if (n == 0)
        return 0;
    long answer = even(n - 1);
    E2E_BARRIER();
    return answer;
}

static E2E_FN long ackermann(long m, long n) {
    if (m == 0)
        return n + 1;
    long inner = n == 0 ? 1 : ackermann(m, n - 1);
    long outer = ackermann(m - 1, inner);
    E2E_BARRIER();
    return outer;
}

static void expect_all_returned(size_t calls, size_t depth) {
    if (e2e_plain())
        return;
    struct e2e_summary s = e2e_summarize(0);
    E2E_EQUAL(s.calls, calls);
    E2E_EQUAL(s.returns, calls);
    E2E_EQUAL(s.left, 0);
    E2E_EQUAL(s.open, 0);
    E2E_EQUAL(s.unpaired, 0);
    E2E_EQUAL(s.depth, depth);
    e2e_forget();
}

static void *big_stack(void *arg) {
    (void)arg;
    E2E_EQUAL(dive(100000), 100000);
    expect_all_returned(100001, 100001);
    E2E_EQUAL(dive(100000), 100000); /* the same memory again */
    expect_all_returned(100001, 100001);
    return NULL;
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    E2E_RECORD(dive);
    E2E_RECORD(fib);
    E2E_RECORD(even);
    E2E_RECORD(odd);
    E2E_RECORD(ackermann);

    E2E_EQUAL(dive(3), 3);
    E2E_EXPECT("dive(dive(dive(dive())))");
    E2E_EQUAL(fib(4), 3);
    E2E_EXPECT("fib(fib(fib(fib()*2) fib()) fib(fib()*2))");
    E2E_EQUAL(even(5), 0);
    E2E_EXPECT("even(odd(even(odd(even(odd())))))");

    E2E_EQUAL(fib(20), 6765);
    expect_all_returned(21891, 20);
    E2E_EQUAL(ackermann(2, 3), 9);
    expect_all_returned(44, 10);
    E2E_EQUAL(even(100000), 1);
    expect_all_returned(100001, 100001);

    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, (size_t)64 << 20);
    E2E_EQUAL(pthread_create(&thread, &attr, big_stack, NULL), 0);
    pthread_join(thread, NULL);
    return e2e_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Calls deeper than max_depth run, are not recorded, and are counted; what is above them stays exact.
 *
 * An engine can go wrong here on the way back: the calls that it did not record return through nothing of its own. */
#include "harness.h"
#include <setjmp.h>

#define LIMIT 64

static jmp_buf out;

static E2E_FN long dive(long depth) {
    if (depth == 0)
        return 0;
    long below = dive(depth - 1);
    E2E_BARRIER();
    return below + 1;
}

static E2E_FN long dive_and_jump(long depth) {
    if (depth == 0)
        longjmp(out, 1);
    if (depth < 0)
        return 0;
    long below = dive_and_jump(depth - 1);
    E2E_BARRIER();
    return below + 1;
}

static E2E_FN long outer(long depth) {
    if (setjmp(out) == 0)
        return dive_and_jump(depth);
    return -1;
}

static uint64_t deep_calls(void) {
    struct ct_hooks_statistics s = {.size = sizeof s};
    if (e2e_hooks)
        ct_hooks_statistics(e2e_hooks, &s);
    return s.deep_calls;
}

static void expect(size_t calls, size_t returns, size_t left) {
    if (e2e_plain())
        return;
    struct e2e_summary s = e2e_summarize(0);
    E2E_EQUAL(s.calls, calls);
    E2E_EQUAL(s.returns, returns);
    E2E_EQUAL(s.left, left);
    E2E_EQUAL(s.open, 0);
    E2E_EQUAL(s.unpaired, 0);
    E2E_EQUAL(s.depth, calls < LIMIT ? calls : LIMIT);
    e2e_forget();
}

int main(int argc, char **argv) {
    struct ct_hooks_options options = {.size = sizeof options, .max_depth = LIMIT};
    e2e_begin_with(argc, argv, &options, 256);
    E2E_RECORD(dive);
    E2E_RECORD(dive_and_jump);
    E2E_RECORD(outer);

    E2E_EQUAL(dive(LIMIT - 1), LIMIT - 1); /* exactly as deep as allowed */
    expect(LIMIT, LIMIT, 0);
    if (!e2e_plain())
        E2E_EQUAL(deep_calls(), 0);

    E2E_EQUAL(dive(999), 999); /* 1000 calls */
    expect(LIMIT, LIMIT, 0);
    if (!e2e_plain())
        E2E_EQUAL(deep_calls(), 1000 - LIMIT);

    E2E_EQUAL(dive(10), 10); /* and shallow again */
    expect(11, 11, 0);

    E2E_EQUAL(outer(500), -1); /* left from far below the limit */
    expect(LIMIT, 1, LIMIT - 1);
    E2E_EQUAL(dive(10), 10);
    expect(11, 11, 0);
    return e2e_end();
}

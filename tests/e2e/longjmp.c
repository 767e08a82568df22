/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that are left by longjmp: closed as left, in the right order, before whatever comes next; setjmp itself
 * hooked; and a program that does so for ever, in memory that doesn't grow.
 *
 * An engine can go wrong here because the next call may use the very slot of a frame that was left, so that slots alone
 * can't tell a tail call from a new call; because frames are only known to be gone at the next call or return; and
 * because a hooked setjmp returns twice. */
#include "harness.h"
#include <setjmp.h>
#include <signal.h>

static jmp_buf out, inner_out;
static sigjmp_buf sig_out;

static E2E_FN void jump(int value) {
    E2E_BARRIER();
    longjmp(out, value);
}

static E2E_FN void middle(int depth, int value) {
    if (depth > 0)
        middle(depth - 1, value);
    else
        jump(value);
    E2E_BARRIER();
}

static E2E_FN int leaf(int x) {
    E2E_BARRIER();
    return x + 1;
}

/* setjmp and return in a hooked frame */
static E2E_FN int catcher(int depth) {
    int value = setjmp(out);
    if (value == 0)
        middle(depth, 5);
    return leaf(value);
}

/* Jumps to an outer frame past an inner one that could catch too */
static E2E_FN void jump_inner(void) {
    E2E_BARRIER();
    longjmp(inner_out, 1);
}

static E2E_FN int inner_catcher(void) {
    if (setjmp(inner_out) == 0)
        jump_inner();
    jump(9);
    return 0;
}

static E2E_FN int outer_catcher(void) {
    int value = setjmp(out);
    if (value == 0)
        inner_catcher();
    return value;
}

static E2E_FN void sig_jump(void) {
    E2E_BARRIER();
    siglongjmp(sig_out, 3);
}

static E2E_FN int sig_catcher(void) {
    int value = sigsetjmp(sig_out, 1);
    if (value == 0)
        sig_jump();
    return value;
}

/* The frame that is left was called from main; the next call from main has the same slot. */
static void check_same_slot(void) {
    if (setjmp(out) == 0)
        jump(1);
    E2E_EQUAL(leaf(1), 2);
    E2E_EXPECT("jump! leaf()");
    for (volatile int i = 0; i < 3; i++)
        if (setjmp(out) == 0)
            middle(1, 1);
    E2E_EQUAL(leaf(1), 2);
    E2E_EXPECT("middle(middle(jump!)!)!*3 leaf()");
}

static E2E_FN int loop_body(int i) {
    int value = setjmp(out);
    if (value == 0)
        middle(0, i + 1);
    return value;
}

/* A million longjmps out of two hooked frames: from a frame that stays, and from one that returns. */
static E2E_FN int endless(int times) {
    volatile int i = 0;
    setjmp(out);
    if (i < times) {
        i++;
        middle(0, 1);
    }
    return i;
}

static void check_endless(void) {
    int many = e2e_times(e2e_listening() ? 100000 : 1000000), some = many / 10; /* listeners are slow */
    size_t before = e2e_rss_kib();
    e2e_count_only();
    E2E_EQUAL(endless(many), many);
    for (int i = 0; i < some; i++)
        if (loop_body(i) != i + 1)
            e2e_fail(__FILE__, __LINE__, "wrong value out of setjmp");
    E2E_CHECK(e2e_rss_kib() < before + 16 * 1024);
    if (e2e_plain())
        return;
    E2E_EQUAL(e2e_total(CT_EVENT_CALL), 1 + 2 * many + 3 * some);
    E2E_EQUAL(e2e_total(CT_EVENT_EXCEPTION), 2 * (many + some));
    E2E_EQUAL(e2e_total(CT_EVENT_RETURN), 1 + some);
    struct ct_hooks_statistics s = {.size = sizeof s};
    ct_hooks_statistics(e2e_hooks, &s);
    E2E_EQUAL(s.deep_calls, 0);
}

static void check_all(void) {
    E2E_EQUAL(catcher(0), 6);
    E2E_EXPECT("catcher(middle(jump!)! leaf())");
    E2E_EQUAL(catcher(3), 6);
    E2E_EXPECT("catcher(middle(middle(middle(middle(jump!)!)!)!)! leaf())");
    E2E_EQUAL(outer_catcher(), 9);
    E2E_EXPECT("outer_catcher(inner_catcher(jump_inner! jump!)!)");
    E2E_EQUAL(sig_catcher(), 3);
    E2E_EXPECT("sig_catcher(sig_jump!)");
    check_same_slot();
    if (!e2e_plain()) {
        struct ct_hooks_statistics s = {.size = sizeof s};
        ct_hooks_statistics(e2e_hooks, &s);
        E2E_EQUAL(s.left_frames, 2 + 5 + 3 + 1 + 1 + 9);
    }
}

/* setjmp is recorded on entry only, because it returns twice. Its own name is a macro for one of these. */
int _setjmp(jmp_buf);
int __sigsetjmp(sigjmp_buf, int);

static void check_hooked_setjmp(void) {
    e2e_record("_setjmp", (void *)_setjmp);
    e2e_record("__sigsetjmp", (void *)__sigsetjmp);
    E2E_EQUAL(catcher(1), 6);
#ifdef __aarch64__
    E2E_EXPECT("catcher(_setjmp; middle(middle(jump!)!)! leaf())"); /* one jumps into the other, after its entry */
#else
    E2E_EXPECT("catcher(_setjmp; __sigsetjmp; middle(middle(jump!)!)! leaf())"); /* one jumps to the other */
#endif
    E2E_EQUAL(sig_catcher(), 3);
    E2E_EXPECT("sig_catcher(__sigsetjmp; sig_jump!)");
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    E2E_RECORD(jump);
    E2E_RECORD(middle);
    E2E_RECORD(leaf);
    E2E_RECORD(catcher);
    E2E_RECORD(jump_inner);
    E2E_RECORD(inner_catcher);
    E2E_RECORD(outer_catcher);
    E2E_RECORD(sig_jump);
    E2E_RECORD(sig_catcher);
    E2E_RECORD(loop_body);
    E2E_RECORD(endless);
    check_all();
    check_hooked_setjmp();
    if (!e2e_plain()) {
        /* the rest without setjmp's own events */
        struct ct_hooks_statistics s = {.size = sizeof s};
        ct_hooks_statistics(e2e_hooks, &s);
        E2E_EQUAL(s.entry_only, 2);
        E2E_EQUAL(ct_hooks_disable(e2e_hooks, 11), 0);
        E2E_EQUAL(ct_hooks_disable(e2e_hooks, 12), 0);
    }
    check_endless();
    return e2e_end();
}

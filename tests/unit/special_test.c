/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the engine must know about, as recorded processes meet them: walks of the stack that only look,
 * filters of system calls, a thread that gives up its time stamp counter. The slow paths are called as stubs call
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "os/os.h"
#include "runtime_util.h"

enum { CLONER = 58, LOOKER = 59, WALKER = 60, FILTER = 61, TRACER = 62 }; /* hooks */

static struct fixture f;

static int start(void **state) {
    (void)state;
    fixture_start(&f, 64, 64);
    f.hooks[WALKER].special = CT_SPECIAL_WALK;
    f.hooks[WALKER].entry_only = 1;
    f.hooks[FILTER].special = CT_SPECIAL_SECCOMP;
    f.hooks[LOOKER].special = CT_SPECIAL_LOOK;
    f.hooks[TRACER].special = CT_SPECIAL_TRACE;
    f.hooks[CLONER].special = CT_SPECIAL_CLONES;
    return 0;
}

static int end(void **state) {
    (void)state;
    check_free_entries(f.block);
    fixture_end(&f);
    return 0;
}

static uint64_t home(unsigned word) {
    return slot_at(&f, HOME_STACK, word);
}

static uint64_t call_special(unsigned hook, uint64_t slot, uint64_t a, uint64_t b, uint64_t c) {
    struct ct_special_frame frame = {.argument0 = a, .argument1 = b};
    *word_at(slot) = real_return(slot);
    struct ct_saved_registers *saved = (struct ct_saved_registers *)slot - 1, before = *saved;
    saved->argument2 = c;
    uint64_t go = ct_hook_special(slot, stub_of(&f, hook), &frame, NULL);
    *saved = before; /* slots of other frames, here */
    return go;
}

/* A call through the slow path: what comes after a walk goes there. */
static void call_slow(unsigned hook, uint64_t slot) {
    *word_at(slot) = real_return(slot);
    assert_int_equal(ct_hook_enter_slow(slot, stub_of(&f, hook), NULL), CT_GO_OBSERVED);
    *word_at(slot) = resume_of(&f, hook);
}

static void return_slow(uint64_t slot) {
    uint64_t to = ct_hook_leave_slow(slot, NULL);
    assert_int_equal(to, real_return(slot));
}

static bool is_bare(uint64_t slot) {
    return *word_at(slot) == real_return(slot);
}

/* ---- walks ---- */

/* Two frames, then a walk below them: while it goes on the stack shows real return addresses. */
static void walk(void) {
    fake_call(&f, 1, home(1000));
    fake_call(&f, 2, home(900));
    assert_string_equal(recorded(&f), "C1 C2");
    assert_int_equal(call_special(WALKER, home(800), 0, 0, 0), CT_GO_BODY);
    assert_string_equal(recorded(&f), "E60");
    assert_true(is_bare(home(1000)) && is_bare(home(900)));
}

static void test_walker_calls(void **state) {
    (void)state;
    walk();
    call_slow(3, home(700)); /* a function of the unwinder's own */
    assert_true(is_bare(home(900)));
    return_slow(home(700));
    assert_string_equal(recorded(&f), "C3 R3");
    call_slow(4, home(850)); /* back in the frame that walked */
    assert_false(is_bare(home(1000)) || is_bare(home(900)));
    return_slow(home(850));
    return_slow(home(900));
    return_slow(home(1000));
    assert_string_equal(recorded(&f), "C4 R4 R2 R1");
}

/* The frame that walked returns, unseen: its end is recorded when something is called next. */
static void test_frame_returns_unseen(void **state) {
    (void)state;
    walk();
    call_slow(3, home(950));
    assert_string_equal(recorded(&f), "R2 C3");
    assert_false(is_bare(home(1000)));
    return_slow(home(950));
    return_slow(home(1000));
    assert_string_equal(recorded(&f), "R3 R1");
}

static void test_all_return_unseen(void **state) {
    (void)state;
    walk();
    call_slow(3, home(1100));
    assert_string_equal(recorded(&f), "R2 R1 C3");
    return_slow(home(1100));
    assert_string_equal(recorded(&f), "R3");
}

/* In a loop: the same function is called again from the same place, so its frame lies where the one lay that walked. */
static void test_walk_in_a_loop(void **state) {
    (void)state;
    walk();
    for (int i = 0; i < 3; i++) {
        call_slow(2, home(900));
        assert_string_equal(recorded(&f), "R2 C2");
        assert_int_equal(call_special(WALKER, home(800), 0, 0, 0), CT_GO_BODY);
        assert_string_equal(recorded(&f), "E60");
    }
    call_slow(3, home(950));
    assert_string_equal(recorded(&f), "R2 C3");
    return_slow(home(950));
    return_slow(home(1000));
    assert_string_equal(recorded(&f), "R3 R1");
    assert_int_equal(entries_in_use(f.block), 0);
}

/* A handler interrupts a stub on its way in, and walks the stack. The stub then puts its address there, and its
 * function goes on in others by tail calls: none of them has returned unseen. */
static void test_walk_before_tail_calls(void **state) {
    (void)state;
    uint64_t slot = home(900);
    fake_call(&f, 1, home(1000));
    fake_call(&f, 2, slot);
    f.block->top[-1].slot = slot + (uint64_t)CT_SLOT_ENTERING;
    *word_at(slot) = real_return(slot);
    assert_int_equal(call_special(WALKER, home(800), 0, 0, 0), CT_GO_BODY);
    ct_shadow_filled(f.block, slot);
    *word_at(slot) = resume_of(&f, 2);
    assert_string_equal(recorded(&f), "C1 C2 E60");
    for (unsigned hook = 3; hook <= 4; hook++) {
        assert_int_equal(ct_hook_enter_slow(slot, stub_of(&f, hook), NULL), CT_GO_OBSERVED);
        *word_at(slot) = resume_of(&f, hook);
    }
    assert_string_equal(recorded(&f), "C3 C4");
    for (unsigned hook = 3; hook >= 2; hook--) {
        assert_int_equal(ct_hook_leave_slow(slot, NULL), resume_of(&f, hook));
        *word_at(slot) = resume_of(&f, hook);
    }
    return_slow(slot);
    return_slow(home(1000));
    assert_string_equal(recorded(&f), "R4 R3 R2 R1");
}

static void test_return_range(void **state) {
    (void)state;
    f.hooks[7].flavor = CT_ACTION_NONE;
    fake_call(&f, 1, home(1000));
    fake_call(&f, 2, home(900));
    fake_call(&f, 7, home(800));
    fake_call(&f, 4, slot_at(&f, LOW_STACK, 850)); /* another stack: not concerned */
    fake_call(&f, 3, home(700));
    recorded(&f);
    ct_shadow_return_range(f.block, home(750), home(950));
    assert_string_equal(recorded(&f), "R2"); /* newest first; one that is not recorded ends silently */
    assert_false(knows_return(&f, 2, home(900)));
    assert_true(knows_return(&f, 3, home(700)));
    assert_true(knows_return(&f, 4, slot_at(&f, LOW_STACK, 850)));
    assert_true(knows_return(&f, 1, home(1000)));
}

/* ---- walks whose end is seen ---- */

/* Two frames and a function that looks at them: they are bare until it returns, which is seen. */
static void look(unsigned hook, uint64_t frame) {
    fake_call(&f, 1, home(1000));
    fake_call(&f, 2, home(900));
    assert_int_equal(call_special(hook, home(800), 0, 0, frame), CT_GO_OBSERVED);
    *word_at(home(800)) = resume_of(&f, hook);
}

static void check_dressed(void) {
    assert_false(is_bare(home(1000)) || is_bare(home(900)));
    assert_int_equal(f.block->attention, 0);
    return_slow(home(900));
    return_slow(home(1000));
    assert_int_equal(entries_in_use(f.block), 0);
}

static void test_look(void **state) {
    (void)state;
    look(LOOKER, 0);
    assert_true(is_bare(home(1000)) && is_bare(home(900)));
    call_slow(3, home(700));
    return_slow(home(700));
    assert_true(is_bare(home(1000)) && is_bare(home(900)));
    return_slow(home(800));
    check_dressed();
    assert_string_equal(recorded(&f), "C1 C2 C59 C3 R3 R59 R2 R1");
}

/* Nobody wants it recorded: it has a frame all the same, and no events. */
static void test_look_unrecorded(void **state) {
    (void)state;
    f.hooks[LOOKER].flavor = CT_ACTION_NONE;
    look(LOOKER, 0);
    assert_true(is_bare(home(1000)) && is_bare(home(900)));
    assert_int_equal(ct_hook_on_return(NULL, home(800)), real_return(home(800)));
    check_dressed();
    assert_string_equal(recorded(&f), "C1 C2 R2 R1");
}

static uint64_t heard[2];

static void hear_call(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu;
    heard[0] = call->data;
}

static void hear_return(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu;
    heard[1] = call->data;
}

/* Guests tell calls apart by their slots, which are not the stack pointer on each machine. */
static void test_guests_hear_of_slots(void **state) {
    (void)state;
    uint64_t words[64] = {0};
    struct ct_cpu_context *cpu = (struct ct_cpu_context *)words;
    f.runtime.guests[0] = (struct ct_hook_guest){hear_call, hear_return, 0};
    *word_at(home(800)) = real_return(home(800));
    assert_int_equal(ct_hook_on_call(cpu, home(800), stub_of(&f, 3)), CT_GO_OBSERVED);
    *word_at(home(800)) = resume_of(&f, 3);
    assert_int_equal(ct_hook_on_return(cpu, home(800)), real_return(home(800)));
    assert_int_equal(heard[0], home(800));
    assert_int_equal(heard[1], home(800));
    assert_string_equal(recorded(&f), "C3 R3");
    f.runtime.guests[0] = (struct ct_hook_guest){0};
}

/* It ends with a jump to another function, which looks in its place. */
static void test_look_handed_on(void **state) {
    (void)state;
    look(LOOKER, 0);
    assert_int_equal(ct_hook_enter_slow(home(800), stub_of(&f, 3), NULL), CT_GO_OBSERVED);
    assert_true(is_bare(home(1000)) && is_bare(home(900)));
    *word_at(home(800)) = resume_of(&f, 3);
    assert_int_equal(ct_hook_leave_slow(home(800), NULL), resume_of(&f, LOOKER));
    *word_at(home(800)) = resume_of(&f, LOOKER);
    return_slow(home(800));
    check_dressed();
}

/* It is left without a return: the next call dresses. */
static void test_look_left(void **state) {
    (void)state;
    look(LOOKER, 0);
    call_slow(3, home(850));
    return_slow(home(850));
    check_dressed();
    assert_string_equal(recorded(&f), "C1 C2 C59 X59 C3 R3 R2 R1");
}

/* In the midst of a walk: that one's frames stay bare. */
static void test_look_in_a_walk(void **state) {
    (void)state;
    walk();
    assert_int_equal(call_special(LOOKER, home(700), 0, 0, 0), CT_GO_OBSERVED);
    *word_at(home(700)) = resume_of(&f, LOOKER);
    return_slow(home(700));
    assert_true(is_bare(home(1000)) && is_bare(home(900)));
    call_slow(3, home(850));
    return_slow(home(850));
    check_dressed();
}

/* Along frame pointers: `depth` is an argument on the stack of the stub, zero here, and one frame more is always
 * bare. */
static void test_trace_ends_with_the_chain(void **state) {
    (void)state;
    *word_at(home(899)) = home(999); /* frame pointers, each below its return address */
    *word_at(home(999)) = 0;
    look(TRACER, home(899));
    assert_true(is_bare(home(900)));
    assert_false(is_bare(home(1000)));
    return_slow(home(800));
    check_dressed();
    assert_int_equal(ct_frame_chain_end(home(800), home(899), home(1010), 1), home(901));
    assert_int_equal(ct_frame_chain_end(home(800), home(899), home(1010), 9), home(1001));
    assert_int_equal(ct_frame_chain_end(home(800), home(899), home(1000), 9), home(901));
    assert_int_equal(ct_frame_chain_end(home(800), home(899) + 1, home(1010), 9), home(801)); /* no frame pointer */
    assert_int_equal(ct_frame_chain_end(home(800), home(700), home(1010), 9), home(801));
    assert_int_equal(ct_frame_chain_end(home(800), UINT64_MAX - 7, home(1010), 9), home(801));
}

/* ---- children on our memory ---- */

static void clone_as(uint64_t function, uint64_t stack, uint64_t flags) {
    assert_int_equal(call_special(CLONER, home(900), function, stack, flags), CT_GO_OBSERVED);
    *word_at(home(900)) = resume_of(&f, CLONER);
}

/* What looks like a clone that runs beside us is one: the block is shared until the child has its own. */
static void test_clone_by_its_code(void **state) {
    (void)state;
    enum { VM = 0x100, VFORK = 0x4000, SETTLS = 0x80000, UNTRACED = 0x800000, ADDRESS = 0x10000 };
    static const uint64_t passing[][3] = {
        {0, 0, 0},        {ADDRESS, ADDRESS, VM | VFORK}, {ADDRESS, ADDRESS, VM | SETTLS}, {ADDRESS, 1, VM},
        {1, ADDRESS, VM}, {ADDRESS, ADDRESS, VM | 200},
    };
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++) {
        clone_as(passing[i][0], passing[i][1], passing[i][2]);
        assert_int_equal(f.block->attention, CT_ATTENTION_CONTESTED);
        return_slow(home(900));
        assert_int_equal(f.block->attention, 0);
    }
    clone_as(ADDRESS, ADDRESS, VM | UNTRACED);
    assert_int_equal(f.block->attention, CT_ATTENTION_SHARED);
    return_slow(home(900));
    call_slow(1, home(800));
    assert_int_equal(f.block->attention, CT_ATTENTION_SHARED); /* the child may still come */
    f.block->parted++;
    return_slow(home(800));
    assert_int_equal(f.block->attention, 0);
}

/* A thread pointer that is the same in all threads does not say whose block it is. */
static void test_clone_without_thread_pointers(void **state) {
    (void)state;
    f.block->thread_pointer = 0;
    clone_as(0, 0, 0);
    assert_int_equal(f.block->attention, CT_ATTENTION_SHARED);
    return_slow(home(900));
    assert_int_equal(f.block->attention, CT_ATTENTION_SHARED);
    f.block->parted++;
    call_slow(1, home(800));
    assert_int_equal(f.block->attention, 0);
    return_slow(home(800));
}

/* ---- system calls that change what we may do ---- */

/* In a child: there is no way back. The result is what the child says. */
static int in_child(int (*what)(void)) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        f.runtime.pid = ct_os_getpid();
        f.block->owner = f.block->thread_pointer; /* it was wiped */
        _exit(what());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int stay_talking(void) {
    static const uint64_t harmless[][3] = {
        {15, 1, 2},       /* prctl(PR_SET_NAME) */
        {21, 0, 0},       /* prctl(PR_GET_SECCOMP) */
        {22, 0x7fff0000}, /* syscall(SYS_pipe, fds) */
        {157, 15, 1},     /* syscall(SYS_prctl, PR_SET_NAME) */
        {26, 1},          /* prctl(PR_SET_TSC, PR_TSC_ENABLE) */
        {39},             /* syscall(SYS_getpid) */
    };
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++) {
        call_special(FILTER, home(900), harmless[i][0], harmless[i][1], harmless[i][2]);
        if (ct_os_is_silent() || f.block->detached)
            return 10 + (int)i;
    }
    return 0;
}

static int silence(uint64_t a, uint64_t b, uint64_t c) {
    fake_call(&f, 1, home(1000));
    if (call_special(FILTER, home(900), a, b, c) != CT_GO_OBSERVED || !ct_os_is_silent())
        return 1;
    if (!f.block->home_high || f.block->detached)
        return 2; /* where its stack is must be known: the maps cannot be read any more */
    *word_at(home(900)) = resume_of(&f, FILTER);
    return_slow(home(900));
    return ct_os_block_signals() == 0 && ct_os_set_block(f.block) != 0 ? 0 : 3;
}

static int by_prctl(void) {
    return silence(22, 2, 0);
}
static int by_syscall_prctl(void) {
    return silence(157, 22, 2);
}
static int by_syscall_seccomp(void) {
    return silence(317, 1, 0);
}

static void test_filters(void **state) {
    (void)state;
    assert_int_equal(in_child(stay_talking), 0);
    assert_int_equal(in_child(by_prctl), 0);
    assert_int_equal(in_child(by_syscall_prctl), 0);
    assert_int_equal(in_child(by_syscall_seccomp), 0);
}

/* Threads whose counter may not be read any more are not recorded, and their frames return without us. */
static int without_counter(uint64_t a, uint64_t b, uint64_t c) {
    fake_call(&f, 1, home(1000));
    (void)call_special(FILTER, home(900), a, b, c);
    if (!f.block->detached || !is_bare(home(1000)))
        return 1;
    *word_at(home(800)) = real_return(home(800));
    return ct_hook_enter_slow(home(800), stub_of(&f, 2), NULL) == CT_GO_BODY ? 0 : 2;
}

static int by_set_tsc(void) {
    return without_counter(26, 2, 0);
}
static int by_strict_mode(void) {
    return without_counter(22, 1, 0);
}
static int by_strict_seccomp(void) {
    return without_counter(317, 0, 0);
}

static void test_without_counter(void **state) {
    (void)state;
    assert_int_equal(in_child(by_set_tsc), 0);
    assert_int_equal(in_child(by_strict_mode), 0);
    assert_int_equal(in_child(by_strict_seccomp), 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
    const struct CMUnitTest tests[] = {
        TEST(test_walker_calls),
        TEST(test_frame_returns_unseen),
        TEST(test_all_return_unseen),
        TEST(test_walk_in_a_loop),
        TEST(test_walk_before_tail_calls),
        TEST(test_return_range),
        TEST(test_filters),
        TEST(test_without_counter),
        TEST(test_look),
        TEST(test_look_unrecorded),
        TEST(test_guests_hear_of_slots),
        TEST(test_look_handed_on),
        TEST(test_look_left),
        TEST(test_look_in_a_walk),
        TEST(test_trace_ends_with_the_chain),
        TEST(test_clone_by_its_code),
        TEST(test_clone_without_thread_pointers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

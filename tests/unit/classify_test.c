/* SPDX-License-Identifier: Apache-2.0 */
/* How functions are treated, by what is known of them; from inside and from outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hook/classify.h"
#include "hook/scan.h"
#include "symbols/functions.h"

static struct ct_function_class from_outside(const char *name, uint32_t scan_flags) {
    return ct_classify(&(struct ct_function_facts){
        .side = CT_CLASSIFY_OUTSIDE, .name = name, .flags = CT_FUNC_NAMED, .scan_flags = scan_flags});
}

static struct ct_function_class from_inside(const char *name, uint32_t scan_flags) {
    return ct_classify(&(struct ct_function_facts){
        .side = CT_CLASSIFY_INSIDE, .name = name, .flags = CT_FUNC_NAMED, .scan_flags = scan_flags});
}

static void test_ordinary(void **state) {
    (void)state;
    struct ct_function_class c = from_outside("main", 0);
    assert_int_equal(c.skip, CT_HOOK_SKIP_NONE);
    assert_int_equal(c.special, CT_SPECIAL_NONE);
    assert_int_equal(c.entry_only, CT_HOOK_ENTRY_ONLY_NONE);
    assert_false(c.service);
}

static void test_stack_walks_differ_by_side(void **state) {
    (void)state;
    assert_int_equal(from_inside("_Unwind_Backtrace", 0).special, CT_SPECIAL_UNWIND);
    assert_int_equal(from_outside("_Unwind_Backtrace", 0).special, CT_SPECIAL_WALK);
    assert_int_equal(from_outside("_Unwind_Backtrace", 0).entry_only, CT_HOOK_ENTRY_ONLY_UNWINDER);
    assert_true(from_outside("_Unwind_Backtrace", 0).service);
    assert_int_equal(from_outside("_Unwind_Resume", 0).special, CT_SPECIAL_UNWIND);
}

/* They look at their callers' frames alone, so their own return is seen. */
static void test_walks_that_return(void **state) {
    (void)state;
    static const char *const steps[] = {"_ULx86_64_step", "unw_step", "__unw_step"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        assert_int_equal(from_outside(steps[i], 0).special, CT_SPECIAL_LOOK);
        assert_int_equal(from_outside(steps[i], 0).entry_only, CT_HOOK_ENTRY_ONLY_NONE);
        assert_int_equal(from_inside(steps[i], 0).special, CT_SPECIAL_NONE);
    }
    assert_int_equal(from_outside("", CT_SCAN_TRACES).special, CT_SPECIAL_TRACE);
    assert_int_equal(from_outside("_ZN11__sanitizer18BufferedStackTrace10UnwindFastEmmmmj", 0).special,
                     CT_SPECIAL_TRACE);
    assert_int_equal(from_inside("", CT_SCAN_TRACES).special, CT_SPECIAL_NONE);
    assert_int_equal(from_outside("unw_backtrace", 0).special, CT_SPECIAL_WALK);
    assert_int_equal(from_outside("unw_backtrace", 0).entry_only, CT_HOOK_ENTRY_ONLY_UNWINDER);
    assert_int_equal(from_outside("backtrace", 0).special, CT_SPECIAL_NONE); /* libc's */
    struct ct_function_facts facts = {.side = CT_CLASSIFY_OUTSIDE, .name = "backtrace", .walks = true};
    assert_int_equal(ct_classify(&facts).special, CT_SPECIAL_WALK);
    facts.name = "main";
    assert_int_equal(ct_classify(&facts).special, CT_SPECIAL_NONE);
}

/* Only the C library's own: others of that name keep handlers themselves. */
static void test_sigaction_of_libc(void **state) {
    (void)state;
    struct ct_function_facts f = {.side = CT_CLASSIFY_OUTSIDE, .name = "sigaction", .flags = CT_FUNC_NAMED};
    assert_int_equal(ct_classify(&f).special, CT_SPECIAL_NONE);
    f.libc = true;
    assert_int_equal(ct_classify(&f).special, CT_SPECIAL_SIGACTION);
    assert_int_equal(ct_classify(&f).entry_only, CT_HOOK_ENTRY_ONLY_NONE);
    assert_true(ct_classify(&f).service);
    f.side = CT_CLASSIFY_INSIDE;
    assert_int_equal(ct_classify(&f).special, CT_SPECIAL_NONE);
}

static void test_filters_matter_outside_only(void **state) {
    (void)state;
    static const char *const names[] = {"prctl", "seccomp", "syscall"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct ct_function_class in = from_inside(names[i], 0), out = from_outside(names[i], 0);
        assert_int_equal(in.special, CT_SPECIAL_NONE);
        assert_false(in.service);
        assert_int_equal(in.entry_only, CT_HOOK_ENTRY_ONLY_NONE);
        assert_int_equal(out.special, CT_SPECIAL_SECCOMP);
        assert_true(out.service);
        assert_int_equal(out.entry_only, CT_HOOK_ENTRY_ONLY_NONE);
    }
}

static void test_known_by_code(void **state) {
    (void)state;
    struct ct_function_class c = from_outside("x", CT_SCAN_CLONES);
    assert_int_equal(c.special, CT_SPECIAL_CLONES);
    assert_int_equal(c.entry_only, CT_HOOK_ENTRY_ONLY_NONE);
    assert_true(c.service);
    c = from_outside("", CT_SCAN_LONGJMP | CT_SCAN_USES_RETURN);
    assert_int_equal(c.special, CT_SPECIAL_JUMP);
    assert_int_equal(c.entry_only, CT_HOOK_ENTRY_ONLY_JUMPS_AWAY);
    assert_true(c.service);
    assert_int_equal(from_outside("x", CT_SCAN_POPS_ARGUMENTS).entry_only, CT_HOOK_ENTRY_ONLY_POPS_ARGUMENTS);
    c = from_inside("x", CT_SCAN_USES_RETURN);
    assert_int_equal(c.entry_only, CT_HOOK_ENTRY_ONLY_READS_RETURN);
    assert_int_equal(c.special, CT_SPECIAL_NONE);
    assert_false(c.service);
    /* a name wins over the code */
    assert_int_equal(from_outside("clone", CT_SCAN_CLONES).special, CT_SPECIAL_CLONE);
    assert_int_equal(from_outside("clone", CT_SCAN_CLONES).entry_only, CT_HOOK_ENTRY_ONLY_NEW_THREAD);
}

static void test_return_maps(void **state) {
    (void)state;
    struct ct_function_facts f = {.name = "f", .flags = CT_FUNC_NAMED, .return_map = true};
    assert_int_equal(ct_classify(&f).entry_only, CT_HOOK_ENTRY_ONLY_RETURN_MAP);
    f.scan_flags = CT_SCAN_POPS_ARGUMENTS;
    assert_int_equal(ct_classify(&f).entry_only, CT_HOOK_ENTRY_ONLY_POPS_ARGUMENTS);
}

static enum ct_hook_skip_reason skip_of(uint32_t flags, uint32_t scan_flags, bool referenced) {
    return ct_classify(&(struct ct_function_facts){
                           .name = "", .flags = flags, .scan_flags = scan_flags, .referenced = referenced})
        .skip;
}

static void test_skips(void **state) {
    (void)state;
    assert_int_equal(skip_of(CT_FUNC_NAMED | CT_FUNC_PLT | CT_FUNC_COLD, 0, true), CT_HOOK_SKIP_PLT);
    assert_int_equal(skip_of(CT_FUNC_NAMED | CT_FUNC_COLD, 0, true), CT_HOOK_SKIP_COLD);
    assert_int_equal(skip_of(CT_FUNC_NAMED | CT_FUNC_ODD_ENTRY, 0, true), CT_HOOK_SKIP_ODD_ENTRY);
    assert_int_equal(skip_of(CT_FUNC_NAMED | CT_FUNC_NO_RETURN_ADDRESS, 0, true), CT_HOOK_SKIP_ODD_ENTRY);
    assert_int_equal(skip_of(CT_FUNC_NAMED | CT_FUNC_DOUBTFUL | CT_FUNC_ODD_ENTRY, 0, true), CT_HOOK_SKIP_ODD_ENTRY);
    assert_int_equal(skip_of(CT_FUNC_NAMED | CT_FUNC_DOUBTFUL, 0, true), CT_HOOK_SKIP_DOUBTFUL);
    assert_int_equal(skip_of(CT_FUNC_FDE, CT_SCAN_CONDITIONAL, false), CT_HOOK_SKIP_FRAGMENT);
    assert_int_equal(skip_of(CT_FUNC_FDE, CT_SCAN_CONDITIONAL, true), CT_HOOK_SKIP_NONE);
    assert_int_equal(skip_of(CT_FUNC_NAMED, CT_SCAN_CONDITIONAL, false), CT_HOOK_SKIP_NONE);
    assert_int_equal(skip_of(CT_FUNC_FDE, 0, false), CT_HOOK_SKIP_NONE);
    assert_int_equal(skip_of(CT_FUNC_NAMED | CT_FUNC_IFUNC, 0, false), CT_HOOK_SKIP_NONE);
}

/* Who runs the code finds it as it was made, services included. */
static void test_read_code(void **state) {
    (void)state;
    struct ct_function_facts f = {.side = CT_CLASSIFY_OUTSIDE, .name = "longjmp", .flags = CT_FUNC_NAMED};
    assert_true(ct_classify(&f).service);
    f.reads_code = true;
    assert_false(ct_classify(&f).service);
    assert_int_equal(ct_classify(&f).skip, CT_HOOK_SKIP_READ_CODE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ordinary),
        cmocka_unit_test(test_stack_walks_differ_by_side),
        cmocka_unit_test(test_walks_that_return),
        cmocka_unit_test(test_sigaction_of_libc),
        cmocka_unit_test(test_filters_matter_outside_only),
        cmocka_unit_test(test_known_by_code),
        cmocka_unit_test(test_return_maps),
        cmocka_unit_test(test_skips),
        cmocka_unit_test(test_read_code),
    };
    return cmocka_run_group_tests_name("classify", tests, NULL, NULL);
}

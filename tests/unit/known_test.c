/* SPDX-License-Identifier: Apache-2.0 */
/* The table of functions that are known by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "hook/known.h"

static void test_sorted_without_duplicates(void **state) {
    (void)state;
    size_t count = 0;
    for (const struct ct_known_function *f = ct_known_functions; f->name; f++, count++)
        if (f[1].name && strcmp(f->name, f[1].name) >= 0)
            fail_msg("%s must stand before %s", f[1].name, f->name);
    assert_true(count >= 40);
}

static void test_every_name_is_found(void **state) {
    (void)state;
    for (const struct ct_known_function *f = ct_known_functions; f->name; f++) {
        char copy[64];
        snprintf(copy, sizeof copy, "%s", f->name);
        assert_ptr_equal(ct_known_find(copy), f);
    }
}

/* An entry that says nothing would only cost time, and a special one without a reason would get a shadow entry that its
 * second return misses: only those that return once, to their caller, may have none. */
static void test_every_entry_says_something(void **state) {
    (void)state;
    for (const struct ct_known_function *f = ct_known_functions; f->name; f++) {
        assert_in_range(f->entry_only, CT_HOOK_ENTRY_ONLY_NONE, CT_HOOK_ENTRY_ONLY_COUNT - 1);
        assert_in_range(f->special, CT_SPECIAL_NONE, CT_SPECIAL_SIGACTION);
        assert_true(f->entry_only || f->special == CT_SPECIAL_SECCOMP || f->special == CT_SPECIAL_EXEC ||
                    f->special == CT_SPECIAL_LOADED || f->special == CT_SPECIAL_LOOK ||
                    f->special == CT_SPECIAL_TRACE || f->special == CT_SPECIAL_SIGACTION ||
                    f->special == CT_SPECIAL_SET_BASE);
    }
}

static void test_unknown_names(void **state) {
    (void)state;
    static const char *const names[] = {"",  "a",  "zzz",  "Setjmp",   "setjm", "setjmp_",
                                        "_", "__", "main", "\xff\xff", "vforkk"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_null(ct_known_find(names[i]));
    /* neither a beginning nor a continuation of a known name is known, unless it is in the table itself */
    for (const struct ct_known_function *f = ct_known_functions; f->name; f++) {
        char longer[64];
        snprintf(longer, sizeof longer, "%s_x", f->name);
        assert_null(ct_known_find(longer));
    }
}

static void check(const char *name, enum ct_hook_entry_only_reason entry_only, enum ct_special special) {
    const struct ct_known_function *f = ct_known_find(name);
    assert_non_null(f);
    assert_int_equal(f->entry_only, entry_only);
    assert_int_equal(f->special, special);
}

static void test_kinds(void **state) {
    (void)state;
    static const char *const jumps[] = {"longjmp", "_longjmp", "siglongjmp", "__longjmp_chk", "____longjmp_chk"};
    static const char *const twice[] = {"setjmp", "_setjmp", "__sigsetjmp", "getcontext", "swapcontext"};
    static const char *const readers[] = {"dlsym", "dlvsym", "dlopen", "dlmopen", "dl_iterate_phdr", "mcount"};
    static const char *const unwinders[] = {"_Unwind_RaiseException", "_Unwind_Resume", "_Unwind_Resume_or_Rethrow",
                                            "_Unwind_ForcedUnwind", "_Unwind_Backtrace"};
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++)
        check(jumps[i], CT_HOOK_ENTRY_ONLY_JUMPS_AWAY, CT_SPECIAL_JUMP);
    for (size_t i = 0; i < sizeof twice / sizeof *twice; i++)
        check(twice[i], CT_HOOK_ENTRY_ONLY_RETURNS_TWICE, CT_SPECIAL_NONE);
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        check(readers[i], CT_HOOK_ENTRY_ONLY_READS_RETURN, CT_SPECIAL_NONE);
    for (size_t i = 0; i < sizeof unwinders / sizeof *unwinders; i++)
        check(unwinders[i], CT_HOOK_ENTRY_ONLY_UNWINDER, CT_SPECIAL_UNWIND);
    check("_Unwind_SetIP", CT_HOOK_ENTRY_ONLY_UNWINDER, CT_SPECIAL_LAND);
    check("vfork", CT_HOOK_ENTRY_ONLY_RETURNS_TWICE, CT_SPECIAL_VFORK);
    check("clone", CT_HOOK_ENTRY_ONLY_NEW_THREAD, CT_SPECIAL_CLONE);
    check("clone3", CT_HOOK_ENTRY_ONLY_NEW_THREAD, CT_SPECIAL_CLONE);
    check("prctl", CT_HOOK_ENTRY_ONLY_NONE, CT_SPECIAL_SECCOMP);
    check("seccomp", CT_HOOK_ENTRY_ONLY_NONE, CT_SPECIAL_SECCOMP);
    check("syscall", CT_HOOK_ENTRY_ONLY_NONE, CT_SPECIAL_SECCOMP);
}

/* A context is not a jmp_buf: what setcontext is given must not be read as one. */
static void test_contexts_are_no_jump_buffers(void **state) {
    (void)state;
    check("setcontext", CT_HOOK_ENTRY_ONLY_JUMPS_AWAY, CT_SPECIAL_NONE);
    check("__setcontext", CT_HOOK_ENTRY_ONLY_JUMPS_AWAY, CT_SPECIAL_NONE);
}

static void test_return_maps(void **state) {
    (void)state;
    assert_true(ct_known_return_map("caml_start_program"));
    assert_true(ct_known_return_map("Builtins_CEntry_Return1_ArgvOnStack_NoBuiltinExit"));
    assert_true(ct_known_return_map("runtime.morestack.abi0"));
    assert_true(ct_known_return_map("stg_returnToStackTop"));
    assert_true(ct_known_return_map("JNI_CreateJavaVM"));
    assert_false(ct_known_return_map(""));
    assert_false(ct_known_return_map("caml"));
    assert_false(ct_known_return_map("xcaml_start_program"));
    assert_false(ct_known_return_map("runtime.main"));
    assert_false(ct_known_return_map("main"));
}

static void test_inner_entries(void **state) {
    (void)state;
    assert_true(ct_known_inner_entry("runtime.goexit"));
    assert_true(ct_known_inner_entry("runtime.goexit.abi0"));
    assert_false(ct_known_inner_entry("runtime.goexit1"));
    assert_false(ct_known_inner_entry(""));
}

static void test_read_code(void **state) {
    (void)state;
    assert_true(ct_known_reads_code("/usr/lib/mono/aot-cache/amd64/mscorlib.dll.so"));
    assert_true(ct_known_reads_code("/usr/libexec/valgrind/memcheck-amd64-linux"));
    assert_false(ct_known_reads_code("/usr/lib/x86_64-linux-gnu/libc.so.6"));
    assert_false(ct_known_reads_code("/opt/valgrind/bin/program"));
    assert_true(ct_known_translates("/usr/libexec/valgrind/memcheck-amd64-linux"));
    assert_false(ct_known_translates("/usr/lib/mono/aot-cache/amd64/mscorlib.dll.so"));
    assert_false(ct_known_translates("/opt/valgrind/bin/program"));
    assert_false(ct_known_reads_code(""));
}

/* ---- texts ---- */

static void test_texts(void **state) {
    (void)state;
    for (int i = 0; i < CT_HOOK_SKIP_COUNT; i++) {
        assert_true(*ct_hook_skip_name((enum ct_hook_skip_reason)i));
        assert_true(*ct_hook_skip_text((enum ct_hook_skip_reason)i));
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(ct_hook_skip_name((enum ct_hook_skip_reason)i),
                                    ct_hook_skip_name((enum ct_hook_skip_reason)j));
            assert_string_not_equal(ct_hook_skip_text((enum ct_hook_skip_reason)i),
                                    ct_hook_skip_text((enum ct_hook_skip_reason)j));
        }
    }
    for (int i = 0; i < CT_HOOK_ENTRY_ONLY_COUNT; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(ct_hook_entry_only_text((enum ct_hook_entry_only_reason)i),
                                    ct_hook_entry_only_text((enum ct_hook_entry_only_reason)j));
    assert_string_equal(ct_hook_skip_name(CT_HOOK_SKIP_NONE), "NONE");
    assert_string_equal(ct_hook_skip_name(CT_HOOK_SKIP_TOO_SHORT), "TOO_SHORT");
    assert_string_equal(ct_hook_skip_name(CT_HOOK_SKIP_COUNT), "UNKNOWN");
    assert_string_equal(ct_hook_skip_text((enum ct_hook_skip_reason) - 1), "unknown reason");
    assert_string_equal(ct_hook_entry_only_text(CT_HOOK_ENTRY_ONLY_COUNT), "unknown reason");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sorted_without_duplicates),
        cmocka_unit_test(test_every_name_is_found),
        cmocka_unit_test(test_every_entry_says_something),
        cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_contexts_are_no_jump_buffers),
        cmocka_unit_test(test_return_maps),
        cmocka_unit_test(test_inner_entries),
        cmocka_unit_test(test_read_code),
        cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests_name("known", tests, NULL, NULL);
}

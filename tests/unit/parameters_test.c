/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and results of real calls: each function of the subjects is called with everything kept that a detail
 * record would have, and what is read of it by debug information must be what was passed. The compiler is the oracle.
 *
 * parameters_test SUBJECT.so ... */
#include "programs/parameters_subject.h"
#include "symbols/parameters.h"
#include "trace/arguments.h"
#include "trace/value_text.h"
#include <contrail/status.h>
#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

static struct {
    const char *path;
    void *library;
    uint64_t base;
    struct ct_parameters *parameters;
} subjects[8];
static size_t subject_count;

static void fill(struct ct_trace_detail *detail, const struct capture *capture, uint32_t type) {
    memset(detail, 0, sizeof *detail);
    detail->type = type;
    memcpy(detail->registers, capture->registers, sizeof detail->registers);
    detail->stack_pointer = capture->stack_pointer;
    detail->has_vectors = true;
    memcpy(detail->vectors, capture->vectors, sizeof detail->vectors);
    detail->stack_size = type == CT_TRACE_DETAIL_CALL ? sizeof capture->stack : 0;
    memcpy(detail->stack, capture->stack, sizeof capture->stack);
}

static const struct capture *captured(size_t subject, int back) {
    const struct capture *(*function)(int) =
        (const struct capture *(*)(int))dlsym(subjects[subject].library, "captured");
    return function(back);
}

/* An asterisk in the pattern stands for anything up to what follows it. */
static bool fits(const char *pattern, const char *text) {
    for (; *pattern && *pattern != '*'; pattern++, text++)
        if (*pattern != *text)
            return false;
    if (!*pattern)
        return !*text;
    do
        if (fits(pattern + 1, text))
            return true;
    while (*text++);
    return false;
}

static int check_case(size_t subject, const struct subject_case *c) {
    static struct ct_trace_detail detail = {.size = sizeof detail};
    static struct ct_arguments arguments;
    char text[1000];
    int failed = 0;
    Dl_info info = {0};
    uint64_t offset = (uint64_t)c->function - subjects[subject].base;
    const struct ct_signature *signature = ct_parameters_find(subjects[subject].parameters, offset, false);
    const char *name = dladdr(c->function, &info) && info.dli_sname ? info.dli_sname : "?";
    if (!signature) {
        print_error("%s: %s is not known\n", subjects[subject].path, name);
        return 1;
    }
    c->call();
    for (int turn = 0; turn < 2; turn++) {
        fill(&detail, captured(subject, turn), turn ? CT_TRACE_DETAIL_RETURN : CT_TRACE_DETAIL_CALL);
        ct_arguments_by(signature, &detail, &arguments);
        ct_arguments_text(&arguments, text, sizeof text);
        const char *expected = turn ? c->result : c->arguments;
        if (fits(expected, text))
            continue;
        print_error("%s: %s %s: expected %s, got %s\n", subjects[subject].path, name, turn ? "returns" : "takes",
                    expected, text);
        failed++;
    }
    return failed;
}

static int check_cases(size_t subject, const struct subject_case *cases) {
    int failed = 0, count = 0;
    for (; cases->function; cases++, count++)
        failed += check_case(subject, cases);
    assert_true(count >= 10);
    return failed;
}

static void test_c(void **state) {
    (void)state;
    int failed = 0;
    for (size_t i = 0; i < subject_count; i++) {
        const struct subject_case *cases = dlsym(subjects[i].library, "cases_c");
        assert_non_null(cases);
        failed += check_cases(i, cases);
    }
    assert_int_equal(failed, 0);
}

static void test_cxx(void **state) {
    (void)state;
    int failed = 0;
    for (size_t i = 0; i < subject_count; i++) {
        const struct subject_case *(*cases)(void) =
            (const struct subject_case *(*)(void))dlsym(subjects[i].library, "cases_cxx");
        assert_non_null(cases);
        failed += check_cases(i, cases());
    }
    assert_int_equal(failed, 0);
}

/* What is not in the record is not made up. */
static void test_missing(void **state) {
    (void)state;
    static struct ct_trace_detail detail = {.size = sizeof detail};
    static struct ct_arguments arguments;
    static const struct {
        const char *function, *expected;
        bool vectors;
        uint16_t stack;
    } cases[] = {
        {"reals", "a=?, b=?, n=7, c=?", false, 0},
        {"many", "a=1, b=2, c=3, d=4, e=5, f=6, g=?, h=?, i=?, x=0.5", true, 0},
        {"many", "a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=?, i=?, x=0.5", true, 16},
        {"many", "a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=-8, i=?, x=?", false, 24},
        {"big", "n=1, a={a=10, b=20, c=?, name=?}, m=2", true, 24},
        {"big", "n=1, a=?, m=2", true, 8},
        {"pointers", "p=0x1234, q=0x0, function=0x5678, text=0x*", true, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1000];
        const struct subject_case *c = dlsym(subjects[0].library, "cases_c");
        void *function = dlsym(subjects[0].library, cases[i].function);
        while (c->function != function)
            c++;
        c->call();
        fill(&detail, captured(0, 0), CT_TRACE_DETAIL_CALL);
        detail.has_vectors = cases[i].vectors;
        detail.stack_size = cases[i].stack;
        const struct ct_signature *signature =
            ct_parameters_find(subjects[0].parameters, (uint64_t)function - subjects[0].base, false);
        ct_arguments_by(signature, &detail, &arguments);
        ct_arguments_text(&arguments, text, sizeof text);
        if (!fits(cases[i].expected, text))
            fail_msg("%s: expected %s, got %s", cases[i].function, cases[i].expected, text);
    }
}

/* Records of anything: whatever is in them, showing them reads nothing else. */
static void test_random(void **state) {
    (void)state;
    static struct ct_trace_detail detail = {.size = sizeof detail};
    static struct ct_arguments arguments;
    uint64_t seed = 0x9e3779b97f4a7c15u;
    char text[300];
    for (size_t n = 0; n < 200; n++)
        for (const struct subject_case *c = dlsym(subjects[0].library, "cases_c"); c->function; c++) {
            for (size_t i = 0; i < sizeof detail / 8; i++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                ((uint64_t *)&detail)[i] = seed >> 11;
            }
            detail.type = n & 1 ? CT_TRACE_DETAIL_CALL : CT_TRACE_DETAIL_RETURN;
            detail.has_vectors = n & 2;
            detail.stack_size = (uint16_t)(seed >> 40) % 513;
            detail.stack_pointer = 0x7ffd0000;
            for (size_t i = 0; i < 8; i += 2) /* into the stack, and near its ends */
                detail.registers[i] = 0x7ffd0000 - 8 + (seed >> (20 + i)) % 540;
            const struct ct_signature *signature =
                ct_parameters_find(subjects[0].parameters, (uint64_t)c->function - subjects[0].base, false);
            ct_arguments_by(signature, &detail, &arguments);
            ct_arguments_text(&arguments, text, sizeof text);
            for (size_t i = 0; i < arguments.count; i++)
                assert_true(strlen(arguments.at[i].text) < CT_ARGUMENT_TEXT);
            assert_true(strlen(text) < sizeof text);
        }
}

/* Of functions that the compiler has made from others only what their locations say is believed. */
static void test_clone(void **state) {
    (void)state;
    struct ct_parameters *parameters;
    for (size_t i = 0; i < subject_count; i++) {
        assert_int_equal(ct_parameters_open(&parameters, subjects[i].path), 0);
        uint64_t offset = (uint64_t)dlsym(subjects[i].library, "pairs") - subjects[i].base;
        const struct ct_signature *signature = ct_parameters_find(parameters, offset, true);
        assert_non_null(signature);
        assert_int_equal(signature->parameters[0].place.kind, CT_VALUE_PLACE_UNKNOWN);
        assert_int_equal(signature->result_place.kind, CT_VALUE_PLACE_UNKNOWN);
        assert_null(ct_parameters_find(parameters, offset + 1, true));
        ct_parameters_close(parameters);
    }
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        struct link_map *map;
        subjects[subject_count].path = argv[i];
        subjects[subject_count].library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (!subjects[subject_count].library) {
            print_error("%s\n", dlerror());
            return 1;
        }
        dlinfo(subjects[subject_count].library, RTLD_DI_LINKMAP, &map);
        subjects[subject_count].base = map->l_addr;
        int status = ct_parameters_open(&subjects[subject_count].parameters, argv[i]);
        if (status) {
            print_error("%s: %s\n", argv[i], ct_status_text(status));
            return status == CT_ERR_UNSUPPORTED ? 77 : 1;
        }
        subject_count++;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_c), cmocka_unit_test(test_cxx),
                                       cmocka_unit_test(test_missing), cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_clone)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < subject_count; i++)
        ct_parameters_close(subjects[i].parameters);
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Where errno is, by the code of __errno_location of several C libraries; and the table of their functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "plan/errno_place.h"
#include "symbols/library_calls.h"

#define AT 0x401000u

static bool read_table(void *arg, uint64_t address, uint64_t *word) {
    *word = (uint64_t)-128;
    return address == *(uint64_t *)arg;
}

static int64_t follow(const char *code, size_t size) {
    uint64_t table = AT + 7 + 0x100;
    return ct_errno_follow((const uint8_t *)code, size, AT, read_table, &table);
}
#define FOLLOW(code) follow(code, sizeof code - 1)

#define ADD_FS       "\x64\x48\x03\x04\x25\0\0\0\0"
#define MOV_FS       "\x64\x48\x8b\x04\x25\0\0\0\0"

static void test_code(void **state) {
    (void)state;
    assert_int_equal(FOLLOW("\x48\x8b\x05\x00\x01\x00\x00" ADD_FS "\xc3"), -128); /* glibc */
    assert_int_equal(FOLLOW("\x48\xc7\xc0\xb8\xff\xff\xff" ADD_FS "\xc3"), -72);  /* glibc, static */
    assert_int_equal(FOLLOW(MOV_FS "\x48\x83\xc0\x34\xc3"), 52);                  /* musl */
    assert_int_equal(FOLLOW("\xf3\x0f\x1e\xfa" MOV_FS "\x48\x8d\x80\x78\xff\xff\xff\xc3"), -136);
    assert_int_equal(FOLLOW("\x55\x48\x89\xe5" MOV_FS "\x48\x05\x00\x01\x00\x00\x5d\xc3"), 256);
}

static void test_other_code(void **state) {
    (void)state;
    assert_int_equal(FOLLOW("\x48\x8b\x05\x08\x01\x00\x00" ADD_FS "\xc3"), 0); /* a word that cannot be read */
    assert_int_equal(FOLLOW("\x48\xc7\xc0\xb8\xff\xff\xff\xc3"), 0);           /* no thread pointer in it */
    assert_int_equal(FOLLOW(MOV_FS ADD_FS "\xc3"), 0);                         /* twice */
    assert_int_equal(FOLLOW(MOV_FS "\x48\x83\xe8\x34\xc3"), 0);                /* sub */
    assert_int_equal(FOLLOW("\xe9\x00\x00\x00\x00"), 0);
    assert_int_equal(FOLLOW(MOV_FS), 0); /* no end */
    assert_int_equal(FOLLOW("\x90"), 0);
    assert_int_equal(FOLLOW(""), 0);
}

static void test_library_calls(void **state) {
    (void)state;
    assert_int_equal(ct_library_call("open")->failure, CT_FAILS_MINUS_ONE);
    assert_int_equal(ct_library_call("open")->texts, 1);
    assert_int_equal(ct_library_call("__GI___open64_nocancel")->failure, CT_FAILS_MINUS_ONE);
    assert_int_equal(ct_library_call("fopen")->failure, CT_FAILS_NULL);
    assert_int_equal(ct_library_call("strcmp")->texts, 3);
    assert_int_equal(ct_library_call("access")->texts, 1); /* the first and the last of the table */
    assert_non_null(ct_library_call("writev"));
    assert_null(ct_library_call("getopt"));
    assert_null(ct_library_call(""));
    assert_null(ct_library_call("opens"));
    assert_true(ct_library_is_c("/usr/lib/x86_64-linux-gnu/libc.so.6"));
    assert_true(ct_library_is_c("/lib/ld-musl-x86_64.so.1"));
    assert_false(ct_library_is_c("/usr/lib/libcurl.so.4"));
    assert_false(ct_library_is_c("/libc.d/prog"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_code),
        cmocka_unit_test(test_other_code),
        cmocka_unit_test(test_library_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

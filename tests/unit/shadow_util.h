/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of shadow stacks share: a fixture of fake stacks for each of them, and what was recorded. One file of
 * a program. */
#ifndef SHADOW_UTIL_H
#define SHADOW_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "os/os.h"
#include "runtime_util.h"

#define DEPTH 1000u

static struct fixture f;

static int start(void **state) {
    (void)state;
    fixture_start(&f, DEPTH, 1024);
    return 0;
}

static int end(void **state) {
    (void)state;
    check_free_entries(f.block);
    check_signals();
    fixture_end(&f);
    return 0;
}

#define HOME(word) slot_at(&f, HOME_STACK, word)
#define LOW(word)  slot_at(&f, LOW_STACK, word)
#define HIGH(word) slot_at(&f, HIGH_STACK, word)

static void expect_story(const char *story) {
    assert_string_equal(recorded(&f), story);
}

static void expect_empty(void) {
    assert_int_equal(entries_in_use(f.block), 0);
    check_free_entries(f.block);
}

#endif

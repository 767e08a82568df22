/* SPDX-License-Identifier: Apache-2.0 */
/* How often a thread comes to the engine for code that it runs for the first time: as `contrail stalk` follows, code of
 * files is trusted at once, and branches to what is translated already are linked when they are translated. */
#include <contrail/stalker.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "stalk/stalker.h"
#include "stalk_code.h"

enum { LOOPS = 8 };

#define LOOP                                                                                                           \
    for (unsigned i = 0; i < n; i++)                                                                                   \
    __asm__ volatile("nop")

/* The first turn of a loop comes from above, the second by its branch, which leads to what the first has made. */
static __attribute__((noinline)) unsigned loops(unsigned n) {
    LOOP;
    LOOP;
    LOOP;
    LOOP;
    LOOP;
    LOOP;
    LOOP;
    LOOP;
    return 0;
}

static struct ct_stalker_statistics statistics_of(struct ct_stalker *s) {
    struct ct_stalker_statistics now = {.size = sizeof now};
    ct_stalker_statistics(s, &now);
    return now;
}

/* What a first run of `code` adds to the statistics; `recycled` is of two runs. */
static struct ct_stalker_statistics run(bool trusts_files, unsigned (*code)(unsigned)) {
    struct ct_stalker *s;
    assert_int_equal(ct_stalker_create(&s, NULL), 0);
    s->trusts_files = trusts_files;
    assert_int_equal(ct_stalker_follow_me(s, NULL, NULL), 0);
    struct ct_stalker_statistics before = statistics_of(s);
    unsigned result = code(5);
    struct ct_stalker_statistics after = statistics_of(s);
    result += code(5);
    struct ct_stalker_statistics last = statistics_of(s);
    assert_int_equal(ct_stalker_unfollow_me(s), 0);
    assert_int_equal(ct_stalker_destroy(s), 0);
    assert_int_equal(result, 0);
    after.entries -= before.entries;
    after.recycled = last.recycled - before.recycled;
    return after;
}

static void test_files_are_trusted(void **state) {
    (void)state;
    struct ct_stalker_statistics once = run(true, loops), twice = run(false, loops);
    assert_int_equal(once.recycled, 0);
    assert_true(twice.recycled >= LOOPS);
    assert_true(twice.entries - once.entries >= LOOPS);
    assert_true(once.entries < 2 * LOOPS); /* the branches were linked when they were translated */
}

/* Other code that cannot be written is found unchanged first. */
static void test_others_are_not(void **state) {
    (void)state;
    uint8_t *code = map_code(4096);
    put_leaf(code, 0);
    assert_int_equal(mprotect(code, 4096, PROT_READ | PROT_EXEC), 0);
    assert_true(run(true, (unsigned (*)(unsigned))(void *)code).recycled > 0);
    munmap(code, 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_are_trusted),
        cmocka_unit_test(test_others_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

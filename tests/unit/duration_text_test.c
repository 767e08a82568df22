/* SPDX-License-Identifier: Apache-2.0 */
/* Fast texts of durations against the slow ones. */
#include "cli/duration_text.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

/* Half-way between two texts: four digits, the last a 5. Either is right. */
static bool is_tie(uint64_t ns) {
    while (ns && ns % 10 == 0)
        ns /= 10;
    return ns > 999 && ns < 10000 && ns % 10 == 5;
}

static void check(uint64_t ns) {
    if (is_tie(ns))
        return;
    char fast[CT_TEXT_SIZE], slow[CT_TEXT_SIZE];
    size_t length = ct_duration_text(fast, ns);
    ct_text_time(slow, ns);
    if (strcmp(fast, slow) || length != strlen(slow))
        fail_msg("%llu ns: \"%s\" instead of \"%s\"", (unsigned long long)ns, fast, slow);
}

static void same_as_the_slow_one(void **state) {
    (void)state;
    uint64_t random = 88172645463325252ull;
    for (uint64_t ns = 0; ns < 200000; ns++)
        check(ns);
    for (uint64_t unit = 1000; unit <= 1000000000000; unit *= 10)
        for (uint64_t n = 1; n < 1000; n++) /* where it rounds, and where the unit changes */
            for (int d = -2; d <= 2; d++) {
                check(unit * n / 100 + unit / 200 + (uint64_t)d);
                check(unit * n / 1000 + (uint64_t)(d + 2));
            }
    for (int i = 0; i < 300000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        check(random >> (16 + i % 48));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_as_the_slow_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of lookups: what it keeps, what it drops, what it counts. */
#include "symbols/lookup_cache.h"
#include "random_util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void put(struct ct_lookup_cache *cache, uint64_t module, uint64_t offset, const char *text) {
    ct_lookup_cache_put(cache, module, offset, text, strlen(text) + 1);
}

static const char *get(struct ct_lookup_cache *cache, uint64_t module, uint64_t offset) {
    size_t size = 0;
    const char *text = ct_lookup_cache_get(cache, module, offset, &size);
    if (text)
        assert_int_equal(size, strlen(text) + 1);
    return text;
}

static void test_keeps(void **state) {
    (void)state;
    struct ct_lookup_cache *cache = ct_lookup_cache_create(1 << 20);
    assert_null(get(cache, 1, 16));
    put(cache, 1, 16, "one");
    put(cache, 2, 16, "two");
    assert_string_equal(get(cache, 1, 16), "one");
    assert_string_equal(get(cache, 2, 16), "two");
    assert_null(get(cache, 1, 17));
    struct ct_lookup_cache_stats s = ct_lookup_cache_stats(cache);
    assert_int_equal(s.hits, 2);
    assert_int_equal(s.misses, 2);
    assert_int_equal(s.evictions, 0);
    assert_int_equal(s.entries, 2);
    ct_lookup_cache_destroy(cache);
}

/* The least recently used entry goes first, and memory stays below the limit. */
static void test_evicts(void **state) {
    (void)state;
    struct ct_lookup_cache *cache = ct_lookup_cache_create(1 << 20);
    put(cache, 1, 0, "text");
    uint64_t each = ct_lookup_cache_stats(cache).bytes;
    ct_lookup_cache_destroy(cache);
    cache = ct_lookup_cache_create(3 * each);
    for (uint64_t i = 0; i < 3; i++)
        put(cache, 1, i, "text");
    assert_non_null(get(cache, 1, 0)); /* now 1 is the oldest */
    put(cache, 1, 3, "text");
    assert_null(get(cache, 1, 1));
    assert_non_null(get(cache, 1, 0));
    assert_non_null(get(cache, 1, 2));
    assert_non_null(get(cache, 1, 3));
    struct ct_lookup_cache_stats s = ct_lookup_cache_stats(cache);
    assert_int_equal(s.evictions, 1);
    assert_int_equal(s.entries, 3);
    assert_int_equal(s.bytes, 3 * each);
    ct_lookup_cache_destroy(cache);
}

static void test_nothing_fits(void **state) {
    (void)state;
    struct ct_lookup_cache *cache = ct_lookup_cache_create(0);
    put(cache, 1, 1, "text");
    assert_null(get(cache, 1, 1));
    assert_int_equal(ct_lookup_cache_stats(cache).entries, 0);
    ct_lookup_cache_destroy(cache);
}

/* Against a plain array that remembers the same. */
static void test_many(void **state) {
    (void)state;
    enum { KEYS = 5000, STEPS = 200000 };
    static uint8_t length[KEYS];
    struct ct_lookup_cache *cache = ct_lookup_cache_create(200000);
    uint64_t seed = RANDOM_SEED, gets = 0;
    char text[64];
    for (int i = 0; i < STEPS; i++) {
        uint64_t key = random_next(&seed) % KEYS;
        const char *kept = get(cache, key % 7, key);
        gets++;
        if (kept) {
            assert_int_equal(strlen(kept), length[key]);
            continue;
        }
        length[key] = (uint8_t)(seed >> 40 & 31);
        memset(text, 'x', length[key]);
        text[length[key]] = 0;
        put(cache, key % 7, key, text);
        assert_true(ct_lookup_cache_stats(cache).bytes <= 200000);
    }
    struct ct_lookup_cache_stats s = ct_lookup_cache_stats(cache);
    assert_int_equal(s.hits + s.misses, gets);
    assert_int_equal(s.misses, s.entries + s.evictions);
    assert_true(s.hits > 0 && s.evictions > 0);
    ct_lookup_cache_destroy(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_keeps), cmocka_unit_test(test_evicts),
                                       cmocka_unit_test(test_nothing_fits), cmocka_unit_test(test_many)};
    return cmocka_run_group_tests_name("lookup_cache", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings of Parquet, read by decoders that are written from the format's description: what goes in comes out, for
 * every width, at the ends of blocks and groups, and with whole bytes or not. Pages have their checksums. */
#include "export/parquet_file.h"
#include "trace/crc32.h"
#include "random_util.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

enum { MOST = 2000, DIFFERENT = 300 };

static uint64_t seed = RANDOM_SEED;

struct reader {
    const uint8_t *at, *end;
};

static uint64_t get_varint(struct reader *r) {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        assert_true(r->at < r->end && shift < 64);
        value |= (uint64_t)(*r->at & 0x7f) << shift;
        if (!(*r->at++ & 0x80))
            return value;
    }
}

static int64_t get_zigzag(struct reader *r) {
    uint64_t value = get_varint(r);
    return (int64_t)(value >> 1 ^ -(value & 1));
}

/* `count` values of `width` bits, the lowest bit first. */
static void get_bits(struct reader *r, uint64_t *values, size_t count, unsigned width) {
    assert_true(count * width % 8 == 0 && (size_t)(r->end - r->at) >= count * width / 8);
    for (size_t i = 0; i < count; i++) {
        values[i] = 0;
        for (unsigned bit = 0; bit < width; bit++) {
            size_t at = i * width + bit;
            values[i] |= (uint64_t)(r->at[at / 8] >> at % 8 & 1) << bit;
        }
    }
    r->at += count * width / 8;
}

static size_t get_delta(struct reader *r, int64_t *values) {
    uint64_t block = get_varint(r), minis = get_varint(r), count = get_varint(r), last = (uint64_t)get_zigzag(r);
    assert_true(block % 128 == 0 && block / minis % 32 == 0 && count <= MOST);
    uint64_t mini = block / minis, packed[128];
    if (count)
        values[0] = (int64_t)last;
    for (size_t done = 1; done < count;) {
        uint64_t base = (uint64_t)get_zigzag(r);
        const uint8_t *widths = r->at;
        r->at += minis;
        for (size_t m = 0; m < minis && done < count; m++) {
            get_bits(r, packed, mini, widths[m]);
            for (size_t i = 0; i < mini && done < count; i++)
                values[done++] = (int64_t)(last += base + packed[i]);
        }
    }
    return count;
}

static void get_runs(struct reader *r, uint32_t *values, size_t count, unsigned width) {
    for (size_t done = 0; done < count;) {
        uint64_t head = get_varint(r), packed[8], value = 0;
        if (head & 1) {
            for (uint64_t group = 0; group < head >> 1; group++) {
                get_bits(r, packed, 8, width);
                for (size_t i = 0; i < 8 && done < count; i++)
                    values[done++] = (uint32_t)packed[i];
            }
            continue;
        }
        for (unsigned bit = 0; bit < width; bit += 8)
            value |= (uint64_t)*r->at++ << bit;
        assert_true(head >> 1 <= count - done);
        for (uint64_t i = 0; i < head >> 1; i++)
            values[done++] = (uint32_t)value;
    }
    assert_ptr_equal(r->at, r->end);
}

static void check_delta(const int64_t *values, size_t count) {
    static int64_t read[MOST];
    for (int whole = 0; whole < 2; whole++) {
        struct ct_bytes bytes = {0};
        ct_parquet_delta(&bytes, values, count, whole);
        struct reader r = {bytes.at, bytes.at + bytes.used};
        assert_int_equal(get_delta(&r, read), count);
        assert_ptr_equal(r.at, r.end);
        assert_memory_equal(read, values, count * sizeof *values);
        ct_bytes_free(&bytes);
    }
}

static void test_delta(void **state) {
    static int64_t values[MOST];
    static const size_t counts[] = {0, 1, 2, 32, 33, 34, 128, 129, 130, 161, 257, 1999, MOST};
    (void)state;
    for (unsigned width = 0; width <= 64; width++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            for (size_t i = 0; i < counts[c]; i++) {
                uint64_t noise = width ? random_next(&seed) >> (64 - width) : 0;
                values[i] = (int64_t)(c % 2 ? noise : (i ? (uint64_t)values[i - 1] : 0) + noise - (1u << c));
            }
            check_delta(values, counts[c]);
        }
    int64_t ends[] = {INT64_MIN, INT64_MAX, 0, INT64_MIN, -1, INT64_MAX, INT64_MAX, INT64_MIN};
    check_delta(ends, sizeof ends / sizeof *ends);
}

static void check_runs(const uint32_t *values, size_t count, unsigned width) {
    static uint32_t read[MOST];
    struct ct_bytes bytes = {0};
    ct_parquet_runs(&bytes, values, count, width);
    struct reader r = {bytes.at, bytes.at + bytes.used};
    get_runs(&r, read, count, width);
    assert_memory_equal(read, values, count * sizeof *values);
    ct_bytes_free(&bytes);
}

/* Runs of all lengths at all places in a group. */
static void test_runs(void **state) {
    static uint32_t values[MOST];
    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        unsigned width = 1 + round % 17;
        size_t count = random_next(&seed) % MOST, longest = 1 + random_next(&seed) % 60;
        for (size_t i = 0; i < count;) {
            uint32_t value = (uint32_t)(random_next(&seed) >> 32) & ((1u << width) - 1);
            for (size_t n = 1 + random_next(&seed) % longest; n && i < count; n--)
                values[i++] = value;
        }
        check_runs(values, count, width);
    }
    memset(values, 0, sizeof values);
    check_runs(values, MOST, 0);
    check_runs(values, 0, 3);
}

static void test_dictionary(void **state) {
    static int64_t values[MOST];
    struct ct_parquet_dictionary d = {0};
    size_t before = SIZE_MAX, seen[DIFFERENT] = {0};
    (void)state;
    for (size_t i = 0; i < MOST; i++) /* small ones are more frequent */
        values[i] = (int64_t)((random_next(&seed) >> 32) % (1 + (random_next(&seed) >> 32) % DIFFERENT)) - 7;
    assert_true(ct_parquet_dictionary_make(&d, values, MOST, DIFFERENT));
    for (size_t i = 0; i < MOST; i++) {
        assert_true(d.indices[i] < d.count);
        assert_true(d.values[d.indices[i]] == values[i]);
        seen[d.indices[i]]++;
    }
    for (size_t i = 0; i < d.count; i++) {
        assert_true(seen[i] && seen[i] <= before);
        before = seen[i];
        for (size_t j = 0; j < i; j++)
            assert_true(d.values[i] != d.values[j]);
    }
    assert_false(ct_parquet_dictionary_make(&d, values, MOST, d.count - 1));
    assert_true(ct_parquet_dictionary_make(&d, values, 0, 1));
    assert_int_equal(d.count, 0);
    ct_parquet_dictionary_free(&d);
}

static void test_width(void **state) {
    (void)state;
    assert_int_equal(ct_parquet_width(0, false), 0);
    assert_int_equal(ct_parquet_width(1, false), 0);
    assert_int_equal(ct_parquet_width(2, false), 1);
    assert_int_equal(ct_parquet_width(2, true), 8);
    assert_int_equal(ct_parquet_width(256, true), 8);
    assert_int_equal(ct_parquet_width(257, false), 9);
    assert_int_equal(ct_parquet_width(257, true), 16);
}

/* ---- pages ---- */

struct page {
    int64_t type, plain, stored, crc, values, encoding;
};

/* Reads numbers that are the fields 1, 2, ... of a struct. */
static void get_fields(struct reader *r, int64_t *to, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(*r->at++, 0x15); /* the next field, i32 */
        to[i] = get_zigzag(r);
    }
}

static struct page get_page(struct reader *r) {
    struct page page;
    int64_t outer[4], inner[4];
    get_fields(r, outer, 4);
    bool data = outer[0] == 0;
    assert_int_equal(*r->at++, data ? 0x1c : 0x3c); /* a struct: field 5 or 7 */
    get_fields(r, inner, data ? 4 : 2);
    assert_int_equal(*r->at++, 0);
    assert_int_equal(*r->at++, 0);
    page = (struct page){outer[0], outer[1], outer[2], outer[3], inner[0], inner[1]};
    assert_true(page.stored <= r->end - r->at);
    return page;
}

/* Every page of a column has the checksum of the bytes that are stored, and the pages have all rows. */
static void check_pages(const struct ct_parquet_group *g, size_t column) {
    const struct ct_parquet_chunk *chunk = &g->chunks[column];
    struct reader r = {g->bytes.at + chunk->dictionary_at, g->bytes.at + chunk->end};
    size_t rows = 0, pages = 0;
    while (r.at < r.end) {
        struct page page = get_page(&r);
        assert_true((uint32_t)page.crc == ct_crc32(0, r.at, (size_t)page.stored));
        rows += page.type == 0 ? (size_t)page.values : 0;
        pages += page.type == 0;
        r.at += page.stored;
    }
    assert_ptr_equal(r.at, r.end);
    assert_int_equal(rows, g->rows);
    assert_int_equal(pages, chunk->pages);
}

static void fill_group(struct ct_parquet_group *g, struct ct_parquet_texts *texts, size_t rows) {
    char text[16];
    assert_true(ct_parquet_group_grow(g, rows));
    for (size_t i = 0; i < rows; i++) {
        snprintf(text, sizeof text, "text %u", (unsigned)(i % 50));
        g->values[0][i] = (int64_t)(rows - i) * 3 - (int64_t)(random_next(&seed) % 3);
        g->values[1][i] = (int64_t)(uintptr_t)ct_parquet_intern(texts, text);
        g->values[2][i] = (int64_t)random_next(&seed);
        g->present[2][i] = i % 7 == 0;
        g->filled[2] += i % 7 == 0;
        g->present[3][i] = 0;
    }
    g->rows = rows;
}

static void test_pages(void **state) {
    static const struct ct_parquet_table table = {.columns = {{"id", CT_PARQUET_INTEGER, false},
                                                              {"text", CT_PARQUET_TEXT, false},
                                                              {"some", CT_PARQUET_INTEGER, true},
                                                              {"none", CT_PARQUET_TEXT, true}},
                                                  .count = 4,
                                                  .sorted_by = 0};
    static const size_t rows[] = {1, 1000, 140000}; /* the last has two pages */
    static const enum ct_parquet_codec codecs[] = {CT_PARQUET_STORED, CT_PARQUET_ZSTD, CT_PARQUET_LZ4};
    struct ct_parquet_work work = {0};
    (void)state;
    for (size_t i = 0; i < 9; i++) {
        struct ct_parquet_group g = {.table = &table, .codec = codecs[i / 3]};
        struct ct_parquet_texts texts = {0};
        fill_group(&g, &texts, rows[i % 3]);
        assert_true(ct_parquet_encode(&g, &work));
        for (size_t c = 0; c < table.count; c++)
            check_pages(&g, c);
        assert_int_equal(g.chunks[3].missing, g.rows);
        assert_false(g.chunks[3].has_range);
        assert_true(g.chunks[0].has_range && g.chunks[0].least <= 3 && g.chunks[0].most >= 3 * (int64_t)g.rows - 2);
        assert_string_equal((const char *)(uintptr_t)g.chunks[1].least, "text 0");
        ct_parquet_group_free(&g);
        ct_parquet_texts_free(&texts);
    }
    ct_parquet_work_free(&work);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_delta), cmocka_unit_test(test_runs),
                                       cmocka_unit_test(test_dictionary), cmocka_unit_test(test_width),
                                       cmocka_unit_test(test_pages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings of Parquet. */
#include "export/parquet_encode.h"

enum { MINI = 32, MINIS = 4, BLOCK = MINI * MINIS, GROUP = 8, LONG_RUN = 16 };

static unsigned bits_of(uint64_t value, bool whole) {
    unsigned bits = value ? 64 - (unsigned)__builtin_clzll(value) : 0;
    return whole ? (bits + 7) / 8 * 8 : bits;
}

/* ---- bits ---- */

/* Values of up to 64 bits, the lowest bit of the first byte first. The room is in `to`, zeroed. */
static void pack_bits(uint8_t *to, const uint64_t *values, size_t count, unsigned width) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++, at += width) {
        uint8_t *byte = to + at / 8;
        unsigned shift = at % 8;
        *byte++ |= (uint8_t)(values[i] << shift);
        for (unsigned done = 8 - shift; done < width; done += 8)
            *byte++ |= (uint8_t)(values[i] >> done);
    }
}

static void pack_bytes(uint8_t *to, const uint64_t *values, size_t count, unsigned width) {
    size_t size = width / 8;
    for (size_t i = 0; i < count; i++, to += size)
        for (size_t j = 0; j < size; j++)
            to[j] = (uint8_t)(values[i] >> 8 * j);
}

static void put_packed(struct ct_bytes *out, const uint64_t *values, size_t count, unsigned width) {
    size_t size = count * width / 8;
    uint8_t *to = ct_bytes_add(out, size);
    if (!to)
        return;
    if (width % 8 == 0) {
        pack_bytes(to, values, count, width);
        return;
    }
    memset(to, 0, size);
    pack_bits(to, values, count, width);
}

/* ---- differences ---- */

/* What is subtracted from each difference. An entropy coder wants equal differences to be equal bytes in all blocks, so
 * the base is a round number if that needs no more bytes. */
static int64_t base_of(int64_t least, int64_t most, bool whole) {
    int64_t round = least & ~(int64_t)63;
    uint64_t range = (uint64_t)most - (uint64_t)least, wider = (uint64_t)most - (uint64_t)round;
    return whole && wider >= range && bits_of(range, true) == bits_of(wider, true) ? round : least;
}

static void put_block(struct ct_bytes *out, const int64_t *deltas, size_t count, bool whole) {
    int64_t least = deltas[0], most = deltas[0];
    uint64_t values[BLOCK] = {0};
    uint8_t widths[MINIS] = {0};
    for (size_t i = 1; i < count; i++) {
        least = deltas[i] < least ? deltas[i] : least;
        most = deltas[i] > most ? deltas[i] : most;
    }
    int64_t base = base_of(least, most, whole);
    for (size_t m = 0; m < MINIS; m++) {
        uint64_t all = 0;
        for (size_t i = m * MINI; i < (m + 1) * MINI && i < count; i++)
            all |= values[i] = (uint64_t)deltas[i] - (uint64_t)base;
        widths[m] = (uint8_t)bits_of(all, whole);
    }
    ct_bytes_zigzag(out, base);
    ct_bytes_put(out, widths, sizeof widths);
    for (size_t m = 0; m * MINI < count; m++)
        put_packed(out, values + m * MINI, MINI, widths[m]);
}

void ct_parquet_delta(struct ct_bytes *out, const int64_t *values, size_t count, bool whole) {
    int64_t deltas[BLOCK];
    ct_bytes_varint(out, BLOCK);
    ct_bytes_varint(out, MINIS);
    ct_bytes_varint(out, count);
    ct_bytes_zigzag(out, count ? values[0] : 0);
    for (size_t i = 1; i < count; i += BLOCK) {
        size_t n = count - i < BLOCK ? count - i : BLOCK;
        for (size_t j = 0; j < n; j++)
            deltas[j] = (int64_t)((uint64_t)values[i + j] - (uint64_t)values[i + j - 1]);
        put_block(out, deltas, n, whole);
    }
}

/* ---- runs ---- */

unsigned ct_parquet_width(size_t count, bool whole) {
    return bits_of(count > 1 ? count - 1 : 0, whole);
}

static size_t run_length(const uint32_t *values, size_t count) {
    size_t n = 1;
    while (n < count && values[n] == values[0])
        n++;
    return n;
}

/* The last group may be short: the rest is zero. */
static void put_literals(struct ct_bytes *out, const uint32_t *values, size_t count, unsigned width) {
    uint64_t group[GROUP];
    if (!count)
        return;
    ct_bytes_varint(out, (count + GROUP - 1) / GROUP << 1 | 1);
    for (size_t i = 0; i < count; i += GROUP) {
        for (size_t j = 0; j < GROUP; j++)
            group[j] = i + j < count ? values[i + j] : 0;
        put_packed(out, group, GROUP, width);
    }
}

/* Literals come in whole groups unless they are the last: a run gives its first values to the group before it. */
void ct_parquet_runs(struct ct_bytes *out, const uint32_t *values, size_t count, unsigned width) {
    size_t from = 0;
    for (size_t i = 0; i < count;) {
        size_t n = run_length(values + i, count - i), given = (GROUP - (i - from) % GROUP) % GROUP;
        if (n < given + LONG_RUN) {
            i += n;
            continue;
        }
        put_literals(out, values + from, i + given - from, width);
        ct_bytes_varint(out, (uint64_t)(n - given) << 1);
        for (unsigned bit = 0; bit < width; bit += 8)
            ct_bytes_byte(out, (uint8_t)(values[i] >> bit));
        from = i += n;
    }
    put_literals(out, values + from, count - from, width);
}

/* ---- dictionaries ---- */

enum { SLOTS = 1 << 18, MOST = SLOTS / 2 };

static size_t slot_of(int64_t value) {
    return (size_t)((uint64_t)value * UINT64_C(0x9e3779b97f4a7c15) >> 46);
}

static bool make_room(struct ct_parquet_dictionary *d, size_t count) {
    if (!d->slots)
        d->slots = malloc(SLOTS * sizeof *d->slots);
    if (!d->values)
        d->values = malloc(MOST * sizeof *d->values);
    if (!d->counts)
        d->counts = malloc(MOST * sizeof *d->counts);
    return d->slots && d->values && d->counts &&
           (!count || ct_grow(&d->indices, &d->room, count - 1, sizeof *d->indices, 4096));
}

/* Index of the value, which is new if need be; UINT32_MAX: there are too many. */
static uint32_t index_of(struct ct_parquet_dictionary *d, int64_t value, size_t most) {
    size_t at = slot_of(value);
    while (d->slots[at] && d->values[d->slots[at] - 1] != value)
        at = (at + 1) % SLOTS;
    if (!d->slots[at]) {
        if (d->count == most)
            return UINT32_MAX;
        d->values[d->count] = value;
        d->counts[d->count] = 0;
        d->slots[at] = (uint32_t)++d->count;
    }
    return d->slots[at] - 1;
}

struct entry {
    int64_t value;
    uint32_t count, index;
};

static int by_count(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* The most frequent first: then most indices have small bytes. */
static bool sort_values(struct ct_parquet_dictionary *d, size_t count) {
    struct entry *entries = malloc((d->count + 1) * sizeof *entries);
    if (!entries)
        return false;
    for (size_t i = 0; i < d->count; i++)
        entries[i] = (struct entry){d->values[i], d->counts[i], (uint32_t)i};
    qsort(entries, d->count, sizeof *entries, by_count);
    for (size_t i = 0; i < d->count; i++) {
        d->values[i] = entries[i].value;
        d->counts[entries[i].index] = (uint32_t)i; /* from here on: where the value is now */
    }
    for (size_t i = 0; i < count; i++)
        d->indices[i] = d->counts[d->indices[i]];
    free(entries);
    return true;
}

bool ct_parquet_dictionary_make(struct ct_parquet_dictionary *d, const int64_t *values, size_t count, size_t most) {
    most = most < MOST ? most : MOST;
    d->count = 0;
    if (!make_room(d, count))
        return false;
    memset(d->slots, 0, SLOTS * sizeof *d->slots);
    for (size_t i = 0; i < count; i++) {
        uint32_t index = i && values[i] == values[i - 1] ? d->indices[i - 1] : index_of(d, values[i], most);
        if (index == UINT32_MAX)
            return false;
        d->indices[i] = index;
        d->counts[index]++;
    }
    return sort_values(d, count);
}

void ct_parquet_dictionary_free(struct ct_parquet_dictionary *d) {
    free(d->slots);
    free(d->values);
    free(d->counts);
    free(d->indices);
    *d = (struct ct_parquet_dictionary){0};
}

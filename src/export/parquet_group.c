/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of rows: columns become pages. */
#include "export/parquet_file.h"
#include "export/thrift.h"
#include "trace/crc32.h"
#include <lz4.h>
#include <zstd.h>

enum { PAGE_ROWS = 1 << 17, SAMPLE = 1 << 14, LEVEL = 1, MOST_DIFFERENT = 1 << 16, LONG_TEXT = 64, TRY_AGAIN = 15 };
enum { DATA_PAGE = 0, DICTIONARY_PAGE = 2, LEVELS = 1024 };

/* ---- memory ---- */

bool ct_parquet_group_grow(struct ct_parquet_group *g, size_t rows) {
    size_t room = g->room;
    if (rows <= room)
        return true;
    for (size_t i = 0; i < g->table->count; i++) {
        size_t values = room, present = room;
        if (!ct_grow(&g->values[i], &values, rows - 1, sizeof **g->values, 64) ||
            (g->table->columns[i].optional && !ct_grow(&g->present[i], &present, rows - 1, 1, 64)))
            return false;
        g->room = values;
    }
    return true;
}

void ct_parquet_group_free(struct ct_parquet_group *g) {
    for (size_t i = 0; i < CT_PARQUET_COLUMNS; i++) {
        free(g->values[i]);
        free(g->present[i]);
    }
    ct_bytes_free(&g->bytes);
    *g = (struct ct_parquet_group){0};
}

void ct_parquet_work_free(struct ct_parquet_work *w) {
    ct_parquet_dictionary_free(&w->dictionary);
    ct_bytes_free(&w->plain);
    ct_bytes_free(&w->other);
    free(w->values);
    free(w->present);
    free(w->orders);
    free(w->rows);
    ZSTD_freeCCtx(w->zstd);
    *w = (struct ct_parquet_work){0};
}

/* ---- pages ---- */

static size_t bound_of(enum ct_parquet_codec codec, size_t size) {
    return codec == CT_PARQUET_ZSTD  ? ZSTD_compressBound(size)
           : codec == CT_PARQUET_LZ4 ? (size_t)LZ4_compressBound((int)size)
                                     : size;
}

/* Compresses to the end of `out`. */
static void put_compressed(struct ct_parquet_work *w, enum ct_parquet_codec codec, struct ct_bytes *out,
                           const struct ct_bytes *plain) {
    size_t bound = bound_of(codec, plain->used), size = plain->used;
    uint8_t *to = ct_bytes_add(out, bound);
    if (!to)
        return;
    if (codec == CT_PARQUET_ZSTD) {
        if (!w->zstd)
            w->zstd = ZSTD_createCCtx();
        size = w->zstd ? ZSTD_compressCCtx(w->zstd, to, bound, plain->at, plain->used, LEVEL) : (size_t)-1;
        if (ZSTD_isError(size)) /* with enough room: out of memory */
            out->no_memory = true;
    } else if (codec == CT_PARQUET_LZ4) {
        size = (size_t)LZ4_compress_default((const char *)plain->at, (char *)to, (int)plain->used, (int)bound);
    } else if (size) {
        memcpy(to, plain->at, size);
    }
    if (!out->no_memory)
        out->used -= bound - size;
}

static void put_page_header(struct ct_bytes *out, int type, size_t plain, size_t stored, uint32_t crc, size_t values,
                            enum ct_parquet_encoding encoding) {
    int last = 0, inner = 0;
    ct_thrift_i32(out, &last, 1, type);
    ct_thrift_i32(out, &last, 2, (int64_t)plain);
    ct_thrift_i32(out, &last, 3, (int64_t)stored);
    ct_thrift_i32(out, &last, 4, (int32_t)crc);
    ct_thrift_field(out, &last, type == DATA_PAGE ? 5 : 7, CT_THRIFT_STRUCT);
    ct_thrift_i32(out, &inner, 1, (int64_t)values);
    ct_thrift_i32(out, &inner, 2, encoding);
    if (type == DATA_PAGE) {
        ct_thrift_i32(out, &inner, 3, CT_PARQUET_RLE);
        ct_thrift_i32(out, &inner, 4, CT_PARQUET_RLE);
    }
    ct_thrift_stop(out);
    ct_thrift_stop(out);
}

/* Compresses what is in w->plain, and puts it after its header. */
static void put_page(struct ct_parquet_group *g, struct ct_parquet_work *w, struct ct_parquet_chunk *chunk, int type,
                     size_t values, enum ct_parquet_encoding encoding) {
    w->other.used = 0;
    put_compressed(w, g->codec, &w->other, &w->plain);
    if (w->other.no_memory || w->plain.no_memory) {
        g->bytes.no_memory = true;
        return;
    }
    size_t before = g->bytes.used;
    put_page_header(&g->bytes, type, w->plain.used, w->other.used, ct_crc32(0, w->other.at, w->other.used), values,
                    encoding);
    chunk->plain_size += g->bytes.used - before + w->plain.used;
    ct_bytes_put(&g->bytes, w->other.at, w->other.used);
}

/* ---- values ---- */

static void put_plain(struct ct_bytes *out, enum ct_parquet_type type, const int64_t *values, size_t count) {
    if (type != CT_PARQUET_TEXT) {
        ct_bytes_put(out, values, count * sizeof *values);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const char *text = (const char *)(uintptr_t)values[i];
        size_t size = strlen(text);
        ct_bytes_u32(out, (uint32_t)size);
        ct_bytes_put(out, text, size);
    }
}

static void put_values(struct ct_bytes *out, const struct ct_parquet_work *w, enum ct_parquet_type type,
                       enum ct_parquet_encoding encoding, bool whole, size_t from, size_t count) {
    if (encoding == CT_PARQUET_PLAIN) {
        put_plain(out, type, w->values + from, count);
    } else if (encoding == CT_PARQUET_DELTA) {
        ct_parquet_delta(out, w->values + from, count, whole);
    } else {
        unsigned width = ct_parquet_width(w->dictionary.count, whole);
        ct_bytes_byte(out, (uint8_t)width);
        ct_parquet_runs(out, w->dictionary.indices + from, count, width);
    }
}

/* Bytes of the first values in this encoding, compressed. */
static size_t try_encoding(struct ct_parquet_group *g, struct ct_parquet_work *w, enum ct_parquet_type type,
                           enum ct_parquet_encoding encoding, size_t count) {
    size_t sample = count < SAMPLE ? count : SAMPLE, dictionary = 0;
    if (encoding == CT_PARQUET_DICTIONARY) { /* the sample's share of it */
        w->plain.used = w->other.used = 0;
        put_plain(&w->plain, type, w->dictionary.values, w->dictionary.count);
        put_compressed(w, g->codec, &w->other, &w->plain);
        dictionary = (size_t)((double)w->other.used * (double)sample / (double)count);
    }
    w->plain.used = w->other.used = 0;
    put_values(&w->plain, w, type, encoding, g->codec == CT_PARQUET_ZSTD, 0, sample);
    put_compressed(w, g->codec, &w->other, &w->plain);
    return w->plain.no_memory || w->other.no_memory ? SIZE_MAX : dictionary + w->other.used;
}

/* The encoding that makes the fewest bytes of a sample. The dictionary is made if it may be used. */
static enum ct_parquet_encoding try_all(struct ct_parquet_group *g, struct ct_parquet_work *w,
                                        enum ct_parquet_type type, size_t count) {
    bool few = ct_parquet_dictionary_make(&w->dictionary, w->values, count, MOST_DIFFERENT);
    if (type == CT_PARQUET_TEXT || type == CT_PARQUET_REAL)
        return few ? CT_PARQUET_DICTIONARY : CT_PARQUET_PLAIN;
    size_t best = try_encoding(g, w, type, CT_PARQUET_DELTA, count);
    enum ct_parquet_encoding encoding = CT_PARQUET_DELTA;
    size_t plain = try_encoding(g, w, type, CT_PARQUET_PLAIN, count);
    if (plain < best) {
        best = plain;
        encoding = CT_PARQUET_PLAIN;
    }
    return few && try_encoding(g, w, type, CT_PARQUET_DICTIONARY, count) < best ? CT_PARQUET_DICTIONARY : encoding;
}

/* What was best for a group is tried again only now and then. */
static enum ct_parquet_encoding choose(struct ct_parquet_group *g, struct ct_parquet_work *w, size_t column,
                                       size_t count) {
    enum ct_parquet_type type = g->table->columns[column].type;
    struct ct_parquet_choice *choice = &w->choices[column];
    if (!count)
        return CT_PARQUET_PLAIN;
    if (w->table != g->table) {
        memset(w->choices, 0, sizeof w->choices);
        w->table = g->table;
    }
    if (choice->groups) {
        choice->groups--;
        if (choice->encoding != CT_PARQUET_DICTIONARY ||
            ct_parquet_dictionary_make(&w->dictionary, w->values, count, MOST_DIFFERENT))
            return choice->encoding;
    }
    *choice = (struct ct_parquet_choice){try_all(g, w, type, count), TRY_AGAIN};
    return choice->encoding;
}

static bool is_less(enum ct_parquet_type type, int64_t a, int64_t b) {
    if (type == CT_PARQUET_TEXT)
        return strcmp((const char *)(uintptr_t)a, (const char *)(uintptr_t)b) < 0; /* unsigned bytes, as readers do */
    return a < b;
}

/* Smallest and largest value. A long text has none: it would be in every footer. */
static void find_range(struct ct_parquet_chunk *chunk, enum ct_parquet_type type, const int64_t *values, size_t count) {
    if (!count || type == CT_PARQUET_REAL)
        return;
    chunk->least = chunk->most = values[0];
    for (size_t i = 1; i < count; i++) {
        if (is_less(type, values[i], chunk->least))
            chunk->least = values[i];
        else if (is_less(type, chunk->most, values[i]))
            chunk->most = values[i];
    }
    chunk->has_range = type != CT_PARQUET_TEXT || (strlen((const char *)(uintptr_t)chunk->least) <= LONG_TEXT &&
                                                   strlen((const char *)(uintptr_t)chunk->most) <= LONG_TEXT);
}

/* ---- columns ---- */

/* Takes the values that are there to w->values, in the order of rows, and which rows have one. */
static bool take_values(struct ct_parquet_group *g, struct ct_parquet_work *w, size_t column, size_t *count) {
    const uint8_t *present = g->table->columns[column].optional ? g->present[column] : NULL;
    const int64_t *values = g->values[column];
    size_t n = 0;
    if (!ct_grow(&w->values, &w->value_room, g->rows, sizeof *w->values, 4096) ||
        !ct_grow(&w->present, &w->present_room, g->rows, 1, 4096))
        return false;
    if (!present || g->filled[column] == g->rows) {
        memset(w->present, 1, g->rows);
        for (; n < g->rows; n++)
            w->values[n] = values[w->rows[n]];
    } else if (!g->filled[column]) {
        memset(w->present, 0, g->rows);
    } else {
        for (size_t i = 0; i < g->rows; i++) {
            w->present[i] = present[w->rows[i]];
            w->values[n] = values[w->rows[i]];
            n += w->present[i];
        }
    }
    *count = n;
    return true;
}

/* Levels of a page, after their length. Returns how many values they have. */
static size_t put_levels(struct ct_bytes *out, const uint8_t *present, size_t rows) {
    size_t at = out->used, values = 0;
    uint32_t levels[LEVELS];
    ct_bytes_u32(out, 0);
    for (size_t i = 0; i < rows; i++)
        values += present[i];
    if (values == rows || !values) {
        ct_bytes_varint(out, (uint64_t)rows << 1);
        ct_bytes_byte(out, values != 0);
    }
    for (size_t i = 0; values && values < rows && i < rows; i += LEVELS) {
        size_t n = rows - i < LEVELS ? rows - i : LEVELS;
        for (size_t j = 0; j < n; j++)
            levels[j] = present[i + j];
        ct_parquet_runs(out, levels, n, 1); /* a whole number of groups, but for the last */
    }
    if (!out->no_memory) {
        uint32_t size = (uint32_t)(out->used - at - 4);
        memcpy(out->at + at, &size, 4);
    }
    return values;
}

static void put_data_pages(struct ct_parquet_group *g, struct ct_parquet_work *w, size_t column) {
    const struct ct_parquet_column *c = &g->table->columns[column];
    struct ct_parquet_chunk *chunk = &g->chunks[column];
    size_t from = 0;
    for (size_t row = 0; row < g->rows; row += PAGE_ROWS) {
        size_t rows = g->rows - row < PAGE_ROWS ? g->rows - row : PAGE_ROWS;
        w->plain.used = 0;
        size_t count = c->optional ? put_levels(&w->plain, w->present + row, rows) : rows;
        put_values(&w->plain, w, c->type, chunk->encoding, g->codec == CT_PARQUET_ZSTD, from, count);
        put_page(g, w, chunk, DATA_PAGE, rows, chunk->encoding);
        from += count;
        chunk->pages++;
    }
}

static bool encode_column(struct ct_parquet_group *g, struct ct_parquet_work *w, size_t column) {
    const struct ct_parquet_column *c = &g->table->columns[column];
    struct ct_parquet_chunk *chunk = &g->chunks[column];
    size_t count;
    if (!take_values(g, w, column, &count))
        return false;
    *chunk = (struct ct_parquet_chunk){.dictionary_at = g->bytes.used, .missing = g->rows - count};
    chunk->encoding = choose(g, w, column, count);
    if (chunk->encoding == CT_PARQUET_DICTIONARY) {
        find_range(chunk, c->type, w->dictionary.values, w->dictionary.count);
        w->plain.used = 0;
        put_plain(&w->plain, c->type, w->dictionary.values, w->dictionary.count);
        put_page(g, w, chunk, DICTIONARY_PAGE, w->dictionary.count, CT_PARQUET_PLAIN);
    } else {
        find_range(chunk, c->type, w->values, count);
    }
    chunk->data_at = g->bytes.used;
    put_data_pages(g, w, column);
    chunk->end = g->bytes.used;
    return !g->bytes.no_memory;
}

/* ---- order ---- */

/* Sorts by one byte of the key, and keeps the order of rows whose bytes are equal. */
static void sort_byte(const struct ct_parquet_order *from, struct ct_parquet_order *to, size_t count, unsigned shift) {
    size_t places[257] = {0};
    for (size_t i = 0; i < count; i++)
        places[(from[i].key >> shift & 255) + 1]++;
    for (size_t i = 0; i < 256; i++)
        places[i + 1] += places[i];
    for (size_t i = 0; i < count; i++)
        to[places[from[i].key >> shift & 255]++] = from[i];
}

/* Sorts by the bytes of the key that differ, the lowest first. `other` has as much room. */
static struct ct_parquet_order *sort_rows(struct ct_parquet_order *rows, struct ct_parquet_order *other, size_t count) {
    uint64_t differ = 0;
    for (size_t i = 1; i < count; i++)
        differ |= rows[i].key ^ rows[0].key;
    for (unsigned shift = 0; shift < 64; shift += 8) {
        if (!(differ >> shift & 255))
            continue;
        sort_byte(rows, other, count, shift);
        struct ct_parquet_order *sorted = other;
        other = rows;
        rows = sorted;
    }
    return rows;
}

static bool order_rows(struct ct_parquet_group *g, struct ct_parquet_work *w) {
    int column = g->table->sorted_by;
    if (!ct_grow(&w->orders, &w->order_room, 2 * g->rows, sizeof *w->orders, 8192) ||
        !ct_grow(&w->rows, &w->row_room, g->rows, sizeof *w->rows, 4096))
        return false;
    struct ct_parquet_order *order = w->orders;
    for (size_t i = 0; i < g->rows; i++)
        order[i] = (struct ct_parquet_order){column < 0 ? 0 : (uint64_t)g->values[column][i] ^ (uint64_t)INT64_MIN,
                                             (uint32_t)i};
    if (column >= 0)
        order = sort_rows(order, order + g->rows, g->rows);
    for (size_t i = 0; i < g->rows; i++)
        w->rows[i] = order[i].row;
    return true;
}

bool ct_parquet_encode(struct ct_parquet_group *g, struct ct_parquet_work *w) {
    g->bytes.used = 0;
    if (!order_rows(g, w))
        return false;
    for (size_t i = 0; i < g->table->count; i++)
        if (!encode_column(g, w, i))
            return false;
    return true;
}

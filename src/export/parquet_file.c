/* SPDX-License-Identifier: Apache-2.0 */
/* Parquet files: the groups of rows one after the other, and a footer that describes them. */
#include "export/parquet_file.h"
#include "export/thrift.h"

enum { INT64 = 2, DOUBLE = 5, BYTE_ARRAY = 6 }; /* physical types */
enum { REQUIRED = 0, OPTIONAL = 1, UTF8 = 0 };
enum { LOGICAL_STRING = 1, LOGICAL_TIMESTAMP = 8, NANOSECONDS = 3, ROOT_FIELDS = 5, VERSION = 2 };

static const char magic[] = {'P', 'A', 'R', '1'};

static int physical(enum ct_parquet_type type) {
    return type == CT_PARQUET_TEXT ? BYTE_ARRAY : type == CT_PARQUET_REAL ? DOUBLE : INT64;
}

void ct_parquet_begin(struct ct_parquet_file *file, struct ct_out *out, const struct ct_parquet_table *table,
                      enum ct_parquet_codec codec) {
    *file = (struct ct_parquet_file){.out = out, .table = table, .codec = codec};
    ct_out_bytes(out, magic, sizeof magic);
}

/* ---- groups ---- */

static void put_bound(struct ct_bytes *b, int *last, int id, enum ct_parquet_type type, int64_t value) {
    if (type == CT_PARQUET_TEXT)
        ct_thrift_text(b, last, id, (const char *)(uintptr_t)value);
    else
        ct_thrift_binary(b, last, id, &value, sizeof value); /* little-endian, as all our machines are */
}

static void put_statistics(struct ct_bytes *b, const struct ct_parquet_chunk *chunk, enum ct_parquet_type type) {
    int last = 0;
    ct_thrift_i64(b, &last, 3, (int64_t)chunk->missing);
    if (chunk->has_range) {
        put_bound(b, &last, 5, type, chunk->most);
        put_bound(b, &last, 6, type, chunk->least);
    }
    ct_thrift_stop(b);
}

static void put_encodings(struct ct_bytes *b, int *last, const struct ct_parquet_chunk *chunk) {
    bool dictionary = chunk->encoding == CT_PARQUET_DICTIONARY;
    ct_thrift_list(b, last, 2, CT_THRIFT_I32, dictionary ? 3 : 2);
    ct_bytes_zigzag(b, CT_PARQUET_RLE); /* levels */
    ct_bytes_zigzag(b, chunk->encoding);
    if (dictionary)
        ct_bytes_zigzag(b, CT_PARQUET_PLAIN);
}

static void put_chunk(struct ct_parquet_file *f, const struct ct_parquet_group *g, size_t column, uint64_t offset) {
    const struct ct_parquet_column *c = &f->table->columns[column];
    const struct ct_parquet_chunk *chunk = &g->chunks[column];
    struct ct_bytes *b = &f->groups;
    int outer = 0, last = 0;
    ct_thrift_i64(b, &outer, 2, 0); /* no second copy of this description */
    ct_thrift_field(b, &outer, 3, CT_THRIFT_STRUCT);
    ct_thrift_i32(b, &last, 1, physical(c->type));
    put_encodings(b, &last, chunk);
    ct_thrift_list(b, &last, 3, CT_THRIFT_BINARY, 1);
    ct_thrift_element(b, c->name, strlen(c->name));
    ct_thrift_i32(b, &last, 4, f->codec);
    ct_thrift_i64(b, &last, 5, (int64_t)g->rows);
    ct_thrift_i64(b, &last, 6, (int64_t)chunk->plain_size);
    ct_thrift_i64(b, &last, 7, (int64_t)(chunk->end - chunk->dictionary_at));
    ct_thrift_i64(b, &last, 9, (int64_t)(offset + chunk->data_at));
    if (chunk->encoding == CT_PARQUET_DICTIONARY)
        ct_thrift_i64(b, &last, 11, (int64_t)(offset + chunk->dictionary_at));
    ct_thrift_field(b, &last, 12, CT_THRIFT_STRUCT);
    put_statistics(b, chunk, c->type);
    ct_thrift_stop(b);
    ct_thrift_stop(b);
}

static void put_order(struct ct_bytes *b, int *last, int column) {
    int inner = 0;
    ct_thrift_list(b, last, 4, CT_THRIFT_STRUCT, 1);
    ct_thrift_i32(b, &inner, 1, column);
    ct_thrift_bool(b, &inner, 2, false); /* not descending */
    ct_thrift_bool(b, &inner, 3, false); /* what is missing comes last */
    ct_thrift_stop(b);
}

void ct_parquet_append(struct ct_parquet_file *f, const struct ct_parquet_group *g) {
    struct ct_bytes *b = &f->groups;
    uint64_t offset = f->out->bytes, plain = 0;
    int last = 0;
    ct_thrift_list(b, &last, 1, CT_THRIFT_STRUCT, f->table->count);
    for (size_t i = 0; i < f->table->count; i++) {
        put_chunk(f, g, i, offset);
        plain += g->chunks[i].plain_size;
    }
    ct_thrift_i64(b, &last, 2, (int64_t)plain);
    ct_thrift_i64(b, &last, 3, (int64_t)g->rows);
    if (f->table->sorted_by >= 0)
        put_order(b, &last, f->table->sorted_by);
    ct_thrift_i64(b, &last, 5, (int64_t)offset);
    ct_thrift_i64(b, &last, 6, (int64_t)g->bytes.used);
    ct_thrift_stop(b);
    f->group_count++;
    f->rows += g->rows;
    ct_out_bytes(f->out, g->bytes.at, g->bytes.used);
}

/* ---- footer ---- */

static void put_logical_type(struct ct_bytes *b, int *last, enum ct_parquet_type type) {
    int which = 0, time = 0, unit = 0;
    if (type != CT_PARQUET_TEXT && type != CT_PARQUET_TIME)
        return;
    if (type == CT_PARQUET_TEXT)
        ct_thrift_i32(b, last, 6, UTF8);
    ct_thrift_field(b, last, 10, CT_THRIFT_STRUCT);
    ct_thrift_field(b, &which, type == CT_PARQUET_TEXT ? LOGICAL_STRING : LOGICAL_TIMESTAMP, CT_THRIFT_STRUCT);
    if (type == CT_PARQUET_TIME) {
        ct_thrift_bool(b, &time, 1, false); /* readers cut a time of a zone to microseconds */
        ct_thrift_field(b, &time, 2, CT_THRIFT_STRUCT);
        ct_thrift_field(b, &unit, NANOSECONDS, CT_THRIFT_STRUCT);
        ct_thrift_stop(b);
        ct_thrift_stop(b);
    }
    ct_thrift_stop(b);
    ct_thrift_stop(b);
}

static void put_schema(struct ct_bytes *b, int *last, const struct ct_parquet_table *table) {
    int root = 0;
    ct_thrift_list(b, last, 2, CT_THRIFT_STRUCT, table->count + 1);
    ct_thrift_text(b, &root, 4, "row");
    ct_thrift_i32(b, &root, ROOT_FIELDS, (int64_t)table->count);
    ct_thrift_stop(b);
    for (size_t i = 0; i < table->count; i++) {
        const struct ct_parquet_column *c = &table->columns[i];
        int field = 0;
        ct_thrift_i32(b, &field, 1, physical(c->type));
        ct_thrift_i32(b, &field, 3, c->optional ? OPTIONAL : REQUIRED);
        ct_thrift_text(b, &field, 4, c->name);
        put_logical_type(b, &field, c->type);
        ct_thrift_stop(b);
    }
}

static void put_about(struct ct_bytes *b, int *last, const char *const *about, size_t count) {
    if (count)
        ct_thrift_list(b, last, 5, CT_THRIFT_STRUCT, count);
    for (size_t i = 0; i < count; i++) {
        int pair = 0;
        ct_thrift_text(b, &pair, 1, about[2 * i]);
        ct_thrift_text(b, &pair, 2, about[2 * i + 1]);
        ct_thrift_stop(b);
    }
}

/* Smallest and largest values are by the order of their types. */
static void put_column_orders(struct ct_bytes *b, int *last, size_t count) {
    ct_thrift_list(b, last, 7, CT_THRIFT_STRUCT, count);
    for (size_t i = 0; i < count; i++) {
        int order = 0;
        ct_thrift_field(b, &order, 1, CT_THRIFT_STRUCT);
        ct_thrift_stop(b);
        ct_thrift_stop(b);
    }
}

bool ct_parquet_finish(struct ct_parquet_file *f, const char *created_by, const char *const *about,
                       size_t about_count) {
    struct ct_bytes b = {0};
    int last = 0;
    ct_thrift_i32(&b, &last, 1, VERSION);
    put_schema(&b, &last, f->table);
    ct_thrift_i64(&b, &last, 3, (int64_t)f->rows);
    ct_thrift_list(&b, &last, 4, CT_THRIFT_STRUCT, f->group_count);
    ct_bytes_put(&b, f->groups.at, f->groups.used);
    put_about(&b, &last, about, about_count);
    ct_thrift_text(&b, &last, 6, created_by);
    put_column_orders(&b, &last, f->table->count);
    ct_thrift_stop(&b);
    ct_bytes_u32(&b, (uint32_t)b.used);
    ct_bytes_put(&b, magic, sizeof magic);
    bool whole = !b.no_memory && !f->groups.no_memory;
    if (whole)
        ct_out_bytes(f->out, b.at, b.used);
    ct_bytes_free(&b);
    ct_bytes_free(&f->groups);
    return whole;
}

/* ---- texts ---- */

struct ct_parquet_text {
    uint64_t hash;
    char text[];
};

static uint64_t hash_of(const char *text) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* Place of the text, or where it would be. */
static size_t place_of(const struct ct_parquet_texts *t, uint64_t hash, const char *text) {
    size_t at = hash & (t->room - 1);
    while (t->slots[at] && (t->slots[at]->hash != hash || strcmp(t->slots[at]->text, text) != 0))
        at = (at + 1) & (t->room - 1);
    return at;
}

static bool make_room(struct ct_parquet_texts *t) {
    struct ct_parquet_texts more = {.room = t->room ? t->room * 2 : 1024, .count = t->count};
    if (t->count * 2 < t->room)
        return true;
    more.slots = calloc(more.room, sizeof *more.slots);
    if (!more.slots)
        return false;
    for (size_t i = 0; i < t->room; i++)
        if (t->slots[i])
            more.slots[place_of(&more, t->slots[i]->hash, t->slots[i]->text)] = t->slots[i];
    free(t->slots);
    *t = more;
    return true;
}

const char *ct_parquet_intern(struct ct_parquet_texts *t, const char *text) {
    if (!make_room(t))
        return NULL;
    uint64_t hash = hash_of(text);
    size_t at = place_of(t, hash, text), size = strlen(text) + 1;
    if (!t->slots[at]) {
        struct ct_parquet_text *entry = malloc(sizeof *entry + size);
        if (!entry)
            return NULL;
        entry->hash = hash;
        memcpy(entry->text, text, size);
        t->slots[at] = entry;
        t->count++;
    }
    return t->slots[at]->text;
}

void ct_parquet_texts_free(struct ct_parquet_texts *t) {
    for (size_t i = 0; i < t->room; i++)
        free(t->slots[i]);
    free(t->slots);
    *t = (struct ct_parquet_texts){0};
}

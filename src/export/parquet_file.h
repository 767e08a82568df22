/* SPDX-License-Identifier: Apache-2.0 */
/* Parquet files: columns of numbers and texts, in groups of rows.
 *
 * A group is filled by its owner, encoded by any thread (ct_parquet_encode uses nothing but the group), and appended to
 * a file by the file's owner. Pages have checksums, column chunks have smallest and largest values. Texts are pointers:
 * equal texts must be equal pointers (ct_parquet_intern), which live until the group is encoded. */
#ifndef CT_EXPORT_PARQUET_FILE_H
#define CT_EXPORT_PARQUET_FILE_H

#include "export/out.h"
#include "export/parquet_encode.h"

enum ct_parquet_type {
    CT_PARQUET_INTEGER,
    CT_PARQUET_REAL, /* the bits of a double */
    CT_PARQUET_TEXT, /* const char *, UTF-8 */
    CT_PARQUET_TIME, /* nanoseconds since 1970, UTC */
};

enum ct_parquet_codec { CT_PARQUET_STORED = 0, CT_PARQUET_ZSTD = 6, CT_PARQUET_LZ4 = 7 };

struct ct_parquet_column {
    const char *name;
    enum ct_parquet_type type;
    bool optional; /* values may be missing */
};

enum { CT_PARQUET_COLUMNS = 32 };

/* A column of a table. All tables of this kind live as long as their groups. */
struct ct_parquet_table {
    struct ct_parquet_column columns[CT_PARQUET_COLUMNS];
    size_t count;
    int sorted_by; /* groups are sorted by this column when they are encoded; it has no missing values; -1: none */
};

/* A column of a group, encoded. */
struct ct_parquet_chunk {
    enum ct_parquet_encoding encoding;
    uint64_t dictionary_at, data_at, end; /* in the bytes of the group; a dictionary at data_at: there is none */
    uint64_t plain_size;                  /* with page headers, before compressing */
    size_t pages, missing;
    bool has_range;
    int64_t least, most; /* values, or texts */
};

struct ct_parquet_group {
    const struct ct_parquet_table *table;
    enum ct_parquet_codec codec;
    size_t rows, room;
    int64_t *values[CT_PARQUET_COLUMNS];
    uint8_t *present[CT_PARQUET_COLUMNS]; /* of optional columns: 1 where there is a value */
    size_t filled[CT_PARQUET_COLUMNS];    /* how many values there are; without any, the arrays are not looked at */
    /* after ct_parquet_encode */
    struct ct_bytes bytes;
    struct ct_parquet_chunk chunks[CT_PARQUET_COLUMNS];
};

/* Makes room for this many rows; those that are there stay. False: out of memory. */
bool ct_parquet_group_grow(struct ct_parquet_group *group, size_t rows);
void ct_parquet_group_free(struct ct_parquet_group *group);

struct ct_parquet_order {
    uint64_t key; /* in the order of numbers without a sign */
    uint32_t row;
};

/* Memory of an encoder, used again and again; all zero at first. */
struct ct_parquet_work {
    struct ct_parquet_dictionary dictionary;
    struct ct_bytes plain, other;
    int64_t *values; /* those that are there */
    uint8_t *present;
    struct ct_parquet_order *orders; /* memory for two */
    uint32_t *rows;                  /* in their order */
    size_t value_room, present_room, order_room, row_room;
    const struct ct_parquet_table *table; /* that the choices are for */
    struct ct_parquet_choice {
        enum ct_parquet_encoding encoding;
        unsigned groups; /* it holds for this many more */
    } choices[CT_PARQUET_COLUMNS];
    void *zstd;
};
/* False: out of memory. */
bool ct_parquet_encode(struct ct_parquet_group *group, struct ct_parquet_work *work);
void ct_parquet_work_free(struct ct_parquet_work *work);

struct ct_parquet_file {
    struct ct_out *out;
    const struct ct_parquet_table *table;
    enum ct_parquet_codec codec;
    uint64_t rows;
    struct ct_bytes groups; /* descriptions of the groups, for the end of the file */
    size_t group_count;
};

void ct_parquet_begin(struct ct_parquet_file *file, struct ct_out *out, const struct ct_parquet_table *table,
                      enum ct_parquet_codec codec);
/* The group must be encoded, and have rows. */
void ct_parquet_append(struct ct_parquet_file *file, const struct ct_parquet_group *group);
/* Writes the end of the file. `created_by` names the program that wrote it; `about` are `about_count` pairs of texts
 * for the file's metadata. False: out of memory. */
bool ct_parquet_finish(struct ct_parquet_file *file, const char *created_by, const char *const *about,
                       size_t about_count);

/* Texts, each one once. One owner; the pointers live until ct_parquet_texts_free. */
struct ct_parquet_texts {
    struct ct_parquet_text **slots;
    size_t count, room;
};
/* NULL: out of memory. */
const char *ct_parquet_intern(struct ct_parquet_texts *texts, const char *text);
void ct_parquet_texts_free(struct ct_parquet_texts *texts);

#endif

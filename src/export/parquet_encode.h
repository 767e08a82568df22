/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings of Parquet: how the values of a column become bytes, before they are compressed.
 *
 * `whole`: values take whole bytes, though fewer bits would do. An entropy coder after it (zstd) then sees how often
 * each value occurs and gets below the fewer bits; LZ4 does not. */
#ifndef CT_EXPORT_PARQUET_ENCODE_H
#define CT_EXPORT_PARQUET_ENCODE_H

#include "export/bytes.h"

enum ct_parquet_encoding {
    CT_PARQUET_PLAIN = 0,
    CT_PARQUET_RLE = 3, /* levels */
    CT_PARQUET_DELTA = 5,
    CT_PARQUET_DICTIONARY = 8,
};

/* DELTA_BINARY_PACKED */
void ct_parquet_delta(struct ct_bytes *out, const int64_t *values, size_t count, bool whole);
/* Runs of equal values, and of values of `width` bits; for indices into a dictionary, and levels. */
void ct_parquet_runs(struct ct_bytes *out, const uint32_t *values, size_t count, unsigned width);
/* Bits that the largest index into this many values takes. */
unsigned ct_parquet_width(size_t count, bool whole);

/* Different values of a column, the most frequent first, and an index for each value. */
struct ct_parquet_dictionary {
    int64_t *values;
    size_t count;
    uint32_t *indices;
    /* private */
    uint32_t *slots, *counts;
    size_t room;
};

/* Makes the dictionary. False: there are more than `most` different values, or no memory. The dictionary is used again
 * and again, all zero at first. */
bool ct_parquet_dictionary_make(struct ct_parquet_dictionary *d, const int64_t *values, size_t count, size_t most);
void ct_parquet_dictionary_free(struct ct_parquet_dictionary *d);

#endif

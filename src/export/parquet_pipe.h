/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of rows on their way into a Parquet file: the owner fills one while other processors encode those before it.
 *
 * Groups reach the file in the order in which they were filled. Memory is bounded by the number of groups, one more
 * than there are processors for it. Without a second processor the owner encodes. One owner. */
#ifndef CT_EXPORT_PARQUET_PIPE_H
#define CT_EXPORT_PARQUET_PIPE_H

#include "export/parquet_file.h"

enum { CT_PARQUET_ROWS = 122880 }; /* of a group: what DuckDB gives to one of its threads */

struct ct_parquet_pipe;

/* NULL: out of memory. */
struct ct_parquet_pipe *ct_parquet_pipe_open(unsigned processors, enum ct_parquet_codec codec);
/* The groups after this go into this file. */
void ct_parquet_pipe_begin(struct ct_parquet_pipe *pipe, struct ct_out *out, const struct ct_parquet_table *table);
/* The group to fill, with room for CT_PARQUET_ROWS rows. NULL: out of memory. */
struct ct_parquet_group *ct_parquet_pipe_group(struct ct_parquet_pipe *pipe);
/* The group is full. False: out of memory. */
bool ct_parquet_pipe_give(struct ct_parquet_pipe *pipe);
/* Gives the last group, waits for all, and writes the end of the file. False: out of memory. */
bool ct_parquet_pipe_finish(struct ct_parquet_pipe *pipe, const char *created_by, const char *const *about,
                            size_t about_count);
void ct_parquet_pipe_close(struct ct_parquet_pipe *pipe);

#endif

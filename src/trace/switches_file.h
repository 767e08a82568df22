/* SPDX-License-Identifier: Apache-2.0 */
/* Writing and reading thread_N/switches and thread_N/waits (abi/switches.h).
 *
 * The writer belongs to the drain thread. A file that has half of the size limit becomes `switches_old`, in the place
 * of the one before, and a new one begins: so the newest spans are kept, and all together stay below the limit. */
#ifndef CT_TRACE_SWITCHES_FILE_H
#define CT_TRACE_SWITCHES_FILE_H

#include "abi/switches.h"
#include <stdbool.h>
#include <stddef.h>

/* A stretch of time in which the thread was not on a processor, or of which that is not known. */
struct ct_switch_span {
    uint64_t from_ns, to_ns;
    enum ct_switches_kind kind;
};

#define CT_SWITCHES_LIMIT (64u << 20) /* bytes of a thread, without --keep */

struct ct_place;
struct ct_switches_writer;
/* Makes thread_ID/switches in a process's directory. */
int ct_switches_writer_open(struct ct_switches_writer **out, struct ct_place *process, uint32_t id, uint32_t tid,
                            uint64_t begins_ns, uint64_t limit);
/* `name`: CT_SWITCHES_FILE or CT_WAITS_FILE. */
int ct_switches_writer_open_as(struct ct_switches_writer **out, struct ct_place *process, uint32_t id, uint32_t tid,
                               uint64_t begins_ns, uint64_t limit, const char *name);
/* Spans come in order and do not overlap. Those that do not are cut. */
void ct_switches_writer_put(struct ct_switches_writer *w, const struct ct_switch_span *span);
/* The first failure is kept; after it everything is lost. */
int ct_switches_writer_flush(struct ct_switches_writer *w);
int ct_switches_writer_close(struct ct_switches_writer *w);

struct ct_switches_reader;
/* CT_ERR_NOT_FOUND: the thread has no such file. */
int ct_switches_reader_open(struct ct_switches_reader **out, const char *directory, uint32_t id);
int ct_switches_reader_open_as(struct ct_switches_reader **out, const char *directory, uint32_t id, const char *name);
/* 1: a span; 0: the end; CT_ERR_BAD_FILE: ct_switches_reader_problem says why. */
int ct_switches_reader_next(struct ct_switches_reader *r, struct ct_switch_span *span);
uint64_t ct_switches_reader_begins(const struct ct_switches_reader *r); /* nothing is known of the time before */
const char *ct_switches_reader_problem(const struct ct_switches_reader *r);
bool ct_switches_reader_finished(const struct ct_switches_reader *r); /* the file has its last record */
void ct_switches_reader_close(struct ct_switches_reader *r);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Writing and reading thread_N/code.ctc (abi/code.h).
 *
 * The writer belongs to the drain thread. What was flushed survives our death. A file without its last record comes
 * from a recorder that was killed. */
#ifndef CT_TRACE_CODE_FILE_H
#define CT_TRACE_CODE_FILE_H

#include "abi/code.h"
#include <stdbool.h>
#include <stddef.h>

/* A block of code. */
struct ct_code_block {
    uint32_t module; /* 0: code of no file; the offset is its address */
    uint32_t size, insns;
    uint64_t offset; /* from the module's base */
    const uint8_t *lengths;
};

struct ct_code_counts {
    uint64_t blocks, insns, compiled, lost;
};

/* ---- writing ---- */

struct ct_code_writer;
struct ct_place;
/* Makes thread_ID/code.ctc in a process's directory. */
int ct_code_writer_open(struct ct_code_writer **out, struct ct_place *process, uint32_t id, uint32_t tid,
                        uint32_t events);
/* Sets position and time of the records that follow. */
void ct_code_writer_at(struct ct_code_writer *w, uint64_t position, uint64_t time_ns);
/* True when the file has this block, which the caller numbers. Otherwise define it first. */
bool ct_code_writer_knows(const struct ct_code_writer *w, uint32_t number);
void ct_code_writer_define(struct ct_code_writer *w, uint32_t number, const struct ct_code_block *block);
/* The first `insns` instructions of the block were executed; 0: all. */
void ct_code_writer_block(struct ct_code_writer *w, uint32_t number, uint32_t insns);
void ct_code_writer_compiled(struct ct_code_writer *w, const struct ct_code_block *block);
void ct_code_writer_lost(struct ct_code_writer *w, uint64_t count);
/* Like those of a thread's writer (writer.h). The first failure is kept; after it everything is lost. */
int ct_code_writer_flush(struct ct_code_writer *w);
int ct_code_writer_close(struct ct_code_writer *w, uint64_t *bytes);
uint64_t ct_code_writer_bytes(const struct ct_code_writer *w);

/* ---- reading ---- */

struct ct_code_record {
    enum { CT_CODE_RAN, CT_CODE_COMPILED, CT_CODE_LOST, CT_CODE_DAMAGED } what; /* DAMAGED: of cursors, see reader.h */
    struct ct_code_block block; /* its lengths are valid until the reader is closed */
    uint32_t number;            /* RAN: number of the block in the file, from 0 on without holes; */
    uint32_t executed;          /* and how many of its instructions were executed, from the first on */
    uint64_t count;             /* LOST: blocks */
    uint64_t position, time_ns; /* events of the index before the record; when the agent handed it over */
};

struct ct_code_reader;
/* CT_ERR_NOT_FOUND: the thread has no such file. */
int ct_code_reader_open(struct ct_code_reader **out, const char *directory, uint32_t id);
/* 1: a record; 0: the end; CT_ERR_BAD_FILE: ct_code_reader_problem says why. */
int ct_code_reader_next(struct ct_code_reader *r, struct ct_code_record *record);
const char *ct_code_reader_problem(const struct ct_code_reader *r);
bool ct_code_reader_finished(const struct ct_code_reader *r); /* the file has its last record */
struct ct_code_counts ct_code_reader_counts(const struct ct_code_reader *r);
const struct ct_code_header *ct_code_reader_header(const struct ct_code_reader *r);
void ct_code_reader_close(struct ct_code_reader *r);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Traces for tests: temporary directories, and small recordings made with the writer. */
#ifndef CT_TESTS_TRACE_UTIL_H
#define CT_TESTS_TRACE_UTIL_H

#include "trace/writer.h"
#include <contrail/trace.h>

/* A fresh directory; removed with all that is in it. */
void make_directory(char *path, size_t size);
void remove_directory(const char *path);

/* printf into one of a few static buffers. */
const char *in(const char *format, ...) __attribute__((format(printf, 1, 2)));

uint8_t *load(const char *path, size_t *size); /* malloc'ed */
void store(const char *path, const void *bytes, size_t size);

struct atf_index_event event_of(uint64_t time, uint64_t function, uint32_t tid, uint32_t kind, uint32_t depth);
void write_events(struct ct_thread_writer *writer, const struct atf_index_event *events, size_t count);

/* A process directory with a right manifest, symbols and threads, to be spoilt by tests.
 * Functions of module 1: 0 "outer", 1 "inner", 2 "jump" (entry only), 3 nameless, 4 "skipped". Thread t has `events`
 * events of sample_event. */
#define SAMPLE_FUNCTION(n) (UINT64_C(1) << 32 | (n))
struct sample {
    size_t threads, events;
    uint64_t part;        /* events per file, 0: all in one */
    uint64_t detail;      /* every n-th event has a detail record, 0: none has */
    uint64_t detail_part; /* bytes per detail file, 0: all in one */
    bool packed;          /* index.ctp */
    bool unfinished;      /* the manifest says so, and the files have no footers */
    const char *gaps;     /* of thread 0, JSON; NULL: none */
    const char *reason;   /* of the end; NULL: none */
    int64_t wrong_events; /* added to what the manifest says of thread 0 */
};
/* outer(inner, jump) over and over; some inner frames end by an exception. Times rise by 1 to 9. */
struct atf_index_event sample_event(size_t thread, uint64_t sequence);
/* A record for the event: with stack bytes and vectors by its position. `record` has ATF_DETAIL_LENGTH_MAX bytes. */
struct atf_detail_event *sample_detail(uint8_t *record, const struct atf_index_event *event, uint64_t sequence);
void make_sample(const char *directory, const struct sample *sample);
void make_manifest(const char *directory, const struct sample *sample);

/* Verifies; all sentences joined by newlines are put into `text`. */
int verify_text(const char *path, char *text, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls of a trace fit a selection.
 *
 * Duration and result of a call are known at its end only, but readers need to know at its beginning whether it fits.
 * So the selected threads are read once before: a call that fits, and the calls around it, are marked by the
 * position of their events in the thread. Memory: two bits for each event where there is a mark nearby.
 *
 * Readers ask before they do anything with a call; this is the only answer to "does this call fit?". Read-only, so
 * several threads may use it. */
#ifndef CT_REPORT_FITS_H
#define CT_REPORT_FITS_H

#include "report/select.h"
#include "trace/facts.h"

struct ct_fits;

enum ct_fits_words {
    CT_FITS_WHERE,     /* only `where` decides: the reader looks at functions and modules itself */
    CT_FITS_FUNCTIONS, /* calls of the selected functions */
    CT_FITS_BELOW,     /* calls of the selected functions, and all calls below them */
    CT_FITS_EVENTS,    /* the same, and calls outside the selected time do not fit: for readers of all events */
};

/* *out is NULL when all calls of the selected threads fit, so that nothing had to be read. `directories`: further
 * places of binaries and debug files, for arguments; may be NULL. */
int ct_fits_make(struct ct_fits **out, struct ct_trace *trace, const struct ct_facts *facts,
                 const struct ct_select *select, enum ct_fits_words words, const char *const *directories);
void ct_fits_free(struct ct_fits *fits);
/* Loads the facts of the trace, finds what fits `where`, and calls `read` for each selected thread; facts and fits live
 * until this returns. A non-zero result ends it and is returned. */
int ct_fits_each_thread(struct ct_trace *trace, const struct ct_select *select, const char *const *directories,
                        int (*read)(void *arg, size_t thread, const struct ct_facts *facts, const struct ct_fits *fits),
                        void *arg);
/* How many events are kept. */
uint64_t ct_fits_kept(const struct ct_fits *fits);
/* True when one of these events is the call or the end of a call that fits; always with `fits` NULL. */
bool ct_fits_between(const struct ct_fits *fits, size_t thread, uint64_t first, uint64_t end);

/* The slow paths of ct_fits_call and ct_fits_keeps. */
bool ct_fits_marked(const struct ct_fits *fits, size_t thread, uint64_t sequence);
bool ct_fits_marked_kept(const struct ct_fits *fits, size_t thread, uint64_t sequence);

/* True when the event is the call or the end of a call that fits; always with `fits` NULL. */
static inline bool ct_fits_call(const struct ct_fits *fits, size_t thread, uint64_t sequence) {
    return !fits || ct_fits_marked(fits, thread, sequence);
}
/* True for events of calls that fit, and of the calls around them. */
static inline bool ct_fits_keeps(const struct ct_fits *fits, size_t thread, uint64_t sequence) {
    return !fits || ct_fits_marked_kept(fits, thread, sequence);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The micro workload: nothing but calls. Benches link it and hook its functions; `calls` runs it on its own.
 *
 * Each mode makes an exactly known number of calls, so a recorder can be checked as well as timed. */
#ifndef CT_BENCH_CALLS_H
#define CT_BENCH_CALLS_H

#include <stddef.h>
#include <stdint.h>

#define CALLS_DEPTH  32 /* frames of one descent in `deep` */
#define CALLS_FANOUT 16 /* targets of the one indirect call in `fanout` */

struct calls_mode {
    const char *name;
    /* Makes `calls` calls (rounded down to a multiple of `unit`) of the functions below and nothing else; the result
     * depends on every one of them. Do not hook the function itself. */
    uint64_t (*run)(uint64_t calls);
    unsigned unit;
    void *const *functions; /* the functions that it calls */
    size_t function_count;
};

/* flat: one leaf in a loop; deep: recursion; fanout: one call site with many targets, in an order that a good branch
 * predictor learns (so that calls are timed, not mispredictions). NULL after the last. */
extern const struct calls_mode *const calls_modes[];

/* The mode with this name, or NULL. */
const struct calls_mode *calls_find_mode(const char *name);

/* One leaf, for benches that want to call it themselves. */
uint64_t calls_leaf(uint64_t a, uint64_t b);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What a recorded call costs on this machine: the prices that a budget reckons with. */
#ifndef CT_SESSION_BUDGET_PRICE_H
#define CT_SESSION_BUDGET_PRICE_H

#include <stdbool.h>

struct ct_clock;

struct ct_budget_price {
    double stamp_ns; /* a reading of the counter */
    /* How much of other work is seen beside readings: 1 if it takes as long as by itself; 0 if all of it is done while
     * the processor waits for the counter. */
    double visible;
};

/* Measures for some ten microseconds. */
struct ct_budget_price ct_budget_price_measure(const struct ct_clock *clock);
/* A call and its return, recorded with detail or without. */
double ct_budget_price_pair(const struct ct_budget_price *price, bool detail, bool fast_clock);

#endif

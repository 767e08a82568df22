/* SPDX-License-Identifier: Apache-2.0 */
/* See diff_noise.h. */
#include "report/diff_noise.h"

#define ERRORS      4.0
#define PART        0.4
#define REPEAT_PART 0.1 /* with repeats on both sides: they show how runs differ */
#define CALL_NS     50.0
#define LEAST_NS    20000.0 /* of all calls together */
#define FEW_CALLS   8u
#define FEW_PART    0.5
#define FEW_CPU_NS  200000.0   /* caches, faults of pages */
#define FEW_WALL_NS 20000000.0 /* a few turns of other threads */

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double distance(double a, double b) {
    return a > b ? a - b : b - a;
}

void ct_diff_spread_add(struct ct_diff_spread *s, const struct ct_diff_sample *one) {
    double time = (double)one->time_ns, timed = (double)one->timed, typical = (double)one->p50_ns;
    double quartiles = (double)(one->p75_ns - one->p25_ns);
    s->calls_least = s->traces && s->calls_least < one->calls ? s->calls_least : one->calls;
    s->calls_most = s->calls_most > one->calls ? s->calls_most : one->calls;
    s->least_ns = s->traces && s->least_ns < time ? s->least_ns : time;
    s->most_ns = larger(s->most_ns, time);
    s->typical_least = s->traces && s->typical_least < typical ? s->typical_least : typical;
    s->typical_most = larger(s->typical_most, typical);
    s->calls += one->calls;
    s->timed += one->timed;
    s->time_ns += time;
    s->typical_ns += typical;
    if (one->timed) {
        s->variance += larger(one->squares - time * time / timed, 0);
        s->typical_variance += quartiles * quartiles / timed; /* that of a median, about: (0.93 * quartiles)^2 / n */
    }
    s->traces++;
}

bool ct_diff_calls_differ(const struct ct_diff_spread *a, const struct ct_diff_spread *b) {
    uint64_t apart = a->calls_most < b->calls_least   ? b->calls_least - a->calls_most
                     : b->calls_most < a->calls_least ? a->calls_least - b->calls_most
                                                      : 0;
    return apart > (a->calls_most - a->calls_least) + (b->calls_most - b->calls_least);
}

/* One number of both sides: means over the traces, what a trace has at least and at most, variance of the mean. */
struct number {
    double part;
    double mean[2], least[2], most[2], variance[2];
};

static bool is_more_than(const struct number *n, double noise) {
    double apart = distance(n->mean[0], n->mean[1]);
    bool overlap = n->most[0] >= n->least[1] && n->most[1] >= n->least[0];
    noise = larger(noise, n->part * larger(n->mean[0], n->mean[1]));
    noise = larger(noise, (n->most[0] - n->least[0]) + (n->most[1] - n->least[1]));
    return !overlap && apart > noise && apart * apart > ERRORS * ERRORS * (n->variance[0] + n->variance[1]);
}

bool ct_diff_times_differ(const struct ct_diff_spread *a, const struct ct_diff_spread *b, bool cpu) {
    const struct ct_diff_spread *sides[] = {a, b};
    struct number sum, typical;
    double calls = 0;
    if (!a->timed || !b->timed)
        return false;
    for (int s = 0; s < 2; s++) {
        double n = (double)sides[s]->traces;
        calls = larger(calls, (double)sides[s]->timed / n);
        sum.mean[s] = sides[s]->time_ns / n;
        sum.least[s] = sides[s]->least_ns;
        sum.most[s] = sides[s]->most_ns;
        sum.variance[s] = sides[s]->variance / (n * n);
        typical.mean[s] = sides[s]->typical_ns / n;
        typical.least[s] = sides[s]->typical_least;
        typical.most[s] = sides[s]->typical_most;
        typical.variance[s] = sides[s]->typical_variance / (n * n);
    }
    sum.part = typical.part = a->traces > 1 && b->traces > 1 ? REPEAT_PART : PART;
    if (a->timed >= FEW_CALLS && b->timed >= FEW_CALLS)
        return is_more_than(&sum, larger(LEAST_NS, CALL_NS * calls)) ||
               is_more_than(&typical, larger(LEAST_NS / calls, CALL_NS));
    double least = larger(cpu ? FEW_CPU_NS : FEW_WALL_NS, FEW_PART * larger(sum.mean[0], sum.mean[1]));
    return is_more_than(&sum, larger(least, CALL_NS * calls));
}

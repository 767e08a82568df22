/* SPDX-License-Identifier: Apache-2.0 */
/* The budget of a recording: decides which hooks cost too much, and which may come back.
 *
 * Pure logic: no thread, no process, time is an argument. What a hook costs is its calls times the cost of a pair of
 * events. All shares are of the target's own CPU time: what it would use without us. A hook that is out is not counted,
 * so what it would cost now is not known: it comes back by a trial, which ends as soon as it proves too dear. Trials of
 * a hook become rarer, and all of them together may use only a small part of the budget.
 *
 * Owner: the thread that looks (recording_budget.c). */
#ifndef CT_SESSION_BUDGET_H
#define CT_SESSION_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_drain_count;

/* A change of load is answered within 200 ms: in that many looks. */
#define CT_BUDGET_LOOK_MS   50
#define CT_BUDGET_LOOKS     4
#define CT_BUDGET_ANSWER_MS 200
_Static_assert(CT_BUDGET_LOOKS *CT_BUDGET_LOOK_MS <= CT_BUDGET_ANSWER_MS, "as docs/OVERHEAD.md says");

enum ct_budget_state { CT_BUDGET_FIXED, CT_BUDGET_IN, CT_BUDGET_OUT }; /* FIXED: never taken out */

struct ct_budget_hook {
    uint64_t seen, leaves; /* as counted at the last look */
    double cost;           /* share of the target's own time; of one that is out: the last known */
    double now;            /* in the last look alone */
    float leaf;            /* part of its calls that call nothing, and end soon: 0 to 1 */
    float pair_ns;         /* what one call costs */
    uint8_t state;         /* enum ct_budget_state */
    uint8_t tries;         /* how often it was taken out soon after it came back */
    bool named;            /* the user has named it: it is taken out last, and comes back first */
    bool trial;            /* it came back a moment ago */
    uint64_t since_ns;     /* when it was taken out, or came back; 0: neither */
    uint64_t again_ns;     /* it is not tried before */
};

struct ct_budget {
    double limit; /* a part of the target's own time; 0: no limit */
    struct ct_budget_hook *hooks;
    size_t count;
    double share;             /* that hooks which are in cost, smoothed */
    double share_now;         /* in the last look */
    unsigned over;            /* looks in a row, up to the last one, with clearly more than the limit (a fifth) */
    double debt_ns;           /* what trials have cost, less what they may */
    uint64_t out_ns;          /* when a hook was last taken out */
    uint64_t own_ns, cost_ns; /* sums over all looks */
};

/* What has happened since the last look. */
struct ct_budget_look {
    uint64_t now_ns;
    uint64_t cpu_ns;     /* CPU time of the target */
    uint64_t stopped_ns; /* it was stopped for changes */
    double scale;        /* events that there were, for each that was counted: some may have been lost */
    double ns_per_count; /* of the counter that leaves were measured with */
    const struct ct_drain_count *counts;
    size_t count;
};

/* Makes room for this many hooks; new ones are FIXED. */
int ct_budget_grow(struct ct_budget *b, size_t count);
void ct_budget_free(struct ct_budget *b);
void ct_budget_look(struct ct_budget *b, const struct ct_budget_look *look);
/* Hooks that must go, those that cost most and say least first: their numbers, at most `room`. */
size_t ct_budget_choose_out(const struct ct_budget *b, uint64_t now_ns, uint32_t *numbers, size_t room);
/* Hooks that may come back. */
size_t ct_budget_choose_back(const struct ct_budget *b, uint64_t now_ns, uint32_t *numbers, size_t room);
/* The caller has done so. */
void ct_budget_take_out(struct ct_budget *b, uint32_t number, uint64_t now_ns);
void ct_budget_bring_back(struct ct_budget *b, uint32_t number, uint64_t now_ns);
/* Is there a trial that must be watched closely? */
bool ct_budget_tries(const struct ct_budget *b);

#endif

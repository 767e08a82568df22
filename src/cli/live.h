/* SPDX-License-Identifier: Apache-2.0 */
/* The live line on the terminal during a recording. Owned by the main thread. */
#ifndef CT_CLI_LIVE_H
#define CT_CLI_LIVE_H

#include <contrail/session.h>
#include <stdbool.h>
#include <stdint.h>

struct ct_live {
    bool on;    /* stderr is a terminal that can rewrite a line */
    bool below; /* the target writes to this terminal too: our line stays below its output */
    bool drawn;
    uint64_t last_ns;                    /* when it was drawn */
    uint64_t counted_ns, counted_events; /* for the rate */
    double rate;
};

void ct_live_init(struct ct_live *live, bool wanted, bool target_shares_terminal);
/* Draws the line unless it was drawn a moment ago. */
void ct_live_show(struct ct_live *live, const struct ct_session_statistics *now);
void ct_live_show_step(struct ct_live *live, const char *step, uint64_t done, uint64_t total);
/* Call this before anything else is printed, and at the end. */
void ct_live_erase(struct ct_live *live);

/* The text of the line, at most `size` - 1 characters. */
void ct_live_text(char *text, size_t size, double rate, const struct ct_session_statistics *now);
uint64_t ct_live_now(void); /* nanoseconds of a clock that only goes forward */

#endif

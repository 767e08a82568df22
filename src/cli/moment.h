/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of a trace as text, by the clock that the user chose (--clock). */
#ifndef CT_CLI_MOMENT_H
#define CT_CLI_MOMENT_H

#include "trace/wall.h"

struct ct_moment_clock {
    int clock;         /* enum of options.h */
    uint64_t start_ns; /* times count from here; unless they are those of the wall clock */
    struct ct_wall wall;
};

/* Returns -1, or the exit code after a message. */
int ct_moment_open(struct ct_moment_clock *clock, const struct ct_trace *trace, int which);
void ct_moment_close(struct ct_moment_clock *clock);
/* Seconds with nine digits, or date and time. */
const char *ct_moment_text(const struct ct_moment_clock *clock, uint64_t time_ns, char text[CT_WALL_TEXT]);
/* For JSON, which has times of the machine's clock beside it: NULL when the user did not ask for the wall clock. */
const struct ct_wall *ct_moment_wall(const struct ct_moment_clock *clock);

#endif

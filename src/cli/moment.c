/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of a trace as text: see moment.h. */
#include "cli/moment.h"
#include "cli/options.h"
#include "cli/reading.h"
#include "cli/selection.h"
#include <inttypes.h>

int ct_moment_open(struct ct_moment_clock *c, const struct ct_trace *trace, int which) {
    *c = (struct ct_moment_clock){.clock = which};
    c->start_ns = which == CT_CLOCK_START ? ct_selection_start(trace) : 0;
    return which == CT_CLOCK_WALL ? ct_reading_wall(&c->wall, trace) : -1;
}

void ct_moment_close(struct ct_moment_clock *c) {
    ct_wall_free(&c->wall);
}

const char *ct_moment_text(const struct ct_moment_clock *c, uint64_t time_ns, char text[CT_WALL_TEXT]) {
    uint64_t when = time_ns > c->start_ns ? time_ns - c->start_ns : 0;
    if (c->clock == CT_CLOCK_WALL)
        ct_wall_text(&c->wall, time_ns, text);
    else
        snprintf(text, CT_WALL_TEXT, "%" PRIu64 ".%09" PRIu64, when / 1000000000, when % 1000000000);
    return text;
}

const struct ct_wall *ct_moment_wall(const struct ct_moment_clock *c) {
    return c->clock == CT_CLOCK_WALL ? &c->wall : NULL;
}

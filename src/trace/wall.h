/* SPDX-License-Identifier: Apache-2.0 */
/* Wall-clock times of a trace. Its events have CLOCK_BOOTTIME, which nobody sets; the manifests have pairs of it and
 * CLOCK_REALTIME, so that a trace can be laid beside logs. Where the clock was set while it was recorded, times after
 * that are those of the new clock. */
#ifndef CT_TRACE_WALL_H
#define CT_TRACE_WALL_H

#include <contrail/trace.h>

struct ct_wall_pair {
    uint64_t boot_ns, real_ns;
    int32_t offset_s; /* local time is this much ahead of UTC, where it was recorded */
};

struct ct_wall {
    struct ct_wall_pair *pairs; /* by boot_ns */
    size_t count;               /* 0: the trace has none, since an older contrail made it */
};

#define CT_WALL_TEXT 48

int ct_wall_load(struct ct_wall *wall, const struct ct_trace *trace);
void ct_wall_free(struct ct_wall *wall);
/* Nanoseconds since 1970; 0: not known. */
uint64_t ct_wall_real(const struct ct_wall *wall, uint64_t boot_ns);
/* 2025-01-02T03:04:05.678901234+01:00, in the local time of the machine that recorded. "": not known. */
void ct_wall_text(const struct ct_wall *wall, uint64_t boot_ns, char text[CT_WALL_TEXT]);
/* Reads such a time, with T or a space, with fewer digits, and without a date (that of the beginning of the trace) or
 * an offset (that of the trace); Z is UTC. CT_ERR_INVALID_ARGUMENT: it is none; CT_ERR_NOT_FOUND: the trace has no
 * pairs. */
int ct_clock_parse_wall(const struct ct_wall *wall, const char *text, uint64_t *boot_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Times of events as bytes of a packed block, many at once with the machine's vector instructions. */
#ifndef CT_DRAIN_TIMES_H
#define CT_DRAIN_TIMES_H

#include "drain/clock.h"
#include <contrail/event.h>

#define CT_DRAIN_TIMES 16u /* events of a group */

/* Takes whole groups of events that are in order and each less than CT_PACK_LONG_TIME ns after the one before: writes
 * the same bytes as ct_pack_time does for what the clock's formula gives, and returns how many events these are. Stops
 * at the first other group. *time: where the next byte goes. *last_ns: the time of the event before, and then that of
 * the last one. */
size_t ct_drain_put_times(const struct ct_clock *clock, const struct ct_event *events, size_t count, uint8_t **time,
                          uint64_t *last_ns);

#endif

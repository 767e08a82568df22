/* SPDX-License-Identifier: Apache-2.0 */
/* How late the times of a trace may be: with the fast clock most events have the time of an earlier one. */
#ifndef CT_TRACE_LATE_H
#define CT_TRACE_LATE_H

#include <contrail/trace.h>

/* The most of all processes, as their manifests have it; 0: times are exact. */
uint64_t ct_late_ns(const struct ct_trace *trace);

#endif

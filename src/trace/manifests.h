/* SPDX-License-Identifier: Apache-2.0 */
/* How the processes of a trace were recorded, from their manifests, for those that do not need all facts. */
#ifndef CT_TRACE_MANIFESTS_H
#define CT_TRACE_MANIFESTS_H

#include <contrail/trace.h>

/* How late times may be, the most of all processes: with the fast clock most events have the time of an earlier one.
 * 0: times are exact. */
uint64_t ct_manifests_late_ns(const struct ct_trace *trace);
/* The largest rate of a sample (`spawn --sample`) of all processes; 0: none of them was sampled. */
uint64_t ct_manifests_sample_rate(const struct ct_trace *trace);

#endif

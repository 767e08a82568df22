/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of one busy thread, for benchmarks: functions call some others, and each part of the run has functions of its
 * own. */
#ifndef CT_BENCH_PARTS_TRACE_H
#define CT_BENCH_PARTS_TRACE_H

#include <stdint.h>

enum { PARTS_FUNCTIONS = 400, PARTS_DEPTH = 40 };

/* Makes the contents of a process's directory. */
void write_parts_trace(const char *directory, uint32_t events);

#endif

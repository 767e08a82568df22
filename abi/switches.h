/* SPDX-License-Identifier: Apache-2.0 */
/* thread_N/switches: when the thread was not on a processor. docs/TRACE-FORMAT.md describes the file. */
#ifndef CT_ABI_SWITCHES_H
#define CT_ABI_SWITCHES_H

#include <stdint.h>

#define CT_SWITCHES_FILE   "switches"
#define CT_SWITCHES_BEFORE "_old" /* added to the name: the part before it */
#define CT_SWITCHES_OLD    CT_SWITCHES_FILE CT_SWITCHES_BEFORE
/* thread_N/waits has the same format: when the thread waited for memory of the recorder. All spans are BLOCKED. */
#define CT_WAITS_FILE       "waits"
#define CT_WAITS_OLD        CT_WAITS_FILE CT_SWITCHES_BEFORE
#define CT_SWITCHES_MAGIC   0x31575443u /* "CTW1" */
#define CT_SWITCHES_VERSION 1u

struct ct_switches_header {
    uint32_t magic, version, thread_id, reserved;
    uint64_t begins_ns; /* nothing is known of the time before */
    uint64_t reserved_2;
};

/* The two lowest bits of a record's first number; the rest is a value. */
enum ct_switches_kind {
    CT_SWITCHES_BLOCKED,   /* it waited for something */
    CT_SWITCHES_PREEMPTED, /* it could have run, and others did */
    CT_SWITCHES_UNKNOWN,   /* switches were lost */
    CT_SWITCHES_END,
};

#endif

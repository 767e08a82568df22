/* SPDX-License-Identifier: Apache-2.0 */
/* The log that harness.c fills and tree.c reads. */
#ifndef E2E_LOG_H
#define E2E_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define E2E_MAX_HOOKS     65536
#define E2E_DEPTH_UNKNOWN UINT32_MAX

struct e2e_log_event {
    uint64_t time;
    uint32_t hook;
    uint32_t depth; /* as the listener got it */
    int tid;
    uint32_t kind; /* enum ct_event_kind */
};

struct e2e_log {
    struct e2e_log_event *events;
    size_t count;
    size_t forgotten; /* events before this one were dealt with */
    bool unnested;
    bool stack_pops;
    const char *names[E2E_MAX_HOOKS]; /* of hooks by number; NULL: no such hook */
};
extern struct e2e_log e2e_log;

#endif

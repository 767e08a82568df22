/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the recording of switches: ring buffers of the kernel (switches_rings.c), threads (switches.c). */
#ifndef CT_DRAIN_SWITCHES_INTERNAL_H
#define CT_DRAIN_SWITCHES_INTERNAL_H

#include "drain/switches.h"
#include <stdbool.h>

/* A thread leaves a processor, or comes onto one. */
struct ct_switch {
    uint64_t ns;
    int pid, tid;
    bool out, preempted;
};

struct ct_ring {
    void *pages; /* NULL: none */
    int fd;
};

/* The events of a process. */
struct ct_rings {
    int pid;
    struct ct_ring *rings; /* by processor */
    size_t count, ring_bytes;
    int *more; /* descriptors of further threads, which use the same rings */
    size_t more_count, more_room;
};

int ct_rings_open(struct ct_rings *r, int pid, char why[CT_SWITCHES_WHY]);
void ct_rings_close(struct ct_rings *r);
/* Is so much in a ring that it should be read soon? */
bool ct_rings_are_filling(const struct ct_rings *r);
/* Calls `take` for each record, ring by ring. Returns how many the kernel lost. */
uint64_t ct_rings_read(struct ct_rings *r, void (*take)(void *arg, const struct ct_switch *record), void *arg);

#endif

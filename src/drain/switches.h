/* SPDX-License-Identifier: Apache-2.0 */
/* When the threads of a process are on a processor: the kernel reports each switch (PERF_RECORD_SWITCH of an event that
 * counts nothing), and thread_N/switches gets the times in between. Nothing is done in the target.
 *
 * One ring buffer for each processor serves all threads. New threads inherit the events, so the number of descriptors
 * grows only with the threads that exist at the start. Records of one thread may be in several buffers: they are
 * collected, sorted, and used one pass later, when earlier ones cannot come any more.
 *
 * Owner: the thread that opens it, then the drain thread. */
#ifndef CT_DRAIN_SWITCHES_H
#define CT_DRAIN_SWITCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_drain_thread;
struct ct_place;
struct ct_switches;

struct ct_switches_counts {
    uint64_t switches, lost; /* lost: records for which the kernel had no room */
};

#define CT_SWITCHES_WHY 256

/* Begins with all threads that the process has; it should be stopped. `limit`: bytes of each thread's files. When it
 * fails, `why` has one sentence with the remedy. */
int ct_switches_open(struct ct_switches **out, int pid, uint64_t limit, char why[CT_SWITCHES_WHY]);
/* Why no times are recorded after this errno, and what helps. The cause is NULL when it is unusual. */
struct ct_switches_refusal {
    const char *cause, *remedy;
};
struct ct_switches_refusal ct_switches_refusal(int error);
/* Tries what opening needs, on ourselves; nothing stays open. `whole`: for all threads of the machine, which saves
 * descriptors where a process has many threads. Returns 0 or an errno. */
int ct_switches_try(bool whole);
void ct_switches_close(struct ct_switches *s);
/* A thread has its directory now, in the place of its process. What fails is not recorded: events matter more. */
void ct_switches_begin_thread(struct ct_switches *s, struct ct_place *process, const struct ct_drain_thread *t);
void ct_switches_end_thread(struct ct_switches *s, const struct ct_drain_thread *t);
/* Takes what is there, `now_ns` being the beginning of the pass. True: there was much, the next pass should be soon. */
bool ct_switches_pass(struct ct_switches *s, uint64_t now_ns);
/* The counts may be read by any thread. */
struct ct_switches_counts ct_switches_counts(const struct ct_switches *s);

#endif

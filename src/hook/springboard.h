/* SPDX-License-Identifier: Apache-2.0 */
/* Room for springboards: jumps that the short jump at a function's entry reaches.
 *
 * Room is padding between functions, and what a hooked neighbour does not need of its own bytes: its first instructions
 * run in its stub, its entry is a jump, and nothing comes to the bytes after that jump any more. The neighbour is then
 * the springboard's host. A host keeps its jump as long as a springboard is in its bytes. Only the machines whose jumps
 * have several lengths implement this (springboard_<isa>.c). */
#ifndef CT_HOOK_SPRINGBOARD_H
#define CT_HOOK_SPRINGBOARD_H

#include "hook/scan.h"

/* How far from a function's entry its host's may be. */
#define CT_SPRINGBOARD_REACH 160u
/* Instructions that a host moves at most. */
#define CT_SPRINGBOARD_MOVES 12u

/* Finds the functions that have room for a short jump only, so that hosts near them make room. Without it they make
 * none. May be called once for a scan. */
int ct_springboards_prepare(struct ct_scan *scan);
void ct_springboards_free(struct ct_scan *scan);

/* How many springboards functions near this place may need. */
unsigned ct_springboards_wanted(const struct ct_scan *scan, uint64_t place);
/* How many bytes from `place` are to run elsewhere so that they have room for a jump and at most `count` springboards
 * after it; 0: there is no room. */
size_t ct_springboards_fit(const struct ct_scan *scan, uint64_t place, uint64_t end, unsigned count);

/* The bytes from `place` to `end` run elsewhere from now on, or do so no more. What is after the jump at `place` is, or
 * is not, room for springboards. */
void ct_springboards_offer(struct ct_scan *scan, uint64_t place, uint64_t end);
void ct_springboards_withdraw(struct ct_scan *scan, uint64_t place, uint64_t end);

/* May the function at this index have a springboard for another one, which is to get its first hook? */
bool ct_springboards_may_host(const struct ct_scan *scan, size_t index, uint64_t function, uint64_t end);

/* Takes room that a short jump ending at `next` reaches, in padding or in a host; 0: there is none. `host` receives the
 * host's start, 0 for padding. NULL: padding only. */
uint64_t ct_springboards_take(struct ct_scan *scan, uint64_t next, uint64_t *host);

/* The end of the bytes after a function that belong to nobody. */
uint64_t ct_springboards_padding_end(const struct ct_scan *scan, uint64_t function, uint64_t end);
/* The first instruction of a function after its landing pad. */
uint64_t ct_springboards_place(const struct ct_scan *scan, uint64_t function, uint64_t end);

#endif

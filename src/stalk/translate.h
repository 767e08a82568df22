/* SPDX-License-Identifier: Apache-2.0 */
/* From original code to translated code; excluded code and probes. */
#ifndef CT_STALK_TRANSLATE_H
#define CT_STALK_TRANSLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ct_stalker;
struct stalk_entry;
struct stalk_probe;
struct stalk_thread;

enum {
    STALK_MAX_INSNS = 128,
    STALK_MAX_EXITS = 48,
    STALK_MOST_ACROSS = 14, /* most bytes of an instruction in the next mapping */
};

/* Returns translated code for an address, trusted or checked now. NULL: it cannot be followed; *status says why
 * (CT_ERR_NOT_MAPPED: no code is there). */
struct stalk_entry *ct_stalk_obtain(struct stalk_thread *t, uint64_t address, int *status);
/* Translates the return site of a call before it is needed. */
void ct_stalk_translate_ahead(struct stalk_thread *t, uint64_t address);
/* Gives up every fragment whose original has changed. `others_run`: other threads run, and may unmap the original
 * meanwhile. */
void ct_stalk_check_all(struct ct_stalker *s, bool others_run);
bool ct_stalk_excluded(const struct ct_stalker *s, uint64_t address);
/* Index of the first range that begins after the address, not counting ours. */
uint32_t ct_stalk_excluded_after(const struct ct_stalker *s, uint64_t address);
/* Does a call of the target run natively? Excluded code does, and setjmp. */
bool ct_stalk_runs_natively(const struct ct_stalker *s, uint64_t target);
/* Has the user excluded code? */
bool ct_stalk_has_excluded(const struct ct_stalker *s);
int ct_stalk_probe_at(const struct ct_stalker *s, uint64_t address);
/* One user fewer: the last one calls `destroy`. */
void ct_stalk_probe_leave(struct stalk_probe *p);

/* ---- for transformers that decide about a whole block at once (the agent of scripts) ---- */

struct ct_stalker_iterator;
struct ct_stalker_writer;
/* The instructions that ct_stalker_iterator_next is going to give, at most `room`. Nothing is written. */
unsigned ct_stalk_preview(struct ct_stalker_iterator *iterator, uint64_t *addresses, uint8_t *lengths, unsigned room);
/* Writes a branch within the block, taken under a condition of the machine, or always (CT_STALK_ALWAYS). Returns where
 * it is, for ct_stalk_branch_here, which says that it leads to what is written next. */
#define CT_STALK_ALWAYS 16u
size_t ct_stalk_branch(struct ct_stalker_writer *writer, unsigned condition);
void ct_stalk_branch_here(struct ct_stalker_writer *writer, size_t branch);

#endif

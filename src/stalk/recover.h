/* SPDX-License-Identifier: Apache-2.0 */
/* What recover.c needs of a machine (recover_<isa>.c). */
#ifndef CT_STALK_RECOVER_H
#define CT_STALK_RECOVER_H

#include "stalk/signals.h"

struct stalk_fragment;

/* Simulates the instruction of ours at r->pc; false: it is not one of ours. */
bool ct_recover_step(struct stalk_thread *t, struct stalk_regs *r);
/* The code that stands for an instruction of the program, which begins at `piece`, did not get beyond r->pc: restores
 * what it had saved. */
void ct_recover_undo(struct stalk_thread *t, struct stalk_regs *r, uint64_t piece);
/* r->pc is at or in the copy of an instruction: registers that are elsewhere for several instructions become the
 * program's. */
void ct_recover_unit(struct stalk_thread *t, const struct stalk_fragment *f, struct stalk_regs *r);
/* Registers that are in the area now: all of them; those that may have changed on the way into the engine; those that
 * indirect branches use. */
enum stalk_saved { STALK_REGISTERS_SAVED, STALK_REGISTERS_CURRENT, STALK_REGISTERS_SCRATCH };
void ct_recover_saved(const struct stalk_thread *t, struct stalk_regs *r, enum stalk_saved which);
/* The call of a clone stub (link_<isa>.c), which the kernel may restart: returns its original address; 0: pc is
 * none. */
uint64_t ct_recover_cloning_call(uint64_t pc);
/* The thread was moved to the way out and has not run since: its registers become those that it had. */
void ct_recover_redirected(const struct stalk_thread *t, struct stalk_regs *r);
/* The registers are the program's now, if `place` is STALK_CLEAN. */
void ct_recover_done(const struct stalk_thread *t, struct stalk_regs *r, enum stalk_place place);

#endif

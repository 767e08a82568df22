/* SPDX-License-Identifier: Apache-2.0 */
/* Exclusive accesses, arm64. From a load-exclusive to its store-exclusive nothing of ours runs, because an access of
 * ours could make the store fail each time. Such a unit is part of one block, branches out of it included. If it names
 * x18, which is ours, another register has the program's x18 from before the unit to after it. */
#ifndef CT_STALK_UNIT_A64_H
#define CT_STALK_UNIT_A64_H

#include "stalk/build.h"

/* The end of the unit that begins with the load-exclusive at b->pc; 0: there is no store. */
uint64_t ct_unit_end_from(const struct stalk_build *b);
/* A load-exclusive is next: finds its unit, and writes what comes before it. False: the unit does not fit into the rest
 * of this fragment. */
bool ct_unit_begin(struct stalk_build *b);
/* The instruction as it is to be copied: with the register that has x18 within a unit. */
const struct stalk_insn *ct_unit_insn(const struct stalk_build *b, const struct stalk_insn *insn,
                                      struct stalk_insn *renamed);
/* Writes what leaves the unit, on a branch out of it and at its end. */
void ct_unit_leave(struct stalk_build *b);
/* The instruction was copied. */
void ct_unit_end(struct stalk_build *b, const struct stalk_insn *insn);

#endif

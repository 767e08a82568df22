/* SPDX-License-Identifier: Apache-2.0 */
/* Where the flags do not matter, x86_64 (flags_x64.c). Private to lowering and links. */
#ifndef CT_STALK_FLAGS_X64_H
#define CT_STALK_FLAGS_X64_H

#include "stalk/build.h"

/* Does the entry's code overwrite all flags before it reads any? False also where something of ours sees them. */
bool ct_flags_unused_by(const struct stalk_entry *e);
/* The same for the fragment that is begun. */
bool ct_flags_unused_here(struct stalk_build *b);
/* Follows the stack pointer through a block. */
void ct_flags_watch_stack(struct stalk_build *b, const struct stalk_insn *insn);
/* Has the block that returns now written its return address itself? */
static inline bool ct_flags_pushed_here(const struct stalk_build *b) {
    return b->stack_written >= b->stack_at;
}
/* A call that returns to this address is translated. */
void ct_flags_note_call(struct stalk_build *b, uint64_t address);
/* Do returns to this address use a slot in which ways in have to keep the flags? */
bool ct_flags_kept(const struct ct_stalker *s, uint64_t address);

#endif

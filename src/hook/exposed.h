/* SPDX-License-Identifier: Apache-2.0 */
/* Private to exposed*.c: how return addresses of observed frames are replaced on the stack, per machine.
 *
 * Owner: the block's thread, with signals blocked. Freestanding. */
#ifndef CT_HOOK_EXPOSED_H
#define CT_HOOK_EXPOSED_H

#include "hook/stacks.h"

/* ---- exposed.c ---- */

/* The oldest entry that may be hooked. */
struct ct_shadow *ct_exposed_first(const struct ct_block *b);
/* Does a walk that was interrupted, or `present` (NULL: none), need the real address of the frame at `slot`? */
bool ct_exposed_is_walked(struct ct_block *b, uint64_t slot, const struct ct_hook_walk *present);

/* ---- exposed_<isa>.c ---- */

/* Is the frame's return address, ours or the real one, where it must be? `low`: the frame's stack can be read from here
 * on; 0: the kernel is asked. */
enum ct_frame_look { CT_FRAME_GONE, CT_FRAME_THERE, CT_FRAME_UNREADABLE };
enum ct_frame_look ct_exposed_look(struct ct_block *b, const struct ct_shadow *e, uint64_t low);

/* Memory for a block whose shadow stack has this many entries. */
size_t ct_exposed_bytes(size_t entries);
void ct_exposed_place(struct ct_block *b, void *memory, size_t entries);
/* Puts real addresses in place of stubs', for frames with their slot in [sp, high); 0: all from `sp` on. */
void ct_exposed_put(struct ct_block *b, uint64_t sp, uint64_t high);
/* The other way round, where no walk needs the real ones. */
void ct_exposed_take(struct ct_block *b, uint64_t sp, uint64_t high, const struct ct_hook_walk *present);
/* The same for `count` of the frames below `end`. Returns the entry below which frames stay bare; NULL: none does. */
struct ct_shadow *ct_exposed_take_some(struct ct_block *b, struct ct_shadow *end, uint32_t count, uint64_t sp);

#endif

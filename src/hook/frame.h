/* SPDX-License-Identifier: Apache-2.0 */
/* Where frames keep their return addresses. Only the shared code and frame_<isa>.[ch] read and write them.
 *
 * A frame is named by its slot: a multiple of 8, lower for deeper frames of a stack, and the same for a function that
 * takes another's place by a tail call. On x86_64 the return address is there. On arm64 the slot is 8 below the stack
 * pointer at the entry: the return address is in a register then, the shared code keeps a copy in the slot while it
 * works, and later the address is where the function's prologue has put it.
 *
 * Declared below, or defined in the machine's header where speed counts:
 *   ct_frame_of_call      a function is about to begin at `slot`, in a slow path of its stub: where it will return to
 *   ct_frame_set_of_call  and where it is to return to instead
 *   ct_frame_of_return    the function at `slot` has just returned to a stub: the address that it has used
 *   ct_frame_is_taken     a function is about to begin at the slot of an open frame that returns to `address`, and
 *                         not by a tail call: is that frame dead?
 *   ct_frame_plain        a return address without its signature
 *   ct_frame_argument     where the shared code has saved argument n (0 to 5) of the function about to begin at `slot`
 *   ct_frame_slot         the slot of a frame whose return address was found at `place`, and whose caller has the stack
 *                         pointer `sp`
 * Freestanding. */
#ifndef CT_HOOK_FRAME_H
#define CT_HOOK_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "isa/host.h"
#include CT_HOST_HEADER(stub)
#include CT_HOST_HEADER(frame)

/* The end of what a walk along `count` frame pointers, from `frame` on, looks at. From `slot` to `top` is one stack. */
uint64_t ct_frame_chain_end(uint64_t slot, uint64_t frame, uint64_t top, uint32_t count);

/* Stores the low 8 bytes of the vector registers that pass floating-point numbers: 8 at a call, 2 at a return. The
 * runtime uses no vector register, so in a slow path they have the program's values still. */
void ct_frame_store_reals(uint64_t *to, bool returned);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Reads stubs, wherever they are: which instruction of a function is which of its copy.
 *
 * After a stub's body comes a table of moves: the offset in the function of the first instruction that was moved (a
 * landing pad stays), the number of instructions, and for each {8 bits: offset from there, 16 bits: offset of the copy
 * in the stub}, in order. The last may be the jump that leads back into the function. Freestanding: a handler's entry
 * reads its own process, the controller reads another one, whose bytes may say anything. */
#ifndef CT_HOOK_STUB_H
#define CT_HOOK_STUB_H

#include "hook/layout.h"
#include "isa/host.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include CT_HOST_HEADER(stub)

#define CT_STUB_MOVES_HEAD 2u
#define CT_STUB_MOVE_SIZE  3u
#define CT_STUB_SIZE_MAX   1024u

/* False: the memory cannot be read. */
typedef bool ct_stub_read(void *arg, uint64_t at, void *to, size_t size);

/* Is a stub there? (stub_<isa>.c) */
bool ct_stub_is_at(ct_stub_read *read, void *arg, uint64_t stub);
/* The stub that contains pc; 0: none. */
uint64_t ct_stub_around(ct_stub_read *read, void *arg, uint64_t pc);
/* The offset in the function of the patch that leads to the stub. */
uint64_t ct_stub_lead(ct_stub_read *read, void *arg, uint64_t stub);
/* The offset in the function of the instruction whose copy contains pc; UINT64_MAX: there is none. */
uint64_t ct_stub_original(ct_stub_read *read, void *arg, uint64_t stub, uint64_t pc);
/* The copy of the instruction at an offset in the function; 0: there is none. */
uint64_t ct_stub_copy(ct_stub_read *read, void *arg, uint64_t stub, uint64_t offset);

#endif

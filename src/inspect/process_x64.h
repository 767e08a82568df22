/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the stack walk for x86_64. S is the address of the slot that holds a frame's return
 * address. */
#ifndef CT_INSPECT_PROCESS_X64_H
#define CT_INSPECT_PROCESS_X64_H

#include "inspect/process.h"

enum { DWARF_RBX = 3, DWARF_RBP = 6, DWARF_RSP = 7, DWARF_PC = 16 };

void ct_walk_set(struct ct_walk *w, unsigned dwarf, uint64_t value);
/* Goes to the return address at S. */
bool ct_walk_return_through(struct ct_walk *w, uint64_t slot);

/* ---- what a function has pushed so far ---- */

struct ct_walk_prologue {
    uint64_t depth;     /* bytes that sp has moved down since the entry */
    bool whole;         /* the scan reached pc, so depth is exact */
    bool frame_pointer; /* rbp was set from sp */
    uint64_t saved[16]; /* by register: depth at which it was pushed; 0: not pushed */
    uint64_t rbp_depth; /* depth when rbp was set */
};
/* Scans from a function's entry up to pc, or to the first branch before it. */
void ct_walk_read_prologue(struct ct_walk *w, uint64_t entry, uint64_t pc, struct ct_walk_prologue *p);
/* Restores registers to their values at the entry, given S. */
void ct_walk_restore_saved(struct ct_walk *w, const struct ct_walk_prologue *p, uint64_t slot);

/* ---- the code that all stubs share (process_shared_x64.c) ---- */

/* Where S is, at one instruction of that code: this far above a register. */
struct ct_shared_state {
    uint8_t known;                /* bits of enum ct_shared_known */
    bool entering;                /* the stub's address is at S - 8 */
    int32_t rsp, rbx, rbp;        /* S - register */
    int32_t saved_rbx, saved_rbp; /* S - where the caller's value is saved */
};
enum ct_shared_known {
    CT_SHARED_REACHED = 1,
    CT_SHARED_RSP = 2,
    CT_SHARED_RBX = 4,
    CT_SHARED_RBP = 8,
    CT_SHARED_SAVED_RBX = 16,
    CT_SHARED_SAVED_RBP = 32,
};
/* Its two forms: in a process that hooks itself, and in a recorded one. */
enum { CT_SHARED_FORMS = 2 };
/* Our own copy, and its size. */
size_t ct_shared_code(unsigned form, const uint8_t **code);
/* By offset in that code; NULL: no instruction begins there. Computed once, from our own copy. */
const struct ct_shared_state *ct_shared_state_at(unsigned form, size_t offset);

#endif

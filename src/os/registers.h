/* SPDX-License-Identifier: Apache-2.0 */
/* The registers of a stopped thread, on any machine. Only registers_<isa>.c and other files for one machine know what
 * the words mean; all others use the accessors.
 *
 * A thread may be stopped in a system call, which the stop has interrupted. Then ct_registers_call_size is not 0, and
 * pc is the address of the instruction that made the call. When the thread resumes, the kernel makes it issue the call
 * again at pc. If a signal handler runs first and the call is of the kind that ends then, the thread continues at pc +
 * call_size. So both addresses are occupied. Such a thread may be moved onto a copy of the instruction (then the same
 * happens at the copy), or anywhere else (then it starts there, with the registers of the call). */
#ifndef CT_OS_REGISTERS_H
#define CT_OS_REGISTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough for any machine: 27 words on x86_64; on arm64 x0 to x30, sp, pc, pstate, thread register, system call,
 * block. */
enum { CT_REGISTERS_WORDS = 40 };

struct ct_registers {
    uint64_t words[CT_REGISTERS_WORDS];
};

/* An assignment may compile to a call of memcpy, which freestanding code does not have. */
static inline void ct_registers_copy(struct ct_registers *to, const struct ct_registers *from) {
    for (unsigned i = 0; i < CT_REGISTERS_WORDS; i++)
        to->words[i] = from->words[i];
}

uint64_t ct_registers_pc(const struct ct_registers *r);
/* The thread continues there. An interrupted system call moves with it. */
void ct_registers_set_pc(struct ct_registers *r, uint64_t pc);
/* The return address of a function that has not saved it; 0 on machines that have no register for it. */
uint64_t ct_registers_link(const struct ct_registers *r);
uint64_t ct_registers_sp(const struct ct_registers *r);
void ct_registers_set_sp(struct ct_registers *r, uint64_t sp);
/* Size of the instruction whose system call is interrupted; 0: no call is. */
uint64_t ct_registers_call_size(const struct ct_registers *r);
/* Cancels the system call that the thread is about to make or to repeat. */
void ct_registers_cancel_call(struct ct_registers *r);

/* The register through which the thread finds its thread-local storage (FS base, tpidr_el0); 0: not set yet. */
uint64_t ct_registers_thread_base(const struct ct_registers *r);
void ct_registers_set_thread_base(struct ct_registers *r, uint64_t base);
/* What ct_os_thread_pointer returns in that thread. `read` reads its memory, with `memory` as the first argument. */
typedef int ct_registers_read_memory(const void *memory, uint64_t address, void *bytes, size_t size);
uint64_t ct_registers_thread_pointer(const struct ct_registers *r, ct_registers_read_memory *read, const void *memory);

/* Where ct_os_set_block puts the thread's block (GS base; a word beside the thread pointer on arm64). The value may be
 * the program's own. */
uint64_t ct_registers_block(const struct ct_registers *r);
void ct_registers_set_block(struct ct_registers *r, uint64_t block);

/* Are the thread base and the block addresses that the kernel accepts? */
bool ct_registers_are_possible(const struct ct_registers *r);

#endif

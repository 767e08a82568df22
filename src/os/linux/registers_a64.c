/* SPDX-License-Identifier: Apache-2.0 */
/* Registers of stopped threads on arm64.
 *
 * The kernel steps back over the instruction of an interrupted system call before it stops the thread, so pc is the
 * instruction already. Which of the two it is, a call to be repeated or one to be made for the first time, does not
 * matter to who moves the thread. One that it has ended instead is repeated by us (interrupted_a64.h). */
#include "registers_a64.h"
#include "interrupted_a64.h"
#include "seize.h"
#include "syscall.h"

#include <linux/elf.h>
#include <linux/ptrace.h>
#include <linux/uio.h>

enum { REGISTERS_SIZE = 34 * 8 };

/* ---- accessors ---- */

/* Where a call is interrupted, nothing is known of it but its instruction, which is not read here. */
uint64_t ct_registers_call_size(const struct ct_registers *r) {
    (void)r;
    return 0;
}

void ct_registers_cancel_call(struct ct_registers *r) {
    ct_registers_as_a64(r)->call = UINT64_MAX;
}

uint64_t ct_registers_pc(const struct ct_registers *r) {
    return ct_registers_to_a64(r)->pc;
}

void ct_registers_set_pc(struct ct_registers *r, uint64_t pc) {
    ct_registers_as_a64(r)->pc = pc;
}

uint64_t ct_registers_link(const struct ct_registers *r) {
    return ct_registers_to_a64(r)->x[30];
}

uint64_t ct_registers_sp(const struct ct_registers *r) {
    return ct_registers_to_a64(r)->sp;
}

void ct_registers_set_sp(struct ct_registers *r, uint64_t sp) {
    ct_registers_as_a64(r)->sp = sp;
}

uint64_t ct_registers_thread_base(const struct ct_registers *r) {
    return ct_registers_to_a64(r)->tpidr;
}

void ct_registers_set_thread_base(struct ct_registers *r, uint64_t base) {
    ct_registers_as_a64(r)->tpidr = base;
}

uint64_t ct_registers_thread_pointer(const struct ct_registers *r, ct_registers_read_memory *read, const void *memory) {
    (void)read, (void)memory;
    return ct_registers_thread_base(r);
}

uint64_t ct_registers_block(const struct ct_registers *r) {
    return ct_registers_to_a64(r)->block;
}

void ct_registers_set_block(struct ct_registers *r, uint64_t block) {
    ct_registers_as_a64(r)->block = block;
}

bool ct_registers_are_possible(const struct ct_registers *r) {
    const struct ct_registers_a64 *a = ct_registers_to_a64(r);
    return a->tpidr < CT_ADDRESS_LIMIT && a->block < CT_ADDRESS_LIMIT;
}

/* ---- of a traced thread ---- */

static long regset(int request, int tid, int set, const void *bytes, size_t size) {
    struct iovec part = {(void *)(uintptr_t)bytes, size};
    return syscall4(__NR_ptrace, request, tid, set, &part);
}

/* A thread pointer that leads nowhere has no block. */
static void read_block(int tid, struct ct_registers_a64 *a) {
    a->block = 0;
    if (a->tpidr && failed(syscall4(__NR_ptrace, PTRACE_PEEKDATA, tid, a->tpidr + CT_BLOCK_WORD_A64, &a->block)))
        a->block = 0;
}

static long write_block(int tid, const struct ct_registers_a64 *a) {
    uint64_t now = 0;
    if (!a->tpidr)
        return 0;
    long result = syscall4(__NR_ptrace, PTRACE_PEEKDATA, tid, a->tpidr + CT_BLOCK_WORD_A64, &now);
    if (failed(result) || now == a->block)
        return a->block ? result : 0;
    return syscall4(__NR_ptrace, PTRACE_POKEDATA, tid, a->tpidr + CT_BLOCK_WORD_A64, a->block);
}

long ct_registers_read(int tid, struct ct_registers *r) {
    struct ct_registers_a64 *a = ct_registers_as_a64(r);
    int32_t call = -1;
    for (unsigned i = 0; i < CT_REGISTERS_WORDS; i++)
        r->words[i] = 0;
    long result = regset(PTRACE_GETREGSET, tid, NT_PRSTATUS, a, REGISTERS_SIZE);
    if (!failed(result))
        result = regset(PTRACE_GETREGSET, tid, NT_ARM_TLS, &a->tpidr, sizeof a->tpidr);
    if (!failed(result))
        result = regset(PTRACE_GETREGSET, tid, NT_ARM_SYSTEM_CALL, &call, sizeof call);
    a->call = (uint64_t)(int64_t)call;
    if (!failed(result))
        read_block(tid, a);
    return result == -EINVAL ? -ENOSYS : result; /* a kernel without one of these sets */
}

/* The place of the thread last: until then it goes on where it was, which is right as long as its block is there. */
long ct_registers_write(int tid, const struct ct_registers *r) {
    const struct ct_registers_a64 *a = ct_registers_to_a64(r);
    int32_t call = (int32_t)a->call;
    long result = regset(PTRACE_SETREGSET, tid, NT_ARM_TLS, &a->tpidr, sizeof a->tpidr);
    if (!failed(result))
        result = write_block(tid, a);
    if (!failed(result))
        result = regset(PTRACE_SETREGSET, tid, NT_ARM_SYSTEM_CALL, &call, sizeof call);
    return failed(result) ? result : regset(PTRACE_SETREGSET, tid, NT_PRSTATUS, a, REGISTERS_SIZE);
}

int ct_seize_read_registers(struct seize_thread *thread) {
    long result = ct_registers_read(thread->tid, &thread->regs);
    uint64_t pc = ct_registers_pc(&thread->regs);
    thread->repeats &= pc == ct_registers_pc(&thread->original); /* one that was moved begins elsewhere */
    if (!failed(result) && ct_interrupted_undo(thread, ct_registers_as_a64(&thread->regs))) {
        result = regset(PTRACE_SETREGSET, thread->tid, NT_PRSTATUS, &thread->regs, REGISTERS_SIZE);
        thread->repeats = ct_registers_pc(&thread->regs) != pc;
    }
    ct_registers_copy(&thread->original, &thread->regs);
    return status_of(result);
}

void ct_seize_look_before(int pid, struct seize_thread *thread) {
    ct_interrupted_note(pid, thread);
}

void ct_seize_look_again(const struct seize_thread *thread) {
    struct ct_registers_a64 now;
    if (thread->repeats && !failed(regset(PTRACE_GETREGSET, thread->tid, NT_PRSTATUS, &now, REGISTERS_SIZE)) &&
        now.pc == ct_registers_to_a64(&thread->original)->pc && ct_interrupted_redo(thread->tid, &now))
        (void)regset(PTRACE_SETREGSET, thread->tid, NT_PRSTATUS, &now, REGISTERS_SIZE);
}

int ct_seize_write_registers(const struct seize_set *set, const struct seize_thread *thread) {
    const struct ct_registers_a64 *now = ct_registers_to_a64(&thread->regs);
    struct ct_registers fresh;
    struct ct_registers_a64 *a = ct_registers_as_a64(&fresh);
    (void)set;
    long result = ct_registers_read(thread->tid, &fresh);
    if (failed(result))
        return status_of(result);
    if (now->pc != ct_registers_to_a64(&thread->original)->pc)
        a->pc = now->pc;
    a->sp = now->sp;
    a->x[18] = now->x[18]; /* of followed threads (stalk/link_a64.c) */
    a->tpidr = now->tpidr;
    a->block = now->block;
    return status_of(ct_registers_write(thread->tid, &fresh));
}

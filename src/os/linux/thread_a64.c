/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread on Linux/arm64. */
#include "os/thread.h"
#include "os/os.h"
#include "registers_a64.h"
#include "signal_frame_a64.h"
#include "syscall.h"

#include <linux/fcntl.h>

uint64_t ct_os_thread_pointer(void) {
    uint64_t value;
    __asm__ volatile("mrs %0, tpidr_el0" : "=r"(value));
    return value;
}

void ct_os_set_thread_pointer(uint64_t value) {
    __asm__ volatile("msr tpidr_el0, %0" : : "r"(value) : "memory");
}

bool ct_os_has_thread_pointer(void) {
    return ct_os_thread_pointer() != 0;
}

/* The word beside what the thread pointer points to, which libraries leave alone. */
static uint64_t *block_word(void) {
    return (uint64_t *)(ct_os_thread_pointer() + CT_BLOCK_WORD_A64);
}

int ct_os_set_block(void *block) {
    if (!ct_os_has_thread_pointer())
        return CT_ERR_SYSTEM;
    *block_word() = (uint64_t)block;
    return CT_OK;
}

uint64_t ct_os_get_block(void) {
    return ct_os_has_thread_pointer() ? *block_word() : 0;
}

void *ct_os_block(void) {
    return ct_os_has_thread_pointer() ? (void *)*block_word() : NULL;
}

bool ct_os_inherits_block(void) {
    return false;
}

/* The creator has made the memory for the thread: it is writable. */
void ct_os_forget_block(uint64_t thread_pointer) {
    if (thread_pointer && !(thread_pointer & 7) && thread_pointer < CT_ADDRESS_LIMIT)
        *(uint64_t *)(thread_pointer + CT_BLOCK_WORD_A64) = 0;
}

/* There is no such call, and no register that it could take. */
bool ct_os_sets_bases(uint64_t call) {
    (void)call;
    return false;
}

bool ct_os_takes_block(uint64_t code) {
    (void)code;
    return false;
}

bool ct_os_has_gsbase(void) {
    return false;
}

/* ---- longjmp ---- */

static uint64_t jump_guard;

/* glibc takes its secret from the random bytes that the kernel gives a program, after those of another secret. musl has
 * none. */
void ct_os_learn_jumps(void) {
    enum { ENTRIES = 64, RANDOM = 25, GUARD = 8 };
    uint64_t vector[2 * ENTRIES];
    long fd = syscall4(__NR_openat, AT_FDCWD, "/proc/self/auxv", O_RDONLY | O_CLOEXEC, 0);
    if (failed(fd))
        return;
    long size = syscall3(__NR_read, fd, vector, sizeof vector);
    (void)syscall1(__NR_close, fd);
    for (long i = 0; !failed(size) && i + 1 < size / (long)sizeof *vector; i += 2)
        if (vector[i] == RANDOM)
            (void)ct_os_peek(vector[i + 1] + GUARD, &jump_guard, sizeof jump_guard);
}

static bool is_near(uint64_t a, uint64_t b) {
    return a - b + (64u << 20) < 128u << 20;
}

/* glibc and musl have the same layout; only glibc scrambles the stack pointer. It is never above the frame pointer of
 * the function that called setjmp. Where it is not known, that one does: all frames that are left are below it. */
uint64_t ct_os_jump_target(uint64_t jump_buffer) {
    enum { FP = 10, SP = 13 };
    const uint64_t *words = (const uint64_t *)jump_buffer;
    uint64_t fp = words[FP], plain = words[SP], clear = words[SP] ^ jump_guard;
    if (is_near(clear, fp) && !(clear & 15))
        return clear;
    return is_near(plain, fp) && !(plain & 15) ? plain : fp;
}

bool ct_os_signal_frame_at(uint64_t at, uint64_t end, struct ct_os_signal_frame *frame) {
    uint64_t *words = (uint64_t *)at;
    if (end - at < CT_FRAME_A64_RECORDS + 8 || !ct_frame_a64_is(words))
        return false;
    frame->pc = words + CT_FRAME_A64_PC / 8;
    frame->sp = words[CT_FRAME_A64_SP / 8];
    return true;
}

void ct_os_relax(void) {
    __asm__ volatile("yield");
}

/* q0 to q31, fpsr and fpcr. What SVE adds to the registers is not saved: no call keeps it. */
bool ct_os_vectors(struct ct_vectors *vectors) {
    vectors->size = 32 * 16 + 16;
    vectors->parts = 0;
    return true;
}

uint64_t ct_os_timestamp(void) {
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
}

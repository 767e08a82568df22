/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread on Linux/arm64. */
#include "os/thread.h"
#include "os/os.h"
#include "registers_a64.h"
#include "syscall.h"

uint64_t ct_os_thread_pointer(void) {
    uint64_t value;
    __asm__ volatile("mrs %0, tpidr_el0" : "=r"(value));
    return value;
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

/* Not known yet: libraries keep the stack pointer in different places. 0: nothing is known. */
uint64_t ct_os_jump_target(uint64_t jump_buffer) {
    (void)jump_buffer;
    return 0;
}

/* Frames of handlers are not found yet. */
bool ct_os_signal_frame_at(uint64_t at, uint64_t end, struct ct_os_signal_frame *frame) {
    (void)at, (void)end, (void)frame;
    return false;
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

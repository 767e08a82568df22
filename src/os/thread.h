/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread, for slow paths: signal mask, thread pointer, the register that holds its block. Raw system calls
 * and registers only; see os.h. */
#ifndef CT_OS_THREAD_H
#define CT_OS_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/* From now on we make no system calls in this process: it has asked the kernel to kill it for one (seccomp). Functions
 * that need a call do nothing, or fail; signals are no longer blocked. This cannot be undone. */
void ct_os_go_silent(void);
bool ct_os_is_silent(void);

/* Blocks every signal; returns the mask to restore. */
uint64_t ct_os_block_signals(void);
void ct_os_restore_signals(uint64_t mask);

/* A value that differs from thread to thread, read without a system call (fs:0 on x86_64, tpidr_el0 on arm64). */
uint64_t ct_os_thread_pointer(void);
void ct_os_set_thread_pointer(uint64_t value); /* arm64 */
/* A static program has none until it sets one up; then nothing can be read. */
bool ct_os_has_thread_pointer(void);

/* The register that we use for the address of the thread's block (GS base). The block holds its own address at
 * CT_OS_BLOCK_SELF. In threads without a block the register is 0. */
#define CT_OS_BLOCK_SELF 0x1110
int ct_os_set_block(void *block);
uint64_t ct_os_get_block(void); /* a system call */
void *ct_os_block(void);        /* one instruction; faults if there is no block */
/* Does a new thread begin with its creator's block (x86_64)? Otherwise the block belongs to the thread pointer (arm64,
 * where it is in memory beside what the pointer points to), and ct_os_block returns NULL where there is none. */
bool ct_os_inherits_block(void);
/* A thread that begins with this thread pointer finds no block: what lies there is of an ended thread, or of
 * anybody. */
void ct_os_forget_block(uint64_t thread_pointer);
/* Is this the system call that sets such registers (arch_prctl)? And with this first argument, does it set ours? */
bool ct_os_sets_bases(uint64_t call);
bool ct_os_takes_block(uint64_t code);
/* May programs read that register with an instruction (rdgsbase)? */
bool ct_os_has_gsbase(void);

/* The stack pointer that longjmp sets from this jmp_buf. Makes no system call: the program may have forbidden it. */
uint64_t ct_os_jump_target(uint64_t jump_buffer);
/* Finds out what the function above needs to know. */
void ct_os_learn_jumps(void);

/* The signal stack that the thread runs on right now. False: it runs on another stack. */
bool ct_os_on_signal_stack(uint64_t *low, uint64_t *high);

/* The kernel's struct sigaction. */
struct ct_os_action {
    uint64_t handler, flags, restorer, mask;
};
/* rt_sigaction; either may be NULL. 0: success. */
int ct_os_signal_action(int signal, const struct ct_os_action *action, struct ct_os_action *old);
/* Sends the calling thread a signal as it has come: with its siginfo. */
void ct_os_signal_again(int signal, const void *info);

/* The frame of a signal handler that has not returned: where the interrupted code continues. */
struct ct_os_signal_frame {
    uint64_t *pc; /* may be changed */
    uint64_t sp;
};
/* Does such a frame begin at this stack address (where the handler's return address is)? `end` is the end of the
 * stack. */
bool ct_os_signal_frame_at(uint64_t at, uint64_t end, struct ct_os_signal_frame *frame);

/* Name of the calling thread (at most 15 bytes); "": unknown. */
void ct_os_thread_name(char name[16]);

void ct_os_sleep_us(unsigned microseconds);
/* Sleeps with all signals blocked: signals that arrive meanwhile are handled afterwards. */
void ct_os_sleep_masked_us(unsigned microseconds);
/* Wakes all threads that wait for the word, in other processes too (a futex). */
void ct_os_wake(uint32_t *word);
/* Waits until that happens, if the word has this value; at most this long. */
void ct_os_wait(uint32_t *word, uint32_t value, unsigned microseconds);
/* One iteration of a spin loop. */
void ct_os_relax(void);

/* The vector state that C code can change (x87, SSE, AVX, AVX-512): how many bytes it takes to save, and which parts,
 * as the machine numbers them. */
struct ct_vectors {
    uint64_t size, parts;
};
/* False: the machine cannot save it. */
bool ct_os_vectors(struct ct_vectors *vectors);

uint64_t ct_os_timestamp(void);   /* CPU counter */
uint64_t ct_os_nanoseconds(void); /* monotonic */

#endif

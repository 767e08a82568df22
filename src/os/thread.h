/* The calling thread as slow paths see it: signal mask, thread pointer, the register that holds its block.
 * Raw system calls and registers only; see os.h. */
#ifndef CT_OS_THREAD_H
#define CT_OS_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/* From now on this process must make no system call of ours: it has asked the kernel to kill it for one (seccomp). Functions
 * that need one do nothing, or fail; signals are no longer blocked. There is no way back. */
void ct_os_go_silent(void);
bool ct_os_is_silent(void);

/* Blocks every signal; returns the mask to restore. */
uint64_t ct_os_block_signals(void);
void ct_os_restore_signals(uint64_t mask);

/* Value that tells threads apart without a system call (fs:0 on x86_64, tpidr_el0 on arm64). */
uint64_t ct_os_thread_pointer(void);
/* A static program has none before it has made one: then there is nothing to be read. */
bool ct_os_has_thread_pointer(void);

/* The register that belongs to us (GS base): where the thread's block is. The block holds its own address at
 * CT_OS_BLOCK_SELF. Threads that nobody gave a block have 0. */
#define CT_OS_BLOCK_SELF 0x1110
int ct_os_set_block(void *block);
uint64_t ct_os_get_block(void); /* a system call */
void *ct_os_block(void);        /* one instruction; faults when there is none */
/* Is this the system call that sets such registers (arch_prctl); and does it, with this first argument, set the one
 * that is ours? */
bool ct_os_sets_bases(uint64_t call);
bool ct_os_takes_block(uint64_t code);
/* May programs read that register by an instruction (rdgsbase)? */
bool ct_os_has_gsbase(void);

/* Where longjmp with this jmp_buf goes: the stack pointer. No system call: the program may have forbidden it. */
uint64_t ct_os_jump_target(uint64_t jump_buffer);

/* The signal stack that the thread runs on right now. False: it runs on another stack. */
bool ct_os_on_signal_stack(uint64_t *low, uint64_t *high);

/* The kernel's struct sigaction. */
struct ct_os_action {
    uint64_t handler, flags, restorer, mask;
};
/* rt_sigaction; either may be NULL. 0: done. */
int ct_os_signal_action(int signal, const struct ct_os_action *action, struct ct_os_action *old);

/* The frame of a signal handler that has not returned: where the interrupted code goes on. */
struct ct_os_signal_frame {
    uint64_t *pc; /* may be changed */
    uint64_t sp;
};
/* Does such a frame begin at this stack address (where the handler's return address is)? `end` is the stack's. */
bool ct_os_signal_frame_at(uint64_t at, uint64_t end, struct ct_os_signal_frame *frame);

/* Name of the calling thread (at most 15 bytes), "" when it cannot be told. */
void ct_os_thread_name(char name[16]);

void ct_os_sleep_us(unsigned microseconds);
/* The same with all signals blocked: those that come meanwhile are handled when it is over. */
void ct_os_sleep_masked_us(unsigned microseconds);
/* Wakes whoever waits for the word, in other processes too (a futex). */
void ct_os_wake(uint32_t *word);
/* One iteration of a spin loop. */
void ct_os_relax(void);

/* What there is to save of the vector state that code written in C can change (x87, SSE, AVX, AVX-512): how many bytes,
 * and which parts, in the machine's own terms. */
struct ct_vectors {
    uint64_t size, parts;
};
/* False: the machine cannot save it. */
bool ct_os_vectors(struct ct_vectors *vectors);

uint64_t ct_os_timestamp(void);   /* CPU counter */
uint64_t ct_os_nanoseconds(void); /* monotonic */

#endif

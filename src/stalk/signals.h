/* SPDX-License-Identifier: Apache-2.0 */
/* Signals of followed threads, and the program's registers where one was interrupted. */
#ifndef CT_STALK_SIGNALS_H
#define CT_STALK_SIGNALS_H

#include "stalk/area.h"
#include <stdbool.h>
#include <stdint.h>

struct stalk_thread;

enum { STALK_SIGNALS = 65 };

struct stalk_action { /* the kernel's struct sigaction */
    uint64_t handler, flags, restorer, mask;
};

struct stalk_regs {
    uint64_t gpr[STALK_REGISTERS], pc, flags;
};
enum stalk_place { STALK_ELSEWHERE, STALK_CLEAN, STALK_LATER };
/* Turns the registers of the thread, interrupted at regs->pc (by a fault of that instruction if `fault`), into those of
 * the program. ELSEWHERE: it is not in translated code, nothing changed; LATER: it is in the engine. */
enum stalk_place ct_stalk_recover(struct stalk_thread *t, struct stalk_regs *regs, bool fault);

/* One more thread is followed: replaces the program's handlers. One thread fewer: the last one restores them. Called
 * once each for every thread, of all Stalkers. */
void ct_stalk_signals_take(void);
/* Not 0: all threads are stopped, and the handlers were replaced already; taking them once more looks at none. */
extern uint32_t ct_stalk_signals_taken;
/* The process has one thread, and ct_stalk_signals_begin() will be called there before any of its code runs: handlers
 * can be replaced then, without a controller that sees each system call. */
extern bool ct_stalk_signals_may_wait;
void ct_stalk_signals_begin(void);
void ct_stalk_signals_give_back(void);
/* Is a thread restoring the handlers? A thread that takes them waits for this, so the former must not be stopped. */
bool ct_stalk_signals_going_back(void);
/* Are the program's actions in our table? */
bool ct_stalk_signals_kept(void);
/* The child of a fork has one followed thread. */
void ct_stalk_signals_in_child(void);
/* All signals are blocked; *mask is the mask before that. */
struct stalk_way {
    uint64_t to;       /* 0: back to the kernel */
    uint64_t natively; /* not 0: natively, with *mask */
};
struct stalk_way ct_stalk_on_signal(uint64_t signal, void *info, void *context, uint64_t *mask);
/* Number of threads that are in ct_stalk_on_signal or in ct_stalk_child. */
extern uint32_t ct_stalk_underway;
/* The program's rt_sigaction. */
int64_t ct_stalk_sigaction(uint64_t signal, const struct stalk_action *new, struct stalk_action *old);
/* rt_sigaction of the child of a vfork. The child has actions of its own, but the memory in which we keep them is its
 * parent's. */
int64_t ct_stalk_sigaction_vforked(uint64_t signal, const struct stalk_action *new, struct stalk_action *old);
/* The program's rt_sigreturn: the program counter in the frame becomes one of translated code. */
void ct_stalk_sigreturn(struct stalk_thread *t);
/* Called in the engine: checks whether the thread has left the alternate signal stack. */
void ct_stalk_check_alternate(struct stalk_thread *t);
/* The thread was about to call rt_sigreturn in translated code, and does not after all: restores the program's state in
 * the frame. */
void ct_stalk_sigreturn_undo(struct stalk_thread *t, const struct stalk_regs *regs);

#endif

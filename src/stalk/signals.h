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
/* Registers of the thread, interrupted at regs->pc (by a fault of that instruction if `fault`), become those of the
 * program. ELSEWHERE: not in translated code, nothing changed; LATER: in the engine. */
enum stalk_place ct_stalk_recover(struct stalk_thread *t, struct stalk_regs *regs, bool fault);

/* One more thread is followed: handlers that are there now are replaced. One less: the last one puts them back. Once
 * each for every thread, of all Stalkers. */
void ct_stalk_signals_take(void);
void ct_stalk_signals_give_back(void);
/* A thread puts them back: one that takes them waits for it, so it must not be stopped. */
bool ct_stalk_signals_going_back(void);
/* The child of a fork has one followed thread. */
void ct_stalk_signals_in_child(void);
/* Everything is blocked; *mask is what was before. */
struct stalk_way {
    uint64_t to;       /* 0: back to the kernel */
    uint64_t natively; /* not 0: with *mask */
};
struct stalk_way ct_stalk_on_signal(uint64_t signal, void *info, void *context, uint64_t *mask);
/* Threads that are in there, or in ct_stalk_child. */
extern uint32_t ct_stalk_underway;
/* rt_sigaction of the program. */
int64_t ct_stalk_sigaction(uint64_t signal, const struct stalk_action *new, struct stalk_action *old);
/* rt_sigaction of a vfork's child, which has actions of its own but not the memory that we know them in. */
int64_t ct_stalk_sigaction_vforked(uint64_t signal, const struct stalk_action *new, struct stalk_action *old);
/* rt_sigreturn: the frame's program counter becomes one of translated code. */
void ct_stalk_sigreturn(struct stalk_thread *t, uint64_t frame);
/* In the engine: has the thread left the alternate signal stack? */
void ct_stalk_check_alternate(struct stalk_thread *t);
/* The thread does not make the call in translated code after all: where it was about to, the frame is the program's
 * again. */
void ct_stalk_sigreturn_undo(struct stalk_thread *t, const struct stalk_regs *regs);

#endif

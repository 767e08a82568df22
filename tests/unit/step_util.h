/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that deliver a signal at every instruction: a traced thread is taken to the n-th instruction of a window of
 * code that it runs again and again. The first time it is stepped and each instruction noted; later a debug register
 * stops it where it is wanted, which is hundreds of times faster; where there are none, it is stepped each time. */
#ifndef STEP_UTIL_H
#define STEP_UTIL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct step_window {
    uint64_t end;  /* where the thread stops by itself when the window is over: the address after a breakpoint */
    uint64_t *pcs; /* its instructions, as they were run */
    int length;
};

uint64_t step_pc(pid_t tid);
/* Steps to the window's end, and notes what is on the way. */
void step_through(struct step_window *w, pid_t tid);
/* To the k-th instruction, which has not run yet. False: the window was over before. */
bool step_to(const struct step_window *w, pid_t tid, int k);
/* A pushf that was stepped over has saved the trap flag; popf brings it back, and the thread would go on step by
 * step. */
void step_clear_trap_flag(pid_t tid);
void step_free(struct step_window *w);

struct step_course {
    uint64_t begin, end;              /* addresses of breakpoints around the window */
    volatile long *done;              /* of the child: set when every instruction has had its signal */
    int (*stride)(int k, int length); /* from the k-th instruction to the next that gets one */
};
/* The parent of a child that runs the window again and again: SIGUSR1 at one instruction of it after the other. Returns
 * the child's exit code, 1 when it died. */
int step_run(const struct step_course *course, pid_t pid);

#endif

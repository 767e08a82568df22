/* SPDX-License-Identifier: Apache-2.0 */
/* See step_util.h. */
#include "step_util.h"
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

uint64_t step_pc(pid_t tid) {
    struct user_regs_struct regs = {0};
    ptrace(PTRACE_GETREGS, tid, NULL, &regs);
    return regs.rip;
}

void step_clear_trap_flag(pid_t tid) {
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) != 0 || !(regs.eflags & 0x100))
        return;
    regs.eflags &= ~0x100ull;
    ptrace(PTRACE_SETREGS, tid, NULL, &regs);
}

/* False: it is at the window's end, or gone. */
static bool go_on(const struct step_window *w, pid_t tid, int how) {
    int status;
    return ptrace(how, tid, NULL, NULL) == 0 && waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status) &&
           step_pc(tid) != w->end;
}

void step_through(struct step_window *w, pid_t tid) {
    int room = 0;
    w->length = 0;
    do {
        if (w->length == room) {
            room = room ? 2 * room : 1024;
            w->pcs = realloc(w->pcs, (size_t)room * sizeof *w->pcs);
            if (!w->pcs)
                abort();
        }
        w->pcs[w->length++] = step_pc(tid);
    } while (go_on(w, tid, PTRACE_SINGLESTEP));
}

static bool set_register(pid_t tid, unsigned number, uint64_t value) {
    return ptrace(PTRACE_POKEUSER, tid, offsetof(struct user, u_debugreg) + 8 * number, value) == 0;
}

/* How often the k-th instruction is met up to there. */
static int occurrences(const struct step_window *w, int k) {
    int count = 0;
    for (int i = 1; i <= k; i++)
        count += w->pcs[i] == w->pcs[k];
    return count;
}

bool step_to(const struct step_window *w, pid_t tid, int k) {
    bool there = true;
    if (k <= 0)
        return k == 0;
    if (k < w->length && set_register(tid, 0, w->pcs[k]) && set_register(tid, 7, 1)) {
        step_clear_trap_flag(tid);
        for (int n = occurrences(w, k); there && n > 0; n--)
            there = go_on(w, tid, PTRACE_CONT);
        set_register(tid, 7, 0);
        return there;
    }
    for (int i = 0; there && i < k; i++)
        there = go_on(w, tid, PTRACE_SINGLESTEP);
    return there;
}

void step_free(struct step_window *w) {
    free(w->pcs);
    w->pcs = NULL;
    w->length = 0;
}

int step_run(const struct step_course *course, pid_t pid) {
    struct step_window w = {.end = course->end + 1};
    for (int k = -2;;) { /* -2: warming up, -1: measuring */
        int status;
        if (waitpid(pid, &status, 0) < 0)
            return 1;
        if (!WIFSTOPPED(status)) {
            if (WIFSIGNALED(status))
                printf("died of signal %d at instruction %d\n", WTERMSIG(status), k);
            step_free(&w);
            return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        }
        long deliver = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        if (!deliver && step_pc(pid) == course->begin + 1) {
            if (k == -1) {
                step_through(&w, pid);
                printf("%d instructions, ", w.length);
                fflush(stdout);
            } else if (k >= 0 && k < w.length) {
                deliver = step_to(&w, pid, k) ? SIGUSR1 : 0; /* the way may be shorter this time */
            } else if (k >= 0) {
                ptrace(PTRACE_POKEDATA, pid, course->done, (void *)1L);
            }
            k += k < 0 ? 1 : course->stride(k, w.length);
        }
        step_clear_trap_flag(pid);
        ptrace(PTRACE_CONT, pid, NULL, (void *)deliver);
    }
}

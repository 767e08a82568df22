/* SPDX-License-Identifier: Apache-2.0 */
/* A signal at every instruction of the stubs.
 *
 * A child runs a small call tree in a window between two breakpoints, again and again. Its parent lets it run k
 * instructions into the k-th window, one by one, and delivers a signal there, whose handler calls hooked functions of
 * its own. So the signal hits each instruction of the window once: of the program, of the stubs, of the engine's slow
 * paths. At the end the child compares what was recorded: each window must hold its whole tree and the handler's,
 * properly nested, wherever it was hit.
 *
 * The windows are of several kinds: the handler returns; it returns after so many calls that the event buffer was
 * handed over in between; it leaves by siglongjmp, to a hooked frame or to one below all hooked ones (then the tree is
 * cut, but what there is of it is consistent and closed); and the window is a thread's first hooked call. */
#include "harness.h"
#include "../unit/step_util.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { RETURNS, FILLS, JUMPS, JUMPS_AT_TOP, FIRST_CALL, KINDS };

#define FILLING       1000 /* calls that take several event buffers */
#define BUFFER_EVENTS 256

__asm__(".text\n"
        ".balign 16\n"
        "window_begin: int3\n ret\n"
        ".balign 16\n"
        "window_end: int3\n ret\n"
        ".balign 16\n"
        ".type tail, @function\n"
        "tail:\n"
        "  inc %edi\n"
        "  nop\n"
        "  nop\n"
        "  nop\n"
        "  jmp leaf\n"
        ".size tail, . - tail\n"
        ".balign 16\n"
        ".type leaf, @function\n"
        "leaf:\n"
        "  lea 1(%rdi), %eax\n"
        "  nop\n"
        "  nop\n"
        "  ret\n"
        ".size leaf, . - leaf\n"
        ".balign 16\n"
        ".type who, @function\n"
        "who:\n" /* looks at its return address: recorded on entry only */
        "  mov (%rsp), %rax\n"
        "  nop\n"
        "  nop\n"
        "  ret\n"
        ".size who, . - who\n");
void window_begin(void), window_end(void);
int leaf(int), tail(int);
void *who(void);

static E2E_FN int outer(int x) {
    int a = leaf(x);
    void *here = who();
    int b = tail(a);
    E2E_BARRIER();
    return here ? a + b : -1;
}

static volatile long done, missed; /* poked by the parent; windows that took another way than the measured one */
static volatile sig_atomic_t armed, hit;
static sigjmp_buf out;
static int handler_calls = 1;

/* What became of each window. */
#define MAX_WINDOWS 20000
static struct {
    int tid;
    bool hit;
} outcomes[MAX_WINDOWS];

static E2E_FN int handler_leaf(int x) {
    E2E_BARRIER();
    return x * 3;
}

static E2E_FN void handler(int number) {
    hit++;
    for (int i = 0; i < handler_calls; i++)
        if (handler_leaf(number) != number * 3)
            e2e_fail(__FILE__, __LINE__, "wrong result in the handler");
    if (armed)
        siglongjmp(out, 1);
}

static E2E_FN int mark(int window) {
    E2E_BARRIER();
    return window;
}

/* ---- the child ---- */

static void run_window(enum kind kind) {
    int result = 0;
    window_begin();
    if (kind == JUMPS || kind == JUMPS_AT_TOP) {
        if (sigsetjmp(out, 1) == 0) {
            armed = 1;
            result = outer(5);
            armed = 0;
        } else {
            armed = 0;
            result = 14;
        }
    } else {
        result = outer(5);
    }
    window_end();
    E2E_EQUAL(result, 14);
}

static E2E_FN void frame(enum kind kind) {
    run_window(kind);
    E2E_BARRIER();
}

static void *thread_window(void *arg) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    run_window(FIRST_CALL);
    outcomes[*(int *)arg].tid = e2e_gettid();
    return NULL;
}

/* Everything but the handler's part must be `whole`. */
static void check_complete(const char *window, int number, bool was_hit) {
    static const char whole[] = "outer(leaf()who;tail(leaf()))";
    char text[512], inserted[64];
    snprintf(inserted, sizeof inserted, handler_calls > 1 ? "handler(handler_leaf()*%d)" : "handler(handler_leaf())",
             handler_calls);
    size_t size = 0;
    for (const char *p = window; *p && size < sizeof text - 1; p++)
        if (*p != ' ')
            text[size++] = *p;
    text[size] = 0;
    char *at = strstr(text, inserted);
    if (at)
        memmove(at, at + strlen(inserted), strlen(at + strlen(inserted)) + 1);
    bool unseen = e2e_listening() && !at; /* it interrupted a listener, and was guarded as the listener is */
    if (((at != NULL) != was_hit && !unseen) || strcmp(text, whole) != 0)
        e2e_fail(__FILE__, __LINE__, "signal at instruction %d: %s", number, window);
}

/* The handler's part is there; the rest is a beginning of the whole, closed and well nested. */
static void check_cut(const char *window, int number) {
    bool unseen = e2e_listening() && !strstr(window, "handler");
    if (strchr(window, '<') || strchr(window, '?') || (!unseen && !strstr(window, "handler(handler_leaf())")))
        e2e_fail(__FILE__, __LINE__, "signal and jump at instruction %d: %s", number, window);
}

/* Windows are separated by calls of mark(). */
static void check_windows(enum kind kind, int windows) {
    char *text = strdup(e2e_tree(0));
    char *at = text;
    for (int i = 0; i < windows; i++) {
        char *end = strstr(at, "mark()");
        if (!end) {
            e2e_fail(__FILE__, __LINE__, "window %d is missing", i);
            break;
        }
        end[0] = 0;
        bool was_hit = outcomes[i].hit;
        char *close = strrchr(at, ')');
        if (kind == JUMPS && close && strstr(at, "frame(")) { /* what is inside */
            *close = 0;
            at = strstr(at, "frame(") + strlen("frame(");
        }
        if ((kind == JUMPS || kind == JUMPS_AT_TOP) && was_hit)
            check_cut(at, i);
        else
            check_complete(at, i, was_hit);
        at = end + strlen("mark()");
    }
    free(text);
}

static int child(enum kind kind) {
    int windows = 0;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigaction(SIGUSR1, &action, NULL);
    E2E_RECORD(outer);
    E2E_RECORD(leaf);
    E2E_RECORD(tail);
    E2E_RECORD(who);
    E2E_RECORD(handler);
    E2E_RECORD(handler_leaf);
    E2E_RECORD(mark);
    E2E_RECORD(frame);
    E2E_EQUAL(outer(5), 14);
    E2E_EXPECT("outer(leaf() who; tail(leaf()))");
    handler_calls = kind == FILLS ? FILLING : 1;
    if (kind != FIRST_CALL)
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    while (!done && windows < MAX_WINDOWS) {
        pthread_t thread;
        int hit_before = hit;
        if (kind == FIRST_CALL) {
            pthread_create(&thread, NULL, thread_window, &windows);
            pthread_join(thread, NULL);
        } else {
            if (kind == JUMPS)
                frame(kind);
            else
                run_window(kind);
            mark(windows);
        }
        outcomes[windows++].hit = hit != hit_before;
    }
    printf("%d signals, %d missed\n", (int)hit, (int)missed);
    E2E_EQUAL(hit, windows - 3 - missed); /* all but the first two, which are measured, and the last */
    E2E_CHECK(missed < hit);
    E2E_CHECK(hit > 20);
    if (e2e_plain())
        return e2e_end();
    if (kind != FIRST_CALL)
        check_windows(kind, windows);
    for (int i = 0; kind == FIRST_CALL && i < windows; i++)
        check_complete(e2e_tree(outcomes[i].tid), i, outcomes[i].hit);
    struct ct_hooks_statistics s = {.size = sizeof s};
    ct_hooks_statistics(e2e_hooks, &s);
    E2E_CHECK(s.abandoned <= (kind == JUMPS || kind == JUMPS_AT_TOP ? (uint64_t)windows : 0));
    return e2e_end();
}

/* ---- the parent ---- */

/* Where a window is so long that a signal at every instruction would take minutes (a listener that saves all vector
 * registers, the making of a thread's buffers), every n-th must do: CONTRAIL_TEST_STEPS of them. */
static int stride_for(int length) {
    const char *text = getenv("CONTRAIL_TEST_STEPS");
    int steps = text ? atoi(text) : 250;
    printf("%d instructions, ", length);
    fflush(stdout);
    return length < 800 || steps <= 0 ? 1 : length / steps | 1;
}

static int parent(pid_t pid) {
    struct step_window w = {.end = (uint64_t)(uintptr_t)window_end + 1};
    int stride = 0;
    long misses = 0;
    for (int k = -2;;) { /* -2: warming up, -1: measuring */
        int status;
        pid_t tid = waitpid(-1, &status, __WALL);
        if (tid < 0)
            return errno == ECHILD ? 1 : 0;
        if (!WIFSTOPPED(status)) {
            if (tid != pid)
                continue;
            if (WIFSIGNALED(status))
                fprintf(stderr, "the child died of signal %d at window %d\n", WTERMSIG(status), k);
            return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        }
        uint64_t pc = WSTOPSIG(status) == SIGTRAP ? step_pc(tid) : 0;
        long deliver = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        if (pc == (uint64_t)(uintptr_t)window_begin + 1) {
            if (k == -1) {
                step_through(&w, tid);
                stride = stride_for(w.length);
            } else if (k >= 0 && k < w.length) {
                if (step_to(&w, tid, k))
                    deliver = SIGUSR1;
                else
                    ptrace(PTRACE_POKEDATA, tid, &missed, (void *)++misses);
            } else if (k >= 0) {
                ptrace(PTRACE_POKEDATA, tid, &done, (void *)1L);
            }
            k += k < 0 ? 1 : stride;
        }
        step_clear_trap_flag(tid);
        ptrace(PTRACE_CONT, tid, NULL, (void *)deliver);
    }
}

static int run(enum kind kind, int argc, char **argv) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        e2e_begin_with(argc, argv, NULL, BUFFER_EVENTS);
        e2e_allow_unnested(); /* an interrupted frame counts as open before its listener has heard of it */
        int status = child(kind);
        fflush(stdout);
        _exit(status);
    }
    return parent(pid);
}

int main(int argc, char **argv) {
    int failed = 0;
    int only = -1; /* --kind=N: for looking into one of them */
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--kind=", 7) == 0)
            only = atoi(argv[i] + 7);
    for (int kind = RETURNS; kind < KINDS; kind++) {
        if (only >= 0 && kind != only)
            continue;
        static const char *const names[] = {"handler returns", "handler fills the buffer", "handler jumps",
                                            "handler jumps to the top", "first call of a thread"};
        printf("%s: ", names[kind]);
        failed |= run((enum kind)kind, argc, argv);
    }
    return failed;
}

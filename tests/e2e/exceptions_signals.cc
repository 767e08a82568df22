/* SPDX-License-Identifier: Apache-2.0 */
/* Signals in the middle of an exception's way: the unwinder is interrupted where it asks a frame's personality, while
 * it looks for the handler and again while it unwinds. The signal's handler calls hooked functions, throws and catches
 * itself, walks the stack, or jumps away from it all; on the thread's stack and on one of its own. Then the interrupted
 * exception goes on.
 *
 * An engine can go wrong here because both need to see the stack as it is without hooks, and the first one that is
 * finished puts the hooks back under the other. */
#include "harness.h"
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <execinfo.h>
#include <string>
#include <sys/time.h>
#include <unwind.h>

#define FN extern "C" E2E_FN __attribute__((visibility("hidden")))

enum action { NOTHING, CALLS, THROWS, WALKS, WALKS_TWICE, ALL, JUMPS, ACTIONS };
static volatile enum action action;
static volatile bool nested; /* the handler's own exception is interrupted too */
static sigjmp_buf out;
static int walked;

FN void note(int x) {
    (void)x;
    E2E_BARRIER();
}

/* A frame whose personality is ours. */
__asm__(".text\n"
        ".balign 16\n"
        ".type via, @function\n"
        "via:\n"
#ifdef __x86_64__
        "  .cfi_startproc\n"
        "  .cfi_personality 0x1b, on_frame\n"
        "  sub $8, %rsp\n"
        "  .cfi_adjust_cfa_offset 8\n"
        "  call *%rdi\n"
        "  add $8, %rsp\n"
        "  .cfi_adjust_cfa_offset -8\n"
        "  ret\n"
#else
        "  .cfi_startproc\n"
        "  .cfi_personality 0x1b, on_frame\n"
        "  stp x29, x30, [sp, #-16]!\n"
        "  .cfi_adjust_cfa_offset 16\n"
        "  .cfi_rel_offset 29, 0\n"
        "  .cfi_rel_offset 30, 8\n"
        "  blr x0\n"
        "  ldp x29, x30, [sp], #16\n"
        "  .cfi_adjust_cfa_offset -16\n"
        "  .cfi_restore 29\n"
        "  .cfi_restore 30\n"
        "  ret\n"
#endif
        "  .cfi_endproc\n"
        ".size via, . - via\n");
extern "C" void via(void (*f)());

extern "C" __attribute__((visibility("hidden"), used)) _Unwind_Reason_Code
on_frame(int, _Unwind_Action, _Unwind_Exception_Class, struct _Unwind_Exception *, struct _Unwind_Context *) {
    raise(SIGUSR1);
    return _URC_CONTINUE_UNWIND;
}

struct guard {
    ~guard() {
        note(1);
    }
};

FN void thrower() {
    throw 1;
}

FN void inner() {
    guard g;
    thrower();
    E2E_BARRIER();
}

FN void middle() {
    guard g;
    via(inner);
    E2E_BARRIER();
}

FN int catcher() {
    try {
        middle();
    } catch (int value) {
        return value;
    }
    return 0;
}

FN void other_thrower() {
    throw 'c';
}

FN void other_inner() {
    guard g;
    other_thrower();
    E2E_BARRIER();
}

FN int other_catcher() {
    try {
        if (nested)
            via(other_inner);
        else
            other_inner();
    } catch (char value) {
        return value;
    }
    return 0;
}

FN void walker() {
    void *frames[256];
    walked = backtrace(frames, 256);
    E2E_BARRIER();
}

FN void act(enum action what) {
    if (what == THROWS || what == ALL)
        E2E_EQUAL(other_catcher(), 'c');
    if (what == WALKS || what == WALKS_TWICE || what == ALL)
        walker();
    if (what == WALKS_TWICE)
        walker();
    if (what == CALLS || what == ALL)
        note(2);
    E2E_BARRIER();
}

FN void on_signal(int number) {
    (void)number;
    enum action what = action;
    if (nested) { /* once more, inside the handler's exception */
        static volatile int depth;
        depth = depth + 1;
        act(depth == 1 ? THROWS : what);
        depth = depth - 1;
    } else {
        act(what);
    }
    if (what == JUMPS)
        siglongjmp(out, 1);
}

FN int jumped_to() {
    if (sigsetjmp(out, 1))
        return 5;
    return catcher();
}

static void handle(int flags) {
    struct sigaction handler;
    memset(&handler, 0, sizeof handler);
    handler.sa_handler = on_signal;
    handler.sa_flags = flags | SA_NODEFER;
    sigaction(SIGUSR1, &handler, nullptr);
}

/* What the handler does, as a tree; the same in both phases. */
static const char *const trees[ACTIONS] = {
    "act()",         "act(note())",     "act(other_catcher(other_inner(other_thrower! note())!))",
    "act(walker())", "act(walker()*2)", "act(other_catcher(other_inner(other_thrower! note())!) walker() note())",
    "act()",
};

static void expect(const std::string &handled) {
    std::string s = "on_signal(" + handled + ")";
    E2E_EXPECT(("catcher(middle(inner(thrower(" + s + ")! note() " + s + ")! note())!)").c_str());
}

static void check_actions() {
    for (int i = NOTHING; i < JUMPS; i++) {
        action = static_cast<enum action>(i);
        for (int again = 0; again < 3; again++) {
            walked = -1;
            E2E_EQUAL(catcher(), 1);
            expect(trees[i]);
            if (action == WALKS && !(walked > 8))
                e2e_fail(__FILE__, __LINE__, "%d frames from the handler", walked);
        }
    }
    action = JUMPS;
    for (int again = 0; again < 3; again++) {
        E2E_EQUAL(jumped_to(), 5);
        E2E_EXPECT("jumped_to(catcher(middle(inner(thrower(on_signal(act())!)!)!)!)!)");
    }
}

static void check_nested() {
    nested = true;
    action = CALLS;
    for (int again = 0; again < 3; again++) {
        E2E_EQUAL(catcher(), 1);
        std::string s = "on_signal(act(note()))";
        expect("act(other_catcher(other_inner(other_thrower(" + s + ")! note() " + s + ")!))");
    }
    action = WALKS;
    for (int again = 0; again < 3; again++) {
        E2E_EQUAL(catcher(), 1);
        std::string s = "on_signal(act(walker()))";
        expect("act(other_catcher(other_inner(other_thrower(" + s + ")! note() " + s + ")!))");
    }
    nested = false;
}

/* At moments that nobody chose. The handler only calls: an unwinder or allocator that is interrupted anywhere cannot be
 * entered again, hooks or not. */
static void check_timer() {
    struct sigaction handler;
    memset(&handler, 0, sizeof handler);
    handler.sa_handler = on_signal;
    handler.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &handler, nullptr);
    action = CALLS;
    struct sigaction ignored;
    memset(&ignored, 0, sizeof ignored);
    ignored.sa_handler = SIG_IGN;
    sigaction(SIGUSR1, &ignored, nullptr);
    struct itimerval timer = {{0, 700}, {0, 700}};
    setitimer(ITIMER_REAL, &timer, nullptr);
    for (int i = 0; i < 500; i++)
        E2E_EQUAL(catcher(), 1);
    timer = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, nullptr);
    struct e2e_summary s = e2e_summarize(0);
    if (!e2e_plain())
        E2E_EQUAL(s.open + s.unpaired, 0);
    e2e_forget();
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    void *loaded[4];
    backtrace(loaded, 4); /* loads the unwinder */
    E2E_RECORD(note);
    E2E_RECORD(thrower);
    E2E_RECORD(inner);
    E2E_RECORD(middle);
    E2E_RECORD(catcher);
    E2E_RECORD(other_thrower);
    E2E_RECORD(other_inner);
    E2E_RECORD(other_catcher);
    E2E_RECORD(walker);
    E2E_RECORD(act);
    E2E_RECORD(on_signal);
    E2E_RECORD(jumped_to);
    static char stack[128 << 10];
    stack_t alternate;
    memset(&alternate, 0, sizeof alternate);
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    sigaltstack(&alternate, nullptr);
    handle(0);
    check_actions();
    check_nested();
    handle(SA_ONSTACK);
    check_actions();
    check_nested();
    check_timer();
    return e2e_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of faults, as runtimes of languages have them: they look at the program counter in the signal frame, whether
 * it is in their own code, and go on elsewhere, or let the instruction run again, or leave it out. The faults happen in
 * the first instructions of functions, which is where a recorder moves them from, and at the end of the stack, at every
 * distance from it. Also what the program can ask of its handlers. Everything is done twice: before and after
 * wait_for_end(). */
#include "zoo.h"
#include "machine.h"
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

ZOO_GATES

enum { PAGE = 4096, SIGNAL_STACK = 64 * 1024 };
/* STACK: not less than what threads must have at the least. */
#ifdef __x86_64__
enum { STACK = 32 * 1024 };
enum { LOAD_SIZE = 3, ILLEGAL_SIZE = 2, RET_SIZE = 1 };
#else
enum { STACK = 128 * 1024 };
enum { LOAD_SIZE = 4, ILLEGAL_SIZE = 4, RET_SIZE = 4 };
#endif
enum { LOADS_SECOND = LOAD_SIZE, LOADS_THIRD = 2 * LOAD_SIZE };

/* loads(p, q): **p + *q, by three loads of the same size; where a handler may go instead: -1.
 * illegal(): a first instruction that is none.
 * guarded(f): calls f; 0, or 1 when the handler went to guarded_landing instead. */
__asm__(".text\n"
        ".globl loads, loads_failed, loads_end, illegal, guarded, guarded_landing, guarded_sp\n"
        ".type loads, @function\n.type illegal, @function\n.type guarded, @function\n"
        ".balign 16\n"
        "loads:\n"
        "  .cfi_startproc\n"
#ifdef __x86_64__
        "  mov (%rdi), %rax\n"
        "  mov (%rax), %rax\n"
        "  add (%rsi), %rax\n"
        "  ret\n"
        "loads_failed:\n"
        "  mov $-1, %rax\n"
        "  ret\n"
#else
        "  ldr x2, [x0]\n"
        "  ldr x2, [x2]\n"
        "  ldr x3, [x1]\n"
        "  add x0, x2, x3\n"
        "  ret\n"
        "loads_failed:\n"
        "  mov x0, #-1\n"
        "  ret\n"
#endif
        "loads_end:\n"
        "  .cfi_endproc\n"
        ".size loads, . - loads\n"
        ".balign 16\n"
        "illegal:\n"
        "  .cfi_startproc\n"
#ifdef __x86_64__
        "  ud2\n"
        "  mov $7, %eax\n"
#else
        "  udf #0\n"
        "  mov w0, #7\n"
#endif
        "  ret\n"
        "  .cfi_endproc\n"
        ".size illegal, . - illegal\n"
        ".balign 16\n"
        "guarded:\n"
        "  .cfi_startproc\n"
#ifdef __x86_64__
        "  push %rbx\n  push %rbp\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  sub $8, %rsp\n"
        "  mov %rsp, guarded_sp(%rip)\n"
        "  call *%rdi\n"
        "  xor %eax, %eax\n"
        "  jmp 1f\n"
        "guarded_landing:\n"
        "  mov $1, %eax\n"
        "1:\n"
        "  add $8, %rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbp\n  pop %rbx\n"
#else
        "  stp x29, x30, [sp, #-96]!\n"
        "  stp x19, x20, [sp, #16]\n  stp x21, x22, [sp, #32]\n  stp x23, x24, [sp, #48]\n"
        "  stp x25, x26, [sp, #64]\n  stp x27, x28, [sp, #80]\n"
        "  adrp x1, guarded_sp\n"
        "  mov x2, sp\n"
        "  str x2, [x1, :lo12:guarded_sp]\n"
        "  blr x0\n"
        "  mov w0, #0\n"
        "  b 1f\n"
        "guarded_landing:\n"
        "  mov w0, #1\n"
        "1:\n"
        "  ldp x19, x20, [sp, #16]\n  ldp x21, x22, [sp, #32]\n  ldp x23, x24, [sp, #48]\n"
        "  ldp x25, x26, [sp, #64]\n  ldp x27, x28, [sp, #80]\n"
        "  ldp x29, x30, [sp], #96\n"
#endif
        "  ret\n"
        "  .cfi_endproc\n"
        ".size guarded, . - guarded\n"
        ".bss\n.balign 8\nguarded_sp: .skip 8\n.text\n");
long loads(long *const *p, const long *q);
int illegal(void);
int guarded(void (*f)(void));
extern const char loads_failed[], loads_end[], guarded_landing[];
extern uint64_t guarded_sp;

enum wish { ELSEWHERE, AGAIN, SKIP };
static volatile enum wish wish;
static volatile uint64_t seen_pc, seen_address, seen_sp, seen_argument;
static volatile int handled;
static char *page;

static void resume(ucontext_t *u, enum wish how) {
    if (how == ELSEWHERE)
        CONTEXT_PC(u) = (uintptr_t)loads_failed;
    else if (how == SKIP)
        CONTEXT_PC(u) += LOAD_SIZE;
    else
        mprotect(page, PAGE, PROT_READ | PROT_WRITE);
#ifdef __aarch64__
    if (how == SKIP && CONTEXT_PC(u) > (uintptr_t)loads + LOADS_THIRD)
        u->uc_mcontext.regs[3] = 0; /* nothing is added */
#endif
}

static FN void on_fault(int number, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    handled++;
    CHECK(number == SIGSEGV);
    seen_pc = (uint64_t)CONTEXT_PC(u);
    seen_sp = (uint64_t)CONTEXT_SP(u);
    seen_argument = (uint64_t)CONTEXT_ARGUMENT(u);
    seen_address = (uint64_t)info->si_addr;
    resume(u, wish);
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action, old;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    CHECK(sigaction(number, &action, NULL) == 0);
    CHECK(sigaction(number, NULL, &old) == 0);
    CHECK(old.sa_sigaction == handler && (old.sa_flags & (SA_SIGINFO | flags)) == (SA_SIGINFO | flags));
}

/* ---- the first instructions ---- */

static FN long fault_at(unsigned offset, enum wish how) {
    long *pointer = (long *)page;
    long one = 1;
    long *const *first = offset == 0 ? (long *const *)page : (long *const *)&pointer;
    const long *second = &one;
    if (offset == LOADS_THIRD) {
        pointer = &one;
        second = (long *)page;
    }
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
    *(long **)page = (long *)page;
    mprotect(page, PAGE, PROT_NONE);
    wish = how;
    handled = 0;
    seen_pc = 0;
    long result = loads(first, second);
    CHECK(handled == 1);
    CHECK(seen_pc == (uint64_t)loads + offset);
    CHECK(seen_address == (uint64_t)page);
    CHECK(seen_argument == (uint64_t)first);
    return result;
}

static FN void first_instructions(void) {
    long self = (long)page;
    CHECK(fault_at(0, ELSEWHERE) == -1);
    CHECK(fault_at(LOADS_SECOND, ELSEWHERE) == -1);
    CHECK(fault_at(LOADS_THIRD, ELSEWHERE) == -1);
    CHECK(fault_at(0, AGAIN) == self + 1);
    CHECK(fault_at(LOADS_SECOND, AGAIN) == self + 1);
    CHECK(fault_at(LOADS_THIRD, AGAIN) == self + 1);
    CHECK(fault_at(LOADS_SECOND, SKIP) == self + 1); /* rax is still what the first one has read */
    CHECK(fault_at(LOADS_THIRD, SKIP) == 1);
}

static FN void on_illegal(int number, siginfo_t *info, void *context) {
    handled++;
    CHECK(number == SIGILL);
    CHECK((uint64_t)CONTEXT_PC(context) == (uint64_t)illegal && info->si_addr == (void *)illegal);
    CONTEXT_PC(context) += ILLEGAL_SIZE;
}

static FN void illegal_instruction(void) {
    handled = 0;
    CHECK(illegal() == 7);
    CHECK(handled == 1);
}

/* ---- the end of the stack ---- */

static volatile unsigned offset, depth;

static FN unsigned deeper(unsigned n) {
    BARRIER();
    depth = n;
    unsigned result = n == UINT_MAX ? 0 : deeper(n + 1);
    BARRIER();
    return result + n;
}

/* What OCaml's runtime does. */
static FN void on_stack_end(int number, siginfo_t *info, void *context) {
    uint64_t pc = (uint64_t)CONTEXT_PC(context), sp = (uint64_t)CONTEXT_SP(context), address = (uint64_t)info->si_addr;
    bool own = pc >= (uint64_t)deeper && pc < (uint64_t)deeper + 256,
         near_sp = address < sp + 64 && address + 256 >= sp;
    handled++;
    if (number != SIGSEGV || !own || !near_sp) {
        fprintf(stderr, "fault at %#lx (deeper is at %p), address %#lx, sp %#lx\n", pc, (void *)deeper, address, sp);
        _exit(3);
    }
    CONTEXT_PC(context) = (uintptr_t)guarded_landing;
    CONTEXT_SP(context) = guarded_sp;
}

static FN void descend(void) {
    volatile char room[offset + 1];
    room[0] = 1;
    deeper(0);
    CHECK(room[0] == 1);
}

static void *on_small_stack(void *arg) {
    stack_t signals = {.ss_sp = arg, .ss_size = SIGNAL_STACK};
    CHECK(sigaltstack(&signals, NULL) == 0);
    for (offset = 0; offset < 384; offset += 16) {
        handled = 0;
        CHECK(guarded(descend) == 1);
        CHECK(handled == 1 && depth > 100);
    }
    return NULL;
}

static FN void stack_ends(void) {
    static char signals[SIGNAL_STACK];
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, STACK) == 0);
    CHECK(pthread_create(&thread, &attributes, on_small_stack, signals) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* ---- what the program can ask ---- */

static FN void plain(int number) {
    handled += number;
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

static FN void on_nested(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    handled++;
    if ((char *)info->si_addr == page) {
        wish = AGAIN;
        CHECK(loads((long *const *)(page + PAGE), (long *)page) == 0); /* a fault in the handler of one */
        mprotect(page, PAGE, PROT_READ | PROT_WRITE);
    } else {
        CONTEXT_PC(context) = (uintptr_t)loads_end - RET_SIZE;
        CONTEXT_RESULT(context) = 0;
    }
}

static FN void actions(void) {
    struct sigaction old;
    long value = 5, *pointer = (long *)page;
    CHECK(signal(SIGSEGV, plain) == (void (*)(int))(void *)on_fault);
    CHECK(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_handler == plain && !(old.sa_flags & SA_SIGINFO));
    mprotect(page, PAGE, PROT_NONE);
    handled = 0;
    CHECK(loads((long *const *)&pointer, &value) == (long)page + 5 && handled == SIGSEGV);
    handle(SIGSEGV, on_nested, SA_NODEFER);
    mprotect(page, PAGE, PROT_NONE);
    handled = 0;
    CHECK(loads((long *const *)&pointer, &value) == (long)page + 5 && handled == 2);
    handle(SIGSEGV, on_fault, SA_RESETHAND);
    CHECK(fault_at(LOADS_SECOND, AGAIN) == (long)page + 1);
    CHECK(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(signal(SIGSEGV, SIG_IGN) == SIG_DFL && signal(SIGSEGV, SIG_DFL) == SIG_IGN);
    handle(SIGSEGV, on_fault, SA_ONSTACK);
}

static FN void in_child(void) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        CHECK(fault_at(LOADS_SECOND, AGAIN) == (long)page + 1);
        CHECK(signal(SIGSEGV, SIG_DFL) == (void (*)(int))(void *)on_fault);
        _exit(zoo_failures != 0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(fault_at(0, AGAIN) == (long)page + 1);
}

static FN void everything(void) {
    first_instructions();
    illegal_instruction();
    actions();
    in_child();
    handle(SIGSEGV, on_stack_end, SA_ONSTACK);
    stack_ends();
    handle(SIGSEGV, on_fault, SA_ONSTACK);
}

int main(void) {
    page = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    handle(SIGSEGV, on_fault, SA_ONSTACK);
    handle(SIGILL, on_illegal, 0);
    wait_for_start();
    everything();
    wait_for_end();
    everything();
    printf("%d wrong\n", zoo_failures);
    return zoo_failures != 0;
}

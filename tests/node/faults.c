/* SPDX-License-Identifier: Apache-2.0 */
/* Faults in many ways, for faults.js: faults WAY. It prints the same with a script that only looks. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __GLIBC__
enum { GLIBC = 1 };
#else
enum { GLIBC = 0 }; /* musl does not say what the restorer is */
#endif

#define KEEP static __attribute__((noinline))

static const int signals[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV};
enum { SIGNALS = sizeof signals / sizeof *signals };

/* ---- faults, each an instruction whose length a script knows ---- */

#ifdef __x86_64__

KEEP int read_at(const void *at) {
    int value = 7;
    __asm__ volatile("movl (%%rcx), %%eax" : "=a"(value) : "c"(at)); /* 2 bytes */
    return value;
}

KEEP void write_at(void *at) {
    __asm__ volatile("movl %%eax, (%%rcx)" : : "a"(5), "c"(at) : "memory"); /* 2 bytes */
}

KEEP int divide(int by) {
    int result = 1, rest = 0;
    __asm__ volatile("idivl %%ecx" : "+a"(result), "+d"(rest) : "c"(by)); /* 2 bytes */
    return result;
}

KEEP void use_nothing(void) {
    __asm__ volatile("ud2"); /* 2 bytes */
}

KEEP void stop_here(void) {
    __asm__ volatile("int3");
}

KEEP double half(const double *at) {
    double value = 3;
    __asm__ volatile("addsd (%%rcx), %0" : "+x"(value) : "c"(at)); /* 4 bytes */
    return value / 2;
}

#else

KEEP int read_at(const void *at) {
    register long value __asm__("x0") = 7;
    __asm__ volatile("ldr w0, [%1]" : "+r"(value) : "r"(at));
    return (int)value;
}

KEEP void write_at(void *at) {
    __asm__ volatile("str %w0, [%1]" : : "r"(5), "r"(at) : "memory");
}

/* Division has no fault: the signal is sent. */
KEEP int divide(int by) {
    register long pid __asm__("x0") = getpid(), tid __asm__("x1") = syscall(SYS_gettid);
    register long signal __asm__("x2") = SIGFPE, number __asm__("x8") = SYS_tgkill;
    __asm__ volatile("svc #0" : "+r"(pid) : "r"(tid), "r"(signal), "r"(number) : "memory");
    return (int)pid + by;
}

KEEP void use_nothing(void) {
    __asm__ volatile(".inst 0");
}

KEEP void stop_here(void) {
    __asm__ volatile("brk #0");
}

KEEP double half(const double *at) {
    double value = 3;
    __asm__ volatile("ldr %d0, [%1]" : "+w"(value) : "r"(at));
    return value / 2;
}

#endif

static char *beyond_the_end; /* of a file: SIGBUS */

static void make_file(void) {
    FILE *file = tmpfile();
    beyond_the_end = file ? mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0) : NULL;
}

static void fault(int signal) {
    switch (signal) {
    case SIGILL:
        use_nothing();
        break;
    case SIGTRAP:
        stop_here();
        break;
    case SIGABRT:
        raise(SIGABRT);
        break;
    case SIGBUS:
        printf("read %d beyond the end\n", read_at(beyond_the_end));
        break;
    case SIGFPE:
        printf("divided: %d\n", divide(0));
        break;
    default:
        printf("read %d\n", read_at((void *)0x10));
    }
}

/* ---- handlers ---- */

static sigjmp_buf back;
static volatile sig_atomic_t on_own_stack;

static void on_fault(int signal, siginfo_t *info, void *context) {
    stack_t stack;
    (void)context;
    sigaltstack(NULL, &stack);
    on_own_stack = (stack.ss_flags & SS_ONSTACK) != 0;
    printf("handler: %d, code %d, address %d\n", signal, info->si_code,
           signal == SIGSEGV ? (int)(long)info->si_addr : 0);
    siglongjmp(back, signal);
}

static void set_handler(int signal, int flags) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | flags};
    sigaction(signal, &action, NULL);
}

static void handled(void) {
    for (int i = 0; i < SIGNALS; i++) {
        set_handler(signals[i], 0);
        if (!sigsetjmp(back, 1))
            fault(signals[i]);
        printf("after %d\n", signals[i]);
    }
}

static void *on_alternate(void *unused) {
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536}, none = {.ss_flags = SS_DISABLE};
    (void)unused;
    sigaltstack(&stack, NULL);
    set_handler(SIGSEGV, SA_ONSTACK);
    if (!sigsetjmp(back, 1))
        fault(SIGSEGV);
    printf("on its own stack: %d\n", on_own_stack);
    sigaltstack(&none, NULL);
    free(stack.ss_sp);
    return NULL;
}

static void threads(void) {
    pthread_t thread;
    for (int i = 0; i < 3; i++) {
        pthread_create(&thread, NULL, on_alternate, NULL);
        pthread_join(thread, NULL);
    }
}

/* ---- what sigaction says ---- */

static void show(int signal, const char *when) {
    struct sigaction now;
    memset(&now, 0xee, sizeof now);
    sigaction(signal, NULL, &now);
    printf("%d %s: %s, flags 0x%x, blocks SIGTERM %d, restorer %d\n", signal, when,
           now.sa_handler == SIG_DFL      ? "default"
           : now.sa_handler == SIG_IGN    ? "ignored"
           : now.sa_sigaction == on_fault ? "ours"
                                          : "somebody's",
           (unsigned)now.sa_flags, sigismember(&now.sa_mask, SIGTERM), GLIBC && now.sa_restorer != NULL);
}

static void count_once(int signal) {
    (void)!write(1, "called once\n", 12);
    (void)signal;
    siglongjmp(back, 1);
}

static void actions(void) {
    struct sigaction once = {.sa_handler = count_once, .sa_flags = SA_RESETHAND | SA_NODEFER}, old;
    sigaddset(&once.sa_mask, SIGTERM);
    for (int i = 0; i < SIGNALS; i++) {
        show(signals[i], "first");
        set_handler(signals[i], SA_RESTART);
        show(signals[i], "set");
        signal(signals[i], SIG_IGN);
        show(signals[i], "ignored");
        signal(signals[i], SIG_DFL);
        show(signals[i], "back");
        sigaction(signals[i], &once, &old);
        printf("before: %d\n", old.sa_handler == SIG_DFL);
        show(signals[i], "once");
        if (!sigsetjmp(back, 1))
            fault(signals[i]);
        show(signals[i], "after once");
    }
}

/* ---- ends ---- */

static int ends_by(void (*way)(int), int argument) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        way(argument);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void children(void) {
    for (int i = 0; i < SIGNALS; i++)
        printf("a child ends by %d\n", ends_by(fault, signals[i]));
    printf("a program ends with %d\n", system("kill -SEGV $$; exit 3"));
}

static void with_blocked(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, NULL);
    fault(signal);
}

static void changes(void) {
    double one = 1;
    (void)one;
    printf("read %d\n", read_at((void *)0x10));
    write_at((void *)0x18);
    printf("divided: %d\n", divide(0));
    use_nothing();
    stop_here();
    printf("read %d beyond the end\n", read_at(beyond_the_end));
    raise(SIGABRT);
    printf("half is %g\n", half((const double *)0x20));
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : SIGSEGV;
    setvbuf(stdout, NULL, _IOLBF, 0);
    make_file();
    if (!strcmp(way, "handled"))
        handled();
    else if (!strcmp(way, "threads"))
        threads();
    else if (!strcmp(way, "actions"))
        actions();
    else if (!strcmp(way, "children"))
        children();
    else if (!strcmp(way, "blocked"))
        with_blocked(number);
    else if (!strcmp(way, "changes"))
        changes();
    else if (!strcmp(way, "wait"))
        for (puts("waiting"); getchar() == '.';)
            show(SIGFPE, "now");
    else if (!strcmp(way, "send"))
        kill(getpid(), number);
    else
        fault(number);
    puts("end");
    return 0;
}

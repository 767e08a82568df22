/* SPDX-License-Identifier: Apache-2.0 */
/* Ends in many ways, by argv[1]; argv[2] is a file into which it writes how often it has called step, per thread. What
 * it prints is the same untraced. For crashes.py. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, STEPS = 1000 };

struct counts { /* in the file */
    uint64_t steps[THREADS + 1];
    uint64_t tids[THREADS + 1];
};
static struct counts *counts;
static const char *counts_path;

__attribute__((noinline)) long step(int thread, long x) {
    counts->steps[thread]++;
    __asm__ volatile("" ::: "memory");
    return x + 1;
}

__attribute__((noinline)) void walk(int thread, int times) {
    long x = 0;
    counts->tids[thread] = (uint64_t)syscall(SYS_gettid);
    for (int i = 0; i < times; i++)
        x = step(thread, x);
}

static void open_counts(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    counts_path = path;
    if (fd < 0 || ftruncate(fd, 4096))
        exit(90);
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (counts == MAP_FAILED)
        exit(91);
}

/* ---- ends ---- */

static int *volatile nowhere = (int *)0x18;

__attribute__((noinline)) void fall(void) {
    *(volatile int *)nowhere = 1;
    __asm__ volatile("");
}

__attribute__((noinline)) void null(void) {
    walk(0, STEPS);
    fall();
    __asm__ volatile("");
}

__attribute__((noinline)) void bus(void) {
    char path[] = "/tmp/contrail-crashes-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    volatile char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    walk(0, STEPS);
    *at = 1; /* past the end of the file */
}

__attribute__((noinline)) void ill(void) {
    walk(0, STEPS);
#if defined __x86_64__
    __asm__ volatile("ud2");
#else
    __asm__ volatile("udf #0");
#endif
}

static volatile int zero;

__attribute__((noinline)) void fpe(void) {
    walk(0, STEPS);
    zero = 10 / zero;
}

__attribute__((noinline)) void aborts(void) {
    walk(0, STEPS);
    abort();
}

__attribute__((noinline)) long deeper(long n) {
    volatile char room[1000];
    room[0] = (char)n;
    long result = n < 0 ? 0 : deeper(n + 1) + room[0];
    __asm__ volatile("");
    return result;
}

__attribute__((noinline)) void overflow(void) {
    walk(0, STEPS);
    zero = (int)deeper(0);
}

__attribute__((noinline)) void killed(void) {
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        while (__atomic_load_n(&counts->steps[0], __ATOMIC_ACQUIRE) < STEPS)
            usleep(1000);
        usleep(20000);
        kill(parent, SIGKILL);
        _exit(0);
    }
    walk(0, STEPS);
    for (;;)
        pause();
}

__attribute__((noinline)) void terminated(void) {
    walk(0, STEPS);
    raise(SIGTERM);
    __asm__ volatile("");
}

/* ---- in a thread, a child, a library ---- */

static pthread_barrier_t barrier;

__attribute__((noinline)) void *worker(void *arg) {
    int number = (int)(intptr_t)arg;
    walk(number, STEPS + number);
    pthread_barrier_wait(&barrier);
    if (number == 5)
        fall();
    for (;;)
        pause();
    return NULL;
}

__attribute__((noinline)) void threads(void) {
    pthread_t thread;
    walk(0, STEPS);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (intptr_t i = 1; i <= THREADS; i++)
        pthread_create(&thread, NULL, worker, (void *)i);
    for (;;)
        pause();
}

__attribute__((noinline)) void child(void) {
    int status;
    walk(0, STEPS);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        walk(1, STEPS);
        fall();
    }
    if (waitpid(pid, &status, 0) != pid)
        exit(92);
    printf("child: signal %d, core %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : -1, WCOREDUMP(status) != 0);
}

__attribute__((noinline)) void library(void) {
    walk(0, STEPS);
    void *handle = dlopen("libcrashes.so", RTLD_NOW);
    void (*crash)(int) = handle ? (void (*)(int))dlsym(handle, "crash_in_library") : NULL;
    if (!crash)
        exit(93);
    crash(3);
    __asm__ volatile("");
}

/* ---- handled ---- */

static sigjmp_buf back;
static volatile int handled;

__attribute__((noinline)) void on_fault(int number) {
    handled += number == SIGSEGV;
    siglongjmp(back, 1);
}

static void jumps(void) {
    struct sigaction action = {.sa_handler = on_fault};
    sigaction(SIGSEGV, &action, NULL);
    for (volatile int i = 0; i < 50; i++)
        if (!sigsetjmp(back, 1)) {
            walk(0, 10);
            fall();
        }
    printf("handled %d\n", handled);
}

static char *guarded;

static void on_guard(int number, siginfo_t *info, void *context) {
    char here;
    (void)context;
    handled += number == SIGSEGV && info->si_addr == guarded + 8 && info->si_code == SEGV_ACCERR;
    stack_t stack;
    sigaltstack(NULL, &stack);
    handled += &here > (char *)stack.ss_sp && &here < (char *)stack.ss_sp + stack.ss_size;
    mprotect(guarded, 4096, PROT_READ | PROT_WRITE);
}

static void altstack(void) {
    static char room[1 << 16];
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    struct sigaction action = {.sa_sigaction = on_guard, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &action, NULL);
    guarded = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    walk(0, STEPS);
    guarded[8] = 'x';
    printf("handled %d, %c\n", handled, guarded[8]);
}

static void count(int number) {
    (void)number;
    handled++;
}

static const char *word = "0"; /* the third argument */

static void storm(void) {
    struct sigaction action = {.sa_handler = count};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = atoi(word); i > 0; i--)
        raise(SIGUSR1);
    printf("handled %d\n", handled);
}

/* Stopped and continued by a child that sees it as a shell would; calls that wait meanwhile. */
static void jobs(void) {
    struct sigaction action = {.sa_handler = count};
    struct epoll_event event;
    pid_t parent = getpid();
    sigset_t one;
    sigaction(SIGUSR2, &action, NULL);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigset_t both = one;
    sigaddset(&both, SIGUSR2);
    sigprocmask(SIG_BLOCK, &both, NULL);
    fflush(stdout);
    if (fork() == 0) {
        static const int signals[] = {SIGSTOP, SIGCONT, SIGUSR1, SIGCHLD, SIGWINCH};
        for (int i = 0; i < 5; i++) {
            usleep(20000);
            kill(parent, signals[i]);
        }
        usleep(20000);
        kill(parent, SIGUSR2);
        _exit(0);
    }
    int number = 0;
    sigwait(&one, &number);
    printf("waited for %d\n", number);
    int result = epoll_pwait(epoll_create1(0), &event, 1, 200000, &one); /* SIGUSR2 comes in it, at the earliest */
    printf("epoll %d, %s, handled %d\n", result, result < 0 ? strerror(errno) : "", handled);
    while (wait(NULL) < 0 && errno == EINTR)
        ;
}

/* Work until standard input ends, for tests that attach, detach and kill. Signals come all the time. */
static void serve(void) {
    struct sigaction action = {.sa_handler = count};
    sigaction(SIGUSR1, &action, NULL);
    puts("ready");
    fflush(stdout);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    for (int i = 1; !input.revents; i++) {
        walk(0, 10);
        raise(SIGUSR1);
        poll(&input, 1, 3);
        if (handled != i)
            exit(94);
    }
    printf("handled all\n");
}

static void executes(void) {
    walk(0, STEPS);
    fflush(stdout);
    for (int i = 0; i < 20; i++) /* as a shell goes through PATH */
        execl("/nowhere", "nowhere", NULL);
    walk(0, STEPS);
    char second[4096];
    snprintf(second, sizeof second, "%s_second", counts_path);
    execl("/proc/self/exe", "again", "null", second, NULL);
}

/* In its last instruction that a recorder moves it reads 0x18. */
#if defined __x86_64__
#define MOVED_CODE "  mov (%rdi), %rax\n  mov (%rax), %rax\n"
#define MOVED_FROM (&bad)
#else
#define MOVED_CODE "  ldr x0, [x0]\n"
#define MOVED_FROM ((long **)bad)
#endif
__asm__(".text\n.balign 16\n.globl moved_load\n.type moved_load, %function\n"
        "moved_load:\n.cfi_startproc\n" MOVED_CODE "  ret\n.cfi_endproc\n.size moved_load, . - moved_load\n");
long moved_load(long **p);

__attribute__((noinline)) void moved(void) {
    long *bad = (long *)0x18;
    walk(0, STEPS);
    printf("%ld\n", moved_load(MOVED_FROM));
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {{"moved", moved},     {"null", null},         {"bus", bus},           {"ill", ill},
                {"fpe", fpe},         {"abort", aborts},      {"overflow", overflow}, {"killed", killed},
                {"term", terminated}, {"threads", threads},   {"child", child},       {"library", library},
                {"jumps", jumps},     {"altstack", altstack}, {"storm", storm},       {"jobs", jobs},
                {"serve", serve},     {"exec", executes}};
    if (argc < 3)
        return 95;
    open_counts(argv[2]);
    word = argc > 3 ? argv[3] : word;
    printf("begin %s\n", argv[1]);
    fflush(stdout);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(ways[i].name, argv[1]))
            ways[i].run();
    return 7;
}

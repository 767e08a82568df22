/* SPDX-License-Identifier: Apache-2.0 */
/* A program to be scripted. It writes the addresses of its functions, then obeys lines of its standard input, and
 * answers each with a line. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define API __attribute__((noinline, used))

volatile int sink;

API static long add(long a, long b) {
    sink++;
    return a + b;
}

API static double scale(double x, double y) {
    sink++;
    return x * y;
}

API static long inner(long n) {
    sink++;
    return n + 1;
}

API static long outer(long n) {
    sink++;
    return inner(n) * 2;
}

API static long sum10(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j) {
    sink++;
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j;
}

API static int fail_with(int error) {
    errno = error;
    return -1;
}

static jmp_buf away;

API static long jump_away(long n) {
    sink++;
    if (n)
        longjmp(away, 1);
    return n;
}

API static long twin(long a, long b) { /* replaces add */
    sink++;
    return a * b;
}

/* As a linkage table is: memory that is only readable once the program runs. */
__attribute__((used)) static long (*const word)(long) = inner;

#ifdef __x86_64__
long through_word(long n);
__asm__(".text\n"
        ".type through_word, @function\n"
        "through_word: jmp *word(%rip)\n"
        ".size through_word, . - through_word\n");
#else
API static long through_word(long n) {
    long (*const volatile *at)(long) = &word;
    return (*at)(n);
}
#endif

static void print_addresses(void) {
    printf("add=%p scale=%p inner=%p outer=%p sum10=%p fail_with=%p jump_away=%p twin=%p errno=%p\n", (void *)add,
           (void *)scale, (void *)inner, (void *)outer, (void *)sum10, (void *)fail_with, (void *)jump_away,
           (void *)twin, (void *)__errno_location);
}

/* ---- commands ---- */

static volatile long rounds, wrong;

static void *keep_adding(void *arg) {
    long base = (long)arg;
    for (long i = 0; i < rounds; i++)
        if (add(base, i) != base + i || outer(i) != 2 * i + 2)
            __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void run_threads(int count, long n) {
    pthread_t threads[64];
    rounds = n;
    wrong = 0;
    for (long i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, keep_adding, (void *)(i * 1000));
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("wrong %ld\n", wrong);
}

static void run_fork(void) {
    pid_t child = fork();
    if (!child)
        _exit(add(3, 4) == 7 && outer(1) == 4 ? 0 : 1);
    int status = -1;
    waitpid(child, &status, 0);
    printf("child %d\n", status);
}

static volatile int ticks;

static void on_alarm(int signal) {
    (void)signal;
    ticks++;
}

static void run_jump(long a) {
    errno = 77;
    if (setjmp(away)) {
        printf("jumped\n");
        return;
    }
    long sum = add(a, 1);
    printf("added %ld errno %d\n", sum, errno);
}

/* Any other system call ends the process. */
static int forbid_calls(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readv, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_writev, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void obey(char *line) {
    long a = 0, b = 0;
    double x, y;
    if (sscanf(line, "add %ld %ld", &a, &b) == 2)
        printf("%ld\n", add(a, b));
    else if (sscanf(line, "scale %lf %lf", &x, &y) == 2)
        printf("%.3f\n", scale(x, y));
    else if (sscanf(line, "outer %ld", &a) == 1)
        printf("%ld\n", outer(a));
    else if (sscanf(line, "through %ld", &a) == 1)
        printf("%ld\n", through_word(a));
    else if (!strncmp(line, "word", 4))
        printf("%p\n", (const void *)&word);
    else if (sscanf(line, "calls %ld %ld", &a, &b) == 2) { /* b at a time */
        for (long i = 0; i < a; i++) {
            outer(i);
            if (i % b == 0)
                usleep(200);
        }
        printf("%ld\n", a);
    } else if (sscanf(line, "threads %ld %ld", &a, &b) == 2)
        run_threads((int)a, b);
    else if (sscanf(line, "jump %ld", &a) == 1)
        run_jump(a);
    else if (!strncmp(line, "fork", 4))
        run_fork();
    else if (!strncmp(line, "alarm", 5)) {
        signal(SIGALRM, on_alarm);
        ualarm(2000, 2000);
        printf("on\n");
    } else if (!strncmp(line, "ticks", 5)) {
        ualarm(0, 0);
        printf("%d\n", ticks);
    } else if (!strncmp(line, "filter", 6)) {
        printf("%d\n", forbid_calls());
    } else
        printf("what\n");
}

int main(int argc, char **argv) {
    char line[256];
    if (argc > 1) /* "exec": what an exec runs; else the sum as the exit status */
        return strcmp(argv[1], "exec") ? (int)add(atoi(argv[1]), 2) : 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    print_addresses();
    while (fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, "exec", 4)) {
            printf("exec\n");
            execl("/proc/self/exe", argv[0], "exec", (char *)NULL);
        }
        obey(line);
    }
    return 0;
}

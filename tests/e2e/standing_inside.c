/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that stand in the very bytes that a hook changes, when it comes and when it goes: in a system call among the
 * first five bytes, with a return address there, and in a loop there.
 *
 * An engine can go wrong here by leaving a thread in the middle of what has become a jump. */
#include "harness.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

__asm__(".text\n"
        /* long blocked_read(int fd, void *buffer, size_t size), with rax = 0 (read) */
        ".balign 16, 0xcc\n"
        ".type blocked_read, @function\n"
        "blocked_read:\n"
        "  nop\n"
        "  syscall\n" /* a thread that waits here continues at +3, or begins again at +1 */
        "  add $1000, %rax\n"
        "  ret\n"
        ".size blocked_read, . - blocked_read\n"
        ".balign 16, 0xcc\n"
        ".type call_read, @function\n"
        "call_read:\n"
        "  xor %eax, %eax\n"
        "  sub $8, %rsp\n"
        "  call blocked_read\n"
        "  add $8, %rsp\n"
        "  ret\n"
        ".size call_read, . - call_read\n"
        /* long waits_early(void (*wait)(void *), void *arg): the return address of its call is at +3 */
        ".balign 16, 0xcc\n"
        ".type waits_early, @function\n"
        "waits_early:\n"
        "  push %rbx\n"
        "  call *%rax\n"
        "  mov $77, %eax\n"
        "  pop %rbx\n"
        "  ret\n"
        ".size waits_early, . - waits_early\n"
        ".balign 16, 0xcc\n"
        ".type call_waits, @function\n"
        "call_waits:\n"
        "  mov %rdi, %rax\n"
        "  mov %rsi, %rdi\n"
        "  sub $8, %rsp\n"
        "  call waits_early\n"
        "  add $8, %rsp\n"
        "  ret\n"
        ".size call_waits, . - call_waits\n"
        /* long spins_early(volatile long *flag): loops at +0 .. +8 */
        ".balign 16, 0xcc\n"
        ".type spins_early, @function\n"
        "spins_early:\n"
        "  nop\n"
        "1: pause\n"
        "  cmpq $0, (%rdi)\n"
        "  je 1b\n"
        "  mov $55, %eax\n"
        "  ret\n"
        ".size spins_early, . - spins_early\n");
long blocked_read(int fd, void *buffer, size_t size);
long call_read(int fd, void *buffer, size_t size);
void waits_early(void);
long call_waits(void (*wait)(void *), void *arg);
long spins_early(volatile long *flag);

static int pipes[2];
static pthread_barrier_t inside;
static volatile long flag;

static void wait_for_byte(void *arg) {
    char byte;
    if (read(*(int *)arg, &byte, 1) != 1)
        e2e_fail(__FILE__, __LINE__, "no byte");
}

static void *reader(void *result) {
    char byte = 0;
    pthread_barrier_wait(&inside);
    *(long *)result = call_read(pipes[0], &byte, 1) + byte;
    return NULL;
}

static void *waiter(void *result) {
    pthread_barrier_wait(&inside);
    *(long *)result = call_waits(wait_for_byte, &pipes[0]);
    return NULL;
}

static void *spinner(void *result) {
    pthread_barrier_wait(&inside);
    *(long *)result = spins_early(&flag);
    return NULL;
}

static void let_go(void) {
    flag = 1;
    if (write(pipes[1], "\001", 1) != 1)
        e2e_fail(__FILE__, __LINE__, "write failed");
}

/* The same, but when the hook comes the thread is in a signal handler that interrupted it among those bytes: where it
 * will continue is in the signal frame only. */
static sem_t in_handler, leave_handler;

static void handler(int number) {
    (void)number;
    sem_post(&in_handler);
    while (sem_wait(&leave_handler) != 0)
        ;
}

static void run_interrupted(void) {
    pthread_t thread;
    long result = 0;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART; /* it will begin its system call again */
    sigaction(SIGUSR1, &action, NULL);
    sem_init(&in_handler, 0, 0);
    sem_init(&leave_handler, 0, 0);
    pthread_create(&thread, NULL, reader, &result);
    pthread_barrier_wait(&inside);
    usleep(20000);
    pthread_kill(thread, SIGUSR1);
    sem_wait(&in_handler);
    int hook = e2e_try_record("blocked_read", (void *)blocked_read);
    sem_post(&leave_handler);
    usleep(5000);
    let_go();
    pthread_join(thread, NULL);
    E2E_EQUAL(result, 1002);
    if (hook >= 0)
        E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);
}

/* Hooks the function, or doesn't, while a thread is inside; takes it back while the thread is still inside. */
static void run(void *(*body)(void *), const char *name, void *function, bool revert, long expected) {
    pthread_t thread;
    long result = 0;
    flag = 0;
    pthread_create(&thread, NULL, body, &result);
    pthread_barrier_wait(&inside);
    usleep(20000); /* it is inside now */
    int hook = e2e_try_record(name, function);
    if (hook < 0 && !e2e_plain())
        printf("%s: %s\n", name, ct_status_text(hook));
    if (revert && hook >= 0)
        E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0);
    usleep(5000);
    let_go();
    pthread_join(thread, NULL);
    char byte;
    if (body == spinner && read(pipes[0], &byte, 1) != 1)
        e2e_fail(__FILE__, __LINE__, "read failed");
    E2E_EQUAL(result, expected);

    /* and once more from the start, with the hook in place from the beginning */
    pthread_create(&thread, NULL, body, &result);
    flag = 0;
    pthread_barrier_wait(&inside);
    usleep(20000);
    if (!revert && hook >= 0)
        E2E_EQUAL(ct_hooks_revert(e2e_hooks, hook), 0); /* now it is in the moved copy */
    let_go();
    pthread_join(thread, NULL);
    if (body == spinner && read(pipes[0], &byte, 1) != 1)
        e2e_fail(__FILE__, __LINE__, "read failed");
    E2E_EQUAL(result, expected);
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    pthread_barrier_init(&inside, NULL, 2);
    if (pipe(pipes) != 0)
        return 1;
    for (int revert = 0; revert < 2; revert++) {
        run(reader, "blocked_read", (void *)blocked_read, revert, 1002);
        run(waiter, "waits_early", (void *)waits_early, revert, 77);
        run(spinner, "spins_early", (void *)spins_early, revert, 55);
    }
    run_interrupted();
    if (!e2e_plain()) {
        struct e2e_summary s = e2e_summarize(-1);
        E2E_EQUAL(s.calls, s.returns);
        E2E_EQUAL(s.left + s.open + s.unpaired, 0);
        printf("%zu calls seen\n", s.calls);
    }
    return e2e_end();
}

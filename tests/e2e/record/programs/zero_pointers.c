/* SPDX-License-Identifier: Apache-2.0 */
/* Threads as Go makes them: no C library, a function that makes the clone system call with arguments of its own, and
 * zero in the word where a library has the thread's own address. Each thread calls `leaf` CALLS times, all at the same
 * time. Prints "right". */
enum { THREADS = 4, CALLS = 5000, STACK = 65536, SET_FS = 0x1002 };
enum { NR_WRITE = 1, NR_YIELD = 24, NR_EXIT = 60, NR_ARCH_PRCTL = 158, NR_EXIT_GROUP = 231 };

static unsigned long areas[THREADS + 1][16];
static char stacks[THREADS][STACK] __attribute__((aligned(16)));
static volatile unsigned ready, done, wrong;

void begin(void);
void thread_work(unsigned long which);
long start_thread(unsigned long which, void *stack, void *area);

/* VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, SETTLS */
__asm__(".globl _start, start_thread\n"
        ".type start_thread, @function\n"
        "start_thread:\n"
        "    mov %rdi, %r9\n"
        "    mov $0xd0f00, %edi\n"
        "    mov %rdx, %r8\n"
        "    xor %edx, %edx\n"
        "    xor %r10d, %r10d\n"
        "    mov $56, %eax\n"
        "    syscall\n"
        "    test %eax, %eax\n"
        "    jz 1f\n"
        "    ret\n"
        "1:  mov %r9, %rdi\n"
        "    call thread_work\n"
        "    ud2\n"
        ".size start_thread, . - start_thread\n"
        ".type _start, @function\n"
        "_start:\n"
        "    and $-16, %rsp\n"
        "    call begin\n"
        "    ud2\n"
        ".size _start, . - _start\n");

static inline __attribute__((always_inline)) long ask(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

__attribute__((noinline)) unsigned long leaf(unsigned long x) {
    __asm__ volatile("" : "+r"(x));
    return x + 1;
}

static __attribute__((noinline)) void call_leaf(void) {
    unsigned long x = 0;
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    while (ready <= THREADS)
        ask(NR_YIELD, 0, 0, 0);
    for (int i = 0; i < CALLS; i++)
        x = leaf(x);
    if (x != CALLS)
        wrong = 1;
}

void thread_work(unsigned long which) {
    call_leaf();
    __atomic_fetch_add(&done, 1, __ATOMIC_SEQ_CST);
    ask(NR_EXIT, (long)which, 0, 0);
}

void begin(void) {
    ask(NR_ARCH_PRCTL, SET_FS, (long)areas[THREADS], 0);
    for (unsigned long i = 0; i < THREADS; i++)
        if (start_thread(i, stacks[i] + STACK, areas[i]) < 0)
            ask(NR_EXIT_GROUP, 2, 0, 0);
    call_leaf();
    while (done < THREADS)
        ask(NR_YIELD, 0, 0, 0);
    ask(NR_WRITE, 1, (long)(wrong ? "wrong\n" : "right\n"), 6);
    ask(NR_EXIT_GROUP, (long)wrong, 0, 0);
}

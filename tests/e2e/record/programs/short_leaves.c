/* SPDX-License-Identifier: Apache-2.0 */
/* Leaves of 2, 3 and 4 bytes right after a long function, without padding: their springboards are in its bytes. Two
 * threads call all of them when the recorder comes and when it goes. */
#include "zoo.h"
#include <pthread.h>

ZOO_GATES

__asm__(".text\n"
        /* May jump anywhere, so that it has no room for others; keeps the padding of other functions out of reach. */
        ".macro wall name\n"
        ".type \\name, @function\n"
        "\\name:\n"
        ".fill 300, 1, 0xf8\n"
        "jmp *%rax\n"
        ".size \\name, . - \\name\n"
        ".endm\n"
        ".macro leaf name, bytes:vararg\n"
        ".type \\name, @function\n"
        "\\name:\n"
        ".byte \\bytes\n"
        ".size \\name, . - \\name\n"
        ".endm\n"
        ".balign 64\n"
        "wall wall_before\n"
        ".type host, @function\n"
        "host:\n"
        "  mov $7, %eax\n"
        "  add %rdi, %rax\n"
        "  mov $0, %ecx\n"
        "  mov $0, %edx\n"
        "  add %rcx, %rax\n"
        "  ret\n"
        ".size host, . - host\n"
        "leaf leaf2, 0xf8, 0xc3\n"             /* clc; ret */
        "leaf leaf3, 0x31, 0xc0, 0xc3\n"       /* xor eax, eax; ret */
        "leaf leaf4, 0x8d, 0x47, 0x01, 0xc3\n" /* lea eax, [rdi + 1]; ret */
        "wall wall_after\n");
long host(long x);
void leaf2(void);
int leaf3(void), leaf4(int x);

static int stop;

static FN void call_all(int x) {
    CHECK(host(x) == x + 7);
    leaf2();
    CHECK(leaf3() == 0);
    CHECK(leaf4(x) == x + 1);
}

static void *caller(void *arg) {
    (void)arg;
    for (int i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i = (i + 1) & 0xffff) {
        call_all(i);
        if (i % 64 == 0)
            usleep(50);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, caller, NULL);
    wait_for_start();
    for (int i = 0; i < 1000; i++)
        call_all(i);
    wait_for_end();
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%d failures\n", zoo_failures);
    return zoo_failures != 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The first instructions of long functions change all the time, until they are hooked: some are others when the
 * recorder stops the process than when it planned. These are not hooked, so no springboard of a leaf may be in their
 * bytes. */
#include "zoo.h"
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define GROUPS 12

ZOO_GATES

__asm__(".text\n"
        ".balign 4096\n"
        "area_begin:\n"
        ".macro group n\n"
        ".type wall\\n, @function\n"
        "wall\\n:\n"
        "jmp *%rax\n" /* anywhere: it has no room for others */
        ".fill 300, 1, 0xf8\n"
        ".balign 8, 0xf8\n"
        ".size wall\\n, . - wall\\n\n"
        ".type host\\n, @function\n"
        "host\\n:\n"
        "  mov $7, %eax\n"
        "  add %rdi, %rax\n" /* the first 8 bytes end here */
        "  mov $0, %ecx\n"
        "  add %rcx, %rax\n"
        "  ret\n"
        ".size host\\n, . - host\\n\n"
        ".type leaf\\n, @function\n"
        "leaf\\n:\n"
        "  lea 1(%rdi), %eax\n"
        "  ret\n"
        ".size leaf\\n, . - leaf\\n\n"
        ".pushsection .data.rel.ro.groups, \"aw\"\n"
        ".quad host\\n, leaf\\n\n"
        ".popsection\n"
        ".endm\n"
        ".pushsection .data.rel.ro.groups, \"aw\"\n"
        ".balign 8\n"
        "groups:\n"
        ".popsection\n"
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n"
        "group \\n\n"
        ".endr\n"
        ".fill 300, 1, 0xf8\n"
        "area_end:\n");
extern char area_begin[], area_end[];
extern const struct {
    long (*host)(long);
    int (*leaf)(int);
} groups[GROUPS];

static int stop;

/* Exchanges mov $7 and mov $8, all in one store, where neither a jump nor anything else has taken their place. */
static void *changer(void *arg) {
    uint64_t seven, eight;
    (void)arg;
    memcpy(&seven, (const void *)groups[0].host, sizeof seven);
    eight = seven + (1ull << 8);
    for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++)
        for (unsigned g = 0; g < GROUPS; g++) {
            uint64_t *word = (uint64_t *)(void *)groups[g].host, now = (i >> g % 4) & 1 ? seven : eight;
            (void)__atomic_compare_exchange_n(word, &now, now == seven ? eight : seven, 0, __ATOMIC_SEQ_CST,
                                              __ATOMIC_SEQ_CST);
        }
    return NULL;
}

static FN void call_all(int x) {
    for (unsigned g = 0; g < GROUPS; g++) {
        long sum = groups[g].host(x);
        CHECK(sum == x + 7 || sum == x + 8);
        CHECK(groups[g].leaf(x) == x + 1);
    }
}

int main(void) {
    pthread_t thread;
    CHECK(!mprotect(area_begin, (size_t)(area_end - area_begin), PROT_READ | PROT_WRITE | PROT_EXEC));
    pthread_create(&thread, NULL, changer, NULL);
    usleep(1000);
    wait_for_start();
    for (int i = 0; i < 100; i++)
        call_all(i);
    wait_for_end();
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    printf("%d failures\n", zoo_failures);
    return zoo_failures != 0;
}

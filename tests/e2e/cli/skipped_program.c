/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a function that has no room for a hook: one byte, with another function right after it. */
#include <stdio.h>

enum { CALLS = 1000 };

void no_room(void);
void after_it(void);
__asm__(".text\n"
        ".balign 16\n"
        ".type no_room, @function\n"
        "no_room: ret\n"
        ".size no_room, . - no_room\n"
        ".type after_it, @function\n"
        "after_it: xor %eax, %eax\n"
        "  inc %eax\n"
        "  inc %eax\n"
        "  ret\n"
        ".size after_it, . - after_it\n");

__attribute__((noinline)) static void often(void) {
    no_room();
}

__attribute__((noinline)) static void seldom(void) {
    after_it();
}

int main(void) {
    for (int i = 0; i < CALLS; i++)
        often();
    seldom();
    puts("done");
    return 0;
}

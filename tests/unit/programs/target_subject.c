/* SPDX-License-Identifier: Apache-2.0 */
/* A process to make plans of: loads the libraries of its arguments, says so, and waits. */
#include <stdio.h>
#include <unistd.h>
#ifndef ALONE
#include <dlfcn.h>
#endif

__attribute__((noinline)) static int subject_function(int x) {
    __asm__ volatile("" : "+r"(x));
    return x * 3 + 1;
}

__attribute__((noinline)) static int subject_recursion(int n) {
    return n < 2 ? n : subject_recursion(n - 1) + subject_recursion(n - 2) + subject_function(n);
}

/* In an executable segment of its own, where the linker is asked to make one. */
__attribute__((noinline, section(".far_text"))) static int subject_far(int x) {
    for (int i = 0; i < 3; i++)
        x = subject_function(x);
    return x;
}

/* A table of addresses, which somebody has to relocate. */
__attribute__((noinline)) static int subject_dispatch(const unsigned char *code, int x) {
    static const void *const labels[] = {&&add, &&twice, &&negate, &&out};
    goto *labels[*code++];
add:
    x += 3;
    goto *labels[*code++];
twice:
    x *= 2;
    goto *labels[*code++];
negate:
    x = -x;
    goto *labels[*code++];
out:
    return x;
}

int main(int argc, char **argv) {
    (void)argv;
#ifndef ALONE
    for (int i = 1; i < argc; i++)
        if (!dlopen(argv[i], RTLD_NOW))
            return 2;
#endif
    printf("ready %d %d\n", subject_recursion(argc > 100 ? 9 : 5) + subject_far(argc),
           subject_dispatch((const unsigned char *)"\0\1\2\3", argc));
    fflush(stdout);
    for (;;)
        pause();
}

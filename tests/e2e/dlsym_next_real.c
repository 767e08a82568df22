/* SPDX-License-Identifier: Apache-2.0 */
/* The library that the wrapper calls. */
int wrapped_function(int x) __attribute__((visibility("default")));
int only_in_real(void) __attribute__((visibility("default")));

/* So that the linker keeps this library. */
int only_in_real(void) {
    return 5;
}

int wrapped_function(int x) {
    __asm__ volatile("" ::: "memory");
    return x * 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that only debug information names, built in many ways by the tests of debug files and lines. */
__attribute__((visibility("default"))) int debug_sample_global(int x);

static int inlined_inner(int x) {
    volatile int twice = x * 2; /* code of its own */
    return twice + x;
}

static inline __attribute__((always_inline)) int inlined_outer(int x) {
    return inlined_inner(x) + 1;
}

static __attribute__((noinline)) int hidden_one(int x) {
    return inlined_outer(x) ^ 5;
}

static __attribute__((noinline)) int hidden_two(int x) {
    return hidden_one(x) - 7;
}

int debug_sample_global(int x) {
    return hidden_two(x) + hidden_one(x + 1);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A library that tail_steps loads. */
__attribute__((visibility("default"))) void late_step(void);
static volatile int sum;

__attribute__((noinline)) static void late_inner(void) {
    sum++;
}

void late_step(void) {
    late_inner();
    sum++;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose tables name hardly any of its functions: stripped, without unwind tables, and with much code that is
 * never reached. It prints where its leaf is and how often it was called,
 * and results of functions of several kinds. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#define ALONE __attribute__((noinline)) /* and built without copies for some callers */

extern const char __executable_start;

/* odd_inner is called, and also branched to and fallen into: no function. The first call only finds its own place. */
int odd(int x);
void odd_inner(void);
__asm__(".text\n"
        ".skip 4194304, 0xcc\n"
        "odd:\n"
        "  xor %eax, %eax\n"
        "  call 1f\n"
        "1: pop %rcx\n"
        "  test %edi, %edi\n"
        "  je odd_inner\n"
        "  call odd_inner\n"
        "  add $2, %eax\n"
        "odd_inner:\n"
        "  add $1, %eax\n"
        "  ret\n");

static volatile int state, leaf_calls;
static jmp_buf back;

static ALONE int leaf(int x) {
    leaf_calls++;
    state += x;
    return x * 3 + 1;
}

static ALONE int choose(int x) {
    switch (x % 8) {
    case 0:
        return leaf(x);
    case 1:
        state += 5;
        return x / 3;
    case 2:
        return leaf(x) + leaf(x + 1);
    case 3:
        state ^= x;
        return -x;
    case 4:
        return x << 2;
    case 5:
        state -= x;
        return x ^ 77;
    case 6:
        return leaf(-x) - 1;
    default:
        return state & 0xff;
    }
}

static ALONE int descend(int depth) {
    return depth ? descend(depth - 1) + leaf(depth) : 0;
}

static ALONE void leave(int value) {
    if (value)
        longjmp(back, value);
}

/* The loop's head is the function's first instruction, or near it. */
static ALONE int length(const char *text) {
    const char *p = text;
    while (*p)
        p++;
    return (int)(p - text);
}

static int compare(const void *a, const void *b) {
    return leaf(*(const int *)a) - leaf(*(const int *)b);
}

static ALONE void leave_and_return(void) {
    if (!setjmp(back))
        leave(7);
}

static ALONE int work(void) {
    int numbers[] = {5, 3, 9, 1}, sum = 0;
    for (int i = 0; i < 1000; i++)
        sum += choose(i);
    sum += odd(0) * 7 + odd(5) + descend(20) + length("some text");
    leave_and_return();
    qsort(numbers, 4, sizeof numbers[0], compare);
    for (int i = 0; i < 4; i++)
        sum = sum * 10 + numbers[i];
    return sum;
}

static unsigned long offset_of(const void *function) {
    return (unsigned long)((const char *)function - &__executable_start);
}

int main(void) {
    int sum = work();
    printf("%lx %lx %lx\n", offset_of((void *)leaf), offset_of((void *)odd), offset_of((void *)odd_inner));
    printf("%d %d %d\n", leaf_calls, sum, state);
    return 7;
}

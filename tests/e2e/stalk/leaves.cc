/* SPDX-License-Identifier: Apache-2.0 */
// Leaves library code, and callbacks of it, by exceptions and by longjmp; afterwards calls witness(), 400 times in all.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

static volatile int one = 1;
static jmp_buf jump;
static sigjmp_buf signal_jump;
extern "C" void __longjmp_chk(jmp_buf, int) __attribute__((noreturn));

extern "C" __attribute__((noinline)) int witness(int x) {
    __asm__ volatile("");
    return x + one;
}

struct Guard {
    int *count;
    ~Guard() {
        ++*count;
    }
};

static int how;

static int compare(const void *, const void *) {
    if (how == 0)
        longjmp(jump, 1);
    if (how == 1)
        siglongjmp(signal_jump, 1);
    if (how == 2)
        __longjmp_chk(jump, 1);
    throw 5;
}

__attribute__((noinline)) static int sort_and_leave() {
    int values[4] = {3, 1, 2, 0};
    qsort(values, 4, sizeof values[0], compare); // the C library's code has unwind tables
    return 1000;
}

__attribute__((noinline)) static int jumps(int i) {
    how = i % 3;
    if (how == 1 ? sigsetjmp(signal_jump, 1) : setjmp(jump))
        return witness(i);
    return sort_and_leave();
}

__attribute__((noinline)) static int throws_through(int i, int *guards) {
    Guard guard{guards};
    how = 3;
    return sort_and_leave() + i;
}

__attribute__((noinline)) static int caught(int i, int *guards) {
    try {
        return throws_through(i, guards);
    } catch (int five) {
        return witness(i + five);
    }
}

__attribute__((noinline)) static int library_throws(int i) {
    std::vector<int> v(3);
    try {
        return v.at(static_cast<size_t>(i + 3));
    } catch (const std::out_of_range &) {
        return witness(i);
    }
}

__attribute__((noinline)) static int own_throws(int i, int *guards) {
    Guard guard{guards};
    try {
        throw std::runtime_error("own");
    } catch (const std::exception &e) {
        return witness(i + e.what()[0]);
    }
}

long leave_all(int times) {
    int guards = 0;
    long sum = 0;
    for (volatile int i = 0; i < times; i = i + 1)
        sum += jumps(i) + caught(i, &guards) + library_throws(i) + own_throws(i, &guards);
    return sum * 1000 + guards;
}

#ifndef NO_MAIN
int main() {
    std::printf("%ld\n", leave_all(100));
}
#endif

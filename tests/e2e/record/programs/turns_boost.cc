/* SPDX-License-Identifier: Apache-2.0 */
// As turns.c, with boost.context: turns_boost COUNT ROUNDS [hold]
#include <boost/context/fiber.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace context = boost::context;
#define FUNCTION __attribute__((noinline, noclone))
#define KEEP()   __asm__ volatile("" ::: "memory")

static int rounds;
static long sum;

FUNCTION static void rest(context::fiber &home) {
    home = std::move(home).resume();
    KEEP();
}

FUNCTION static long work(context::fiber &home, int depth) {
    long below = depth ? work(home, depth - 1) : 0;
    if (!depth)
        rest(home);
    KEEP();
    return below + 1;
}

FUNCTION static void body(context::fiber &home, int number) {
    for (int i = 0; i < rounds; i++)
        sum += work(home, number % 5);
    KEEP();
}

FUNCTION static bool resume(context::fiber &fiber) {
    fiber = std::move(fiber).resume();
    KEEP();
    return bool(fiber);
}

int main(int argc, char **argv) {
    int count = argc > 2 ? atoi(argv[1]) : 0;
    std::vector<context::fiber> all;
    rounds = argc > 2 ? atoi(argv[2]) : 0;
    for (int i = 0; i < count; i++)
        all.emplace_back([i](context::fiber &&home) {
            body(home, i);
            return std::move(home);
        });
    bool hold = argc > 3;
    for (bool left = count > 0; left; hold = false) {
        left = false;
        for (auto &fiber : all)
            left |= fiber && resume(fiber);
        if (!hold)
            continue;
        puts("held");
        fflush(stdout);
        getchar();
    }
    printf("%ld\n", sum);
}

/* SPDX-License-Identifier: Apache-2.0 */
// As turns.c, with the coroutines of C++20, which have no stack of their own: turns_stackless COUNT ROUNDS [hold]
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define FUNCTION __attribute__((noinline, noclone))
#define KEEP()   __asm__ volatile("" ::: "memory")

static int rounds;
static long sum;

struct task {
    struct promise_type {
        task get_return_object() {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_always initial_suspend() noexcept {
            return {};
        }
        std::suspend_always final_suspend() noexcept {
            return {};
        }
        void return_void() {
        }
        void unhandled_exception() {
            abort();
        }
    };
    std::coroutine_handle<promise_type> handle;
};

FUNCTION static long work(int depth) {
    long below = depth ? work(depth - 1) : 0;
    KEEP();
    return below + 1;
}

static task body(int number) {
    for (int i = 0; i < rounds; i++) {
        sum += work(number % 5);
        co_await std::suspend_always{};
    }
}

FUNCTION static bool resume(task &t) {
    t.handle.resume();
    KEEP();
    return !t.handle.done();
}

int main(int argc, char **argv) {
    int count = argc > 2 ? atoi(argv[1]) : 0;
    std::vector<task> all;
    rounds = argc > 2 ? atoi(argv[2]) : 0;
    for (int i = 0; i < count; i++)
        all.push_back(body(i));
    bool hold = argc > 3;
    for (bool left = count > 0; left; hold = false) {
        left = false;
        for (auto &t : all)
            left |= !t.handle.done() && resume(t);
        if (!hold)
            continue;
        puts("held");
        fflush(stdout);
        getchar();
    }
    for (auto &t : all)
        t.handle.destroy();
    printf("%ld\n", sum);
}

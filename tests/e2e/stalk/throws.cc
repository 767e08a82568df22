/* SPDX-License-Identifier: Apache-2.0 */
// Exceptions through many frames, in two threads.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

struct Guard {
    int *count;
    ~Guard() {
        ++*count;
    }
};

static int deep(int n, int *guards) {
    Guard guard{guards};
    if (!n)
        throw std::runtime_error("bottom " + std::to_string(*guards % 7));
    return deep(n - 1, guards) + 1;
}

static long run(int times) {
    int guards = 0;
    long sum = 0;
    for (int i = 0; i < times; i++)
        try {
            try {
                sum += deep(i % 20, &guards);
            } catch (const std::exception &e) {
                sum += e.what()[7];
                throw 5;
            }
        } catch (int x) {
            sum += x;
        }
    return sum + guards;
}

int main() {
    long a = run(1000), b = 0;
    std::thread thread([&] { b = run(500); });
    thread.join();
    std::printf("%ld %ld\n", a, b);
}

/* The C++ program that bench_record records to see what an exception costs. It times itself, under whatever it runs, and
 * prints one line of JSON: nanoseconds of a throw, best of ROUNDS.
 *
 *   throw_work plain DEPTH ROUNDS      thrown through DEPTH frames, and caught
 *   throw_work cleanup DEPTH ROUNDS    the same, with an object to be destroyed in each of them */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define FN extern "C" __attribute__((noinline, noclone, visibility("hidden")))

static volatile int destroyed;

struct object {
    ~object() {
        destroyed = destroyed + 1;
    }
};

FN int through(int depth) {
    if (depth <= 1)
        throw depth;
    int result = through(depth - 1);
    __asm__ volatile("" ::: "memory"); /* no tail call */
    return result + 1;
}

FN int through_cleanup(int depth) {
    object o;
    if (depth <= 1)
        throw depth;
    int result = through_cleanup(depth - 1);
    __asm__ volatile("" ::: "memory");
    return result + 1;
}

FN int catcher(bool cleanup, int depth) {
    try {
        return cleanup ? through_cleanup(depth) : through(depth);
    } catch (int value) {
        return value;
    }
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 64;
    bool cleanup = !strcmp(argv[1], "cleanup");
    int depth = atoi(argv[2]), rounds = atoi(argv[3]);
    double best = 1e18;
    for (int i = 0; i < rounds; i++) {
        auto start = std::chrono::steady_clock::now();
        if (catcher(cleanup, depth) != 1)
            return 1;
        std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
        best = spent.count() < best ? spent.count() : best;
    }
    printf("{\"throw_best\": %.1f}\n", best);
    return 0;
}

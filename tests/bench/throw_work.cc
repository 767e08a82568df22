/* SPDX-License-Identifier: Apache-2.0 */
/* The C++ program that bench_record records to see what an exception costs. It times itself, recorded or not, and
 * prints one line of JSON: nanoseconds of processor time for a throw, best of ROUNDS.
 *
 * throw_work plain DEPTH ROUNDS      thrown through DEPTH frames, and caught throw_work cleanup DEPTH ROUNDS    like
 * plain, with an object to destroy in each frame */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#define FN extern "C" __attribute__((noinline, visibility("hidden")))

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

/* Processor time of this thread alone: elapsed time on a busy machine includes other programs. */
static double now_ns() {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 64;
    bool cleanup = !strcmp(argv[1], "cleanup");
    int depth = atoi(argv[2]), rounds = atoi(argv[3]);
    int batch = depth < 50 ? 100 / depth : 1; /* reading the clock takes time too */
    double best = 1e18;
    for (int i = 0; i < rounds; i++) {
        double start = now_ns();
        for (int n = 0; n < batch; n++)
            if (catcher(cleanup, depth) != 1)
                return 1;
        double spent = (now_ns() - start) / batch;
        best = spent < best ? spent : best;
    }
    printf("{\"throw_best\": %.1f}\n", best);
    return 0;
}

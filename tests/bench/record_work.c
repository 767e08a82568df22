/* SPDX-License-Identifier: Apache-2.0 */
/* The program that bench_record records. It times itself, recorded or not, and prints one line of JSON.
 *
 *   record_work pair ROUNDS CALLS     the cost of a call and its return, and of two bare timestamps, in one run
 *   record_work reals ROUNDS CALLS    the same, of a function with floating-point arguments and result
 *   record_work bound ROUNDS CALLS    the least that two events cost: two timestamps alone; stored in slots; with 320
 *                                     bytes of detail copied to a ring of 1 MiB, and of 32 MiB
 *   record_work rate EVENTS SECONDS   makes EVENTS events per second (half as many calls), evenly; CPU time of one
 *   record_work full SECONDS          calls as fast as it can
 *   record_work busy COUNT CALLS      COUNT threads make CALLS calls each at once; processor time of a call, in ns
 *   record_work wait                  prints a line when it is ready, then waits for the end of its input
 *   record_work threads COUNT         like wait, with COUNT threads that have made calls and are still alive */
#include "calls.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void pause_ms(unsigned ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l}, NULL);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double time_stamps(uint64_t count) {
    uint64_t sum = 0;
    double start = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        sum += __builtin_ia32_rdtsc();
        sum += __builtin_ia32_rdtsc();
    }
    double spent = now_ns() - start;
    __asm__ volatile("" ::"r"(sum));
    return spent / (double)count;
}

static double time_calls(uint64_t count) {
    const struct calls_mode *flat = calls_find_mode("flat");
    double start = now_ns();
    uint64_t sum = flat->run(count);
    double spent = now_ns() - start;
    __asm__ volatile("" ::"r"(sum));
    return spent / (double)count;
}

static __attribute__((noinline)) double scale(double value, double by) {
    __asm__ volatile("");
    return value * by;
}

static double time_reals(uint64_t count) {
    double sum = 0, start = now_ns();
    for (uint64_t i = 0; i < count; i++)
        sum += scale((double)i, 0.5);
    double spent = now_ns() - start;
    __asm__ volatile("" ::"x"(sum));
    return spent / (double)count;
}

/* Rounds are short, with time in between to write the events, so that nothing waits and nothing is lost. */
static int run_pair(unsigned rounds, uint64_t calls, double (*time_pairs)(uint64_t count)) {
    double *stamps = calloc(rounds, sizeof *stamps), *pairs = calloc(rounds, sizeof *pairs);
    if (!rounds || !stamps || !pairs)
        return 64;
    for (unsigned i = 0; i < rounds; i++) {
        stamps[i] = time_stamps(calls);
        pairs[i] = time_pairs(calls);
        pause_ms(60);
    }
    qsort(stamps, rounds, sizeof *stamps, by_value);
    qsort(pairs, rounds, sizeof *pairs, by_value);
    printf("{\"stamps_best\": %.3f, \"stamps\": %.3f, \"pair_best\": %.3f, \"pair\": %.3f, \"calls\": %llu}\n",
           stamps[0], stamps[rounds / 2], pairs[0], pairs[rounds / 2], (unsigned long long)(rounds * calls));
    free(stamps);
    free(pairs);
    return 0;
}

/* Writes two slots of 16 bytes and `size` bytes of detail for each call, each to a ring of its own: what is left of a
 * recorder that checks nothing, follows nothing and calls nothing. */
static inline __attribute__((always_inline)) double time_stores(uint64_t count, uint64_t *slots, uint64_t slot_mask,
                                                                char *detail, uint64_t detail_mask, size_t size) {
    char stack[512] = {0};
    double start = now_ns();
    for (uint64_t i = 0, at = 0; i < count; i++, at += size) {
        uint64_t *slot = slots + (4 * i & slot_mask);
        slot[0] = __builtin_ia32_rdtsc();
        slot[1] = i;
        __asm__ volatile("" : "+m"(stack));
        memcpy(detail + (at & detail_mask), stack, size);
        slot[2] = __builtin_ia32_rdtsc();
        slot[3] = i;
    }
    return (now_ns() - start) / (double)count;
}

static void keep_least(double *least, double value) {
    *least = value < *least ? value : *least;
}

static int run_bound(unsigned rounds, uint64_t calls) {
    enum { SLOTS = 1 << 17, SMALL = 1 << 20, LARGE = 32 << 20, BYTES = 320 };
    double best[4] = {1e9, 1e9, 1e9, 1e9};
    uint64_t *slots = calloc(SLOTS, sizeof *slots);
    char *detail = calloc(1, LARGE + 512);
    if (!slots || !detail)
        return 1;
    for (unsigned i = 0; i < rounds; i++) {
        keep_least(&best[0], time_stamps(calls));
        keep_least(&best[1], time_stores(calls, slots, SLOTS - 1, detail, SMALL - 1, 0));
        keep_least(&best[2], time_stores(calls, slots, SLOTS - 1, detail, SMALL - 1, BYTES));
        keep_least(&best[3], time_stores(calls, slots, SLOTS - 1, detail, LARGE - 1, BYTES));
    }
    printf("{\"stamps\": %.3f, \"slots\": %.3f, \"small\": %.3f, \"large\": %.3f}\n", best[0], best[1], best[2],
           best[3]);
    free(slots);
    free(detail);
    return 0;
}

/* Catches up when it is late, so that the rate is right on a busy machine too. */
static int run_rate(double events, double seconds) {
    const struct calls_mode *flat = calls_find_mode("flat");
    double start = now_ns(), made = 0, busy = 0, spent;
    while ((spent = now_ns() - start) < seconds * 1e9) {
        double due = spent / 1e9 * events / 2;
        if (due - made >= 1000) {
            double begun = thread_ns();
            flat->run((uint64_t)(due - made));
            busy += thread_ns() - begun;
            made += (double)(uint64_t)(due - made);
        } else {
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        }
    }
    printf("{\"calls\": %.0f, \"events_per_s\": %.0f, \"cpu\": %.3f}\n", made, 2 * made / (spent / 1e9), busy / made);
    return 0;
}

static int run_full(double seconds) {
    const struct calls_mode *flat = calls_find_mode("flat");
    double start = now_ns(), spent;
    uint64_t made = 0;
    while ((spent = now_ns() - start) < seconds * 1e9) {
        flat->run(100000);
        made += 100000;
    }
    printf("{\"calls\": %llu, \"events_per_s\": %.0f}\n", (unsigned long long)made, 2 * (double)made / (spent / 1e9));
    return 0;
}

struct busy {
    pthread_t thread;
    uint64_t calls;
    double spent;
};

static void *call_all_the_time(void *arg) {
    struct busy *busy = arg;
    double start = thread_ns();
    uint64_t sum = calls_find_mode("flat")->run(busy->calls);
    busy->spent = thread_ns() - start;
    __asm__ volatile("" ::"r"(sum));
    return NULL;
}

static int run_busy(unsigned count, uint64_t calls) {
    struct busy *all = calloc(count, sizeof *all);
    double spent = 0;
    if (!all || !count || !calls)
        return 64;
    for (unsigned i = 0; i < count; i++) {
        all[i].calls = calls;
        if (pthread_create(&all[i].thread, NULL, call_all_the_time, &all[i]))
            return 1;
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(all[i].thread, NULL);
        spent += all[i].spent;
    }
    printf("{\"pair\": %.3f, \"calls\": %llu}\n", spent / (double)(count * calls), (unsigned long long)(count * calls));
    free(all);
    return 0;
}

static int run_wait(void) {
    char byte;
    puts("ready");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}

static void *call_and_stay(void *arg) {
    calls_find_mode("flat")->run(3000);
    __atomic_fetch_add((unsigned *)arg, 1, __ATOMIC_RELEASE);
    for (;;)
        pause();
    return NULL;
}

static int run_threads(unsigned count) {
    static unsigned ready;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    for (unsigned i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, call_and_stay, &ready))
            return 1;
    }
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < count)
        pause_ms(5);
    return run_wait();
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "pair"))
        return run_pair((unsigned)atoi(argv[2]), strtoull(argv[3], NULL, 10), time_calls);
    if (argc == 4 && !strcmp(argv[1], "reals"))
        return run_pair((unsigned)atoi(argv[2]), strtoull(argv[3], NULL, 10), time_reals);
    if (argc == 4 && !strcmp(argv[1], "bound"))
        return run_bound((unsigned)atoi(argv[2]), strtoull(argv[3], NULL, 10));
    if (argc == 4 && !strcmp(argv[1], "rate"))
        return run_rate(atof(argv[2]), atof(argv[3]));
    if (argc == 3 && !strcmp(argv[1], "full"))
        return run_full(atof(argv[2]));
    if (argc == 4 && !strcmp(argv[1], "busy"))
        return run_busy((unsigned)atoi(argv[2]), strtoull(argv[3], NULL, 10));
    if (argc == 3 && !strcmp(argv[1], "threads"))
        return run_threads((unsigned)atoi(argv[2]));
    if (argc == 2 && !strcmp(argv[1], "wait"))
        return run_wait();
    fputs("usage: record_work pair|reals|bound ROUNDS CALLS | rate EVENTS SECONDS | full SECONDS | busy COUNT CALLS | "
          "wait | threads COUNT\n",
          stderr);
    return 64;
}

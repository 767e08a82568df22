/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the cost of the drain as a thread of the controller with that of a separate process without rights
 * (docs/TRUST.md, "Who drains"). Both take the same events out of the same memory and write packed files. Rounds
 * alternate; the best of each counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../unit/lane_util.h"
#include "os/os.h"
#include "os/thread.h"
#include "drain_stages.h"

#define EVENTS (32u << 20)
#define ROUNDS 5
#define NOBODY 65534

struct result {
    double start_us, events_per_s;
    uint64_t drained, kilobytes;
};

static double seconds(void) {
    return (double)ct_clock_now() * 1e-9;
}

/* Memory that only this process has, private and shared, in KiB. */
static uint64_t own_memory(void) {
    char line[256];
    unsigned long long value, sum = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Private_Dirty: %llu", &value) == 1)
            sum += value;
    if (file)
        fclose(file);
    return sum;
}

static void produce(struct lane_fixture *f) {
    struct ct_block *b = lane_thread(f);
    for (uint32_t i = 0; i < EVENTS; i += 2) {
        ct_event_write(b, i / 2 % 1000, CT_EVENT_CALL);
        ct_event_write(b, i / 2 % 1000, CT_EVENT_RETURN);
    }
    lane_thread_ends(b);
}

static void prepare(struct lane_fixture *f) {
    lane_start(f, 32u << 20, true, 0);
    lane_prepare_drain(f);
    f->drain.format.encoding = CT_SESSION_FORMAT_PACKED;
    f->drain.interval_ms = 5;
}

static struct result as_thread(void) {
    struct lane_fixture f;
    struct result r = {0};
    prepare(&f);
    double start = seconds();
    assert_int_equal(ct_drain_start(&f.drain), 0);
    r.start_us = (seconds() - start) * 1e6;
    start = seconds();
    produce(&f);
    assert_int_equal(ct_drain_finish(&f.drain), 0);
    r.events_per_s = EVENTS / (seconds() - start);
    r.drained = f.drain.statistics.events;
    lane_end(&f);
    return r;
}

static void give_up_rights(void) {
    if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY) ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        fprintf(stderr, "bench_drain: not root: the process keeps the rights that it has\n");
}

/* The process sends a byte when it is ready, waits for a byte, finishes, and sends the result. */
static void drain_apart(struct lane_fixture *f, int orders, int answers) {
    struct result r = {0};
    char byte = '+';
    uint64_t before = own_memory();
    give_up_rights();
    byte = ct_drain_start(&f->drain) ? '-' : '+';
    (void)!write(answers, &byte, 1);
    (void)!read(orders, &byte, 1);
    (void)ct_drain_finish(&f->drain);
    r.drained = f->drain.statistics.events;
    r.kilobytes = own_memory() - before;
    (void)!write(answers, &r, sizeof r);
    _exit(0);
}

static struct result as_process(void) {
    struct lane_fixture f;
    struct result r = {0};
    int orders[2], answers[2];
    char byte = 0;
    prepare(&f);
    (void)!chown(f.directory, NOBODY, NOBODY);
    assert_int_equal(pipe(orders) | pipe(answers), 0);
    double start = seconds();
    pid_t child = fork();
    if (child == 0)
        drain_apart(&f, orders[0], answers[1]);
    (void)!read(answers[0], &byte, 1);
    assert_int_equal(byte, '+');
    double ready = (seconds() - start) * 1e6;
    start = seconds();
    produce(&f);
    (void)!write(orders[1], &byte, 1);
    assert_int_equal(read(answers[0], &r, sizeof r), sizeof r);
    r.events_per_s = EVENTS / (seconds() - start);
    r.start_us = ready;
    waitpid(child, NULL, 0);
    for (int i = 0; i < 2; i++) {
        close(orders[i]);
        close(answers[i]);
    }
    lane_end(&f);
    return r;
}

static void keep_best(struct result *best, struct result r) {
    assert_int_equal(r.drained, EVENTS);
    if (r.events_per_s > best->events_per_s)
        best->events_per_s = r.events_per_s;
    if (!best->start_us || r.start_us < best->start_us)
        best->start_us = r.start_us;
    best->kilobytes = r.kilobytes;
}

static void compare(void **state) {
    (void)state;
    struct result thread = {0}, process = {0};
    for (int i = 0; i < ROUNDS; i++) {
        keep_best(&thread, as_thread());
        keep_best(&process, as_process());
    }
    printf("drain as a thread:  %6.1f M events/s, ready after %6.0f us\n", thread.events_per_s * 1e-6, thread.start_us);
    printf("drain as a process: %6.1f M events/s, ready after %6.0f us, %llu KiB of its own\n",
           process.events_per_s * 1e-6, process.start_us, (unsigned long long)process.kilobytes);
    printf("process / thread:   %.2f in events/s, %.1f in the time until it is ready\n",
           process.events_per_s / thread.events_per_s, process.start_us / thread.start_us);
}

int main(int argc, char **argv) {
    measure_stages(argv + 1, argc - 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(compare)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

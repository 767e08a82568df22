/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the litmus tests of litmus.h, and prints what they saw.
 *
 * usage: litmus [SECONDS [NAME...]]   how long each one runs (0.2); all of them, or those with these names */
#include "litmus.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *name;
    litmus_run *run;
    bool has_control; /* it also runs without what keeps the order */
    const char *about;
} patterns[] = {
    {"event", litmus_event, true, "an event's hook and kind, before its time; another process reads"},
    {"detail", litmus_detail, true, "a detail record, before its first word; another process reads"},
    {"shadow", litmus_shadow, true, "a shadow entry, before its slot; another thread takes it"},
    {"blocks", litmus_blocks, true, "a block's contents, before it is in the list"},
    {"handler", litmus_handler, false, "plain stores, seen by a handler of the same thread"},
    {"cursor", litmus_cursor, false, "slots of events, reserved by a thread and its handlers"},
    {"claim", litmus_claim, false, "a frame's slot, taken by a thread or its handler"},
    {"switch", litmus_switch, false, "bl and b in a stub, changed while a thread runs it"},
    {"new_code", litmus_new_code, true, "new code, before what leads there"},
};

static struct timespec until;

bool litmus_over(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec != until.tv_sec ? now.tv_sec > until.tv_sec : now.tv_nsec >= until.tv_nsec;
}

static struct litmus run(litmus_run *pattern, bool ordered, double seconds) {
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    struct litmus result = {0};
    pattern(&result, ordered);
    return result;
}

static bool wanted(const char *name, char **names, int n) {
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return n == 0;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 0.2;
    int bad = 0;
    printf("%-10s %14s %8s %22s\n", "pattern", "tries", "wrong", "wrong without order");
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        if (!wanted(patterns[i].name, argv + 2, argc > 2 ? argc - 2 : 0))
            continue;
        struct litmus result = run(patterns[i].run, true, seconds);
        printf("%-10s %14llu %8llu ", patterns[i].name, (unsigned long long)result.rounds,
               (unsigned long long)result.wrong);
        if (patterns[i].has_control) {
            struct litmus control = run(patterns[i].run, false, seconds);
            printf("%10llu of %8.2e   ", (unsigned long long)control.wrong, (double)control.rounds);
        } else {
            printf("%22s   ", "-");
        }
        printf("%s\n", patterns[i].about);
        fflush(stdout);
        bad += result.wrong != 0 || result.rounds == 0;
    }
    if (bad)
        printf("%d patterns saw what must not be, or did not run\n", bad);
    return bad != 0;
}

/* contrail demo: hooks the functions of a small program inside this process and prints its call tree. */
#include "cli/command.h"
#include "cli/demo_sample.h"
#include <contrail/contrail.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_THREADS 16

/* Everything that one thread recorded. */
struct thread_log {
    int tid;
    struct ct_event *events;
    size_t count;
};

struct demo {
    struct thread_log threads[MAX_THREADS];
    size_t thread_count;
    double ns_per_tick;
};

/* ---- collecting ---- */

static struct thread_log *log_of(struct demo *d, int tid) {
    for (size_t i = 0; i < d->thread_count; i++)
        if (d->threads[i].tid == tid)
            return &d->threads[i];
    if (d->thread_count == MAX_THREADS)
        return NULL;
    d->threads[d->thread_count].tid = tid;
    return &d->threads[d->thread_count++];
}

static void collect(void *arg, int tid, const struct ct_event *events, size_t count) {
    struct thread_log *log = log_of(arg, tid);
    if (!log)
        return;
    struct ct_event *grown = realloc(log->events, (log->count + count) * sizeof *grown);
    if (!grown)
        return;
    memcpy(grown + log->count, events, count * sizeof *events);
    log->events = grown;
    log->count += count;
}

/* ---- printing ---- */

/* Index of the event that ends the call at `from`, or the end of the log. */
static size_t end_of_call(const struct thread_log *log, size_t from, uint32_t depth) {
    uint32_t open = depth + 1;
    for (size_t i = from + 1; i < log->count; i++) {
        const struct ct_event *e = &log->events[i];
        if (e->kind == CT_EVENT_CALL)
            open++;
        else if (e->kind == CT_EVENT_RETURN || e->kind == CT_EVENT_EXCEPTION)
            open--;
        if (open <= depth)
            return i;
    }
    return log->count;
}

static double microseconds(const struct demo *d, const struct thread_log *log, size_t from, size_t to) {
    return (double)(log->events[to].timestamp - log->events[from].timestamp) * d->ns_per_tick / 1000;
}

/* How many calls of the same function, none of which calls anything, follow each other from here. */
static size_t count_leaves(const struct thread_log *log, size_t at) {
    size_t count = 0;
    while (at + 1 < log->count && log->events[at].kind == CT_EVENT_CALL &&
           log->events[at + 1].kind == CT_EVENT_RETURN &&
           (count == 0 || log->events[at].hook == log->events[at - 1].hook)) {
        count++;
        at += 2;
    }
    return count;
}

static void print_call(const struct demo *d, const struct thread_log *log, size_t at, uint32_t depth) {
    size_t end = end_of_call(log, at, depth);
    printf("  %*s%-*s", (int)(2 * depth), "", (int)(44 - 2 * depth), sample_functions[log->events[at].hook].name);
    if (end == log->count)
        puts("    (still open)");
    else
        printf(" %9.2f us%s\n", microseconds(d, log, at, end),
               log->events[end].kind == CT_EVENT_EXCEPTION ? "  left by longjmp" : "");
}

static void print_leaves(const struct demo *d, const struct thread_log *log, size_t at, uint32_t depth, size_t count) {
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += microseconds(d, log, at + 2 * i, at + 2 * i + 1);
    printf("  %*s%-*s %9.2f us  in %zu calls\n", (int)(2 * depth), "", (int)(44 - 2 * depth),
           sample_functions[log->events[at].hook].name, total, count);
}

static void print_thread(const struct demo *d, const struct thread_log *log) {
    uint32_t depth = 0;
    printf("thread %d: %zu events\n", log->tid, log->count);
    for (size_t i = 0; i < log->count; i++) {
        const struct ct_event *e = &log->events[i];
        size_t leaves = count_leaves(log, i);
        if (leaves > 1) {
            print_leaves(d, log, i, depth, leaves);
            i += 2 * leaves - 1;
        } else if (e->kind == CT_EVENT_CALL) {
            print_call(d, log, i, depth++);
        } else if (e->kind == CT_EVENT_RETURN || e->kind == CT_EVENT_EXCEPTION) {
            depth--;
        }
    }
    putchar('\n');
}

/* ---- running ---- */

static uint64_t nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* How long a tick of the recorder's counter is. */
static double calibrate(void) {
    uint64_t ns = nanoseconds(), ticks = ct_timestamp();
    while (nanoseconds() - ns < 10000000)
        ;
    return (double)(nanoseconds() - ns) / (double)(ct_timestamp() - ticks);
}

static int hook_sample(struct ct_hooks *hooks) {
    int status = ct_hooks_begin(hooks);
    for (size_t i = 0; status >= 0 && i < sample_function_count; i++)
        status = ct_hooks_record(hooks, sample_functions[i].address);
    return status < 0 ? status : ct_hooks_commit(hooks);
}

static int report(const struct demo *d, struct ct_hooks *hooks, size_t words) {
    struct ct_hook_statistics s;
    ct_hooks_statistics(hooks, &s);
    for (size_t i = 0; i < d->thread_count; i++)
        print_thread(d, &d->threads[i]);
    printf(
        "The program found %zu different words. %llu functions were hooked in %.1f ms; %llu frames were left without "
        "returning; %llu events were lost.\n",
        words, (unsigned long long)s.hooked, (double)(s.plan_ns + s.stop_ns) / 1e6, (unsigned long long)s.left_frames,
        (unsigned long long)s.abandoned);
    return 0;
}

static int run(int argc, char **argv) {
    struct ct_operands operands;
    int code = ct_options_parse(&ct_command_demo, argc, argv, NULL, &operands);
    if (code >= 0)
        return code;
    static struct demo d;
    struct ct_hooks *hooks;
    d.ns_per_tick = calibrate();
    int status = ct_hooks_create(&hooks, NULL);
    if (!status)
        status = ct_hooks_set_sink(hooks, collect, &d, 0);
    if (!status)
        status = hook_sample(hooks);
    if (status < 0) {
        fprintf(stderr, "contrail: hooking failed: %s\n", ct_status_text(status));
        return CT_EXIT_INTERNAL;
    }
    size_t words = sample_run();
    ct_hooks_flush(hooks);
    code = report(&d, hooks, words);
    ct_hooks_destroy(hooks);
    return code;
}

const struct ct_command ct_command_demo = {
    .name = "demo",
    .group = CT_GROUP_RECORD,
    .run = run,
    .summary = "hook a small program inside this process and print its call tree",
    .description = "Hooks the functions of a small sample program, and three of the C library's, inside this process, "
                   "runs it and prints what was called on each thread, with the time each call took.",
    .examples = "contrail demo",
};

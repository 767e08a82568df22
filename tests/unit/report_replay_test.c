/* SPDX-License-Identifier: Apache-2.0 */
/* The replay, line by line, on traces written from scripts. */
#include "report/replay.h"
#include "trace_sample.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines as text: "time tid indent name ..." ---- */

struct log {
    const struct ct_trace *trace;
    char text[8192];
    size_t stop_after, lines;
};

static int on_line(void *arg, const struct ct_replay_line *l) {
    static const char *const forms[] = {
        [CT_REPLAY_LEAF] = "%s=", [CT_REPLAY_OPEN] = "%s{",    [CT_REPLAY_CLOSE] = "}%s=",  [CT_REPLAY_ENTRY] = "%s-",
        [CT_REPLAY_END] = "}%s?", [CT_REPLAY_GAP] = "~%sgap=", [CT_REPLAY_SIGNAL] = "%s!!",
    };
    static const char *const ends[] = {"", " left", " lost", " open"};
    struct log *log = arg;
    char form[64], number[32] = "";
    bool timed = l->kind == CT_REPLAY_LEAF || l->kind == CT_REPLAY_CLOSE;
    if (timed && l->end != CT_REPLAY_LOST)
        snprintf(number, sizeof number, "%llu", (unsigned long long)l->duration_ns);
    if (l->kind == CT_REPLAY_GAP)
        snprintf(number, sizeof number, "%llu/%s", (unsigned long long)l->lost, l->reason);
    snprintf(form, sizeof form, forms[l->kind], l->name);
    size_t used = strlen(log->text);
    snprintf(log->text + used, sizeof log->text - used, "%s%llu/%u %*s%s%s%s", used ? "\n" : "",
             (unsigned long long)(l->time_ns - SAMPLE_START), ct_trace_thread_at(log->trace, l->thread)->tid,
             (int)l->indent, "", form, number, ends[l->end]);
    return ++log->lines == log->stop_after ? 7 : 0;
}

static void check(const struct sample *sample, const struct ct_replay_options *options, const char *expected) {
    char *directory = sample_directory(), *path = sample_write(directory, sample);
    struct ct_trace *trace;
    assert_int_equal(ct_trace_open(&trace, path, NULL, 0), 0);
    struct log log = {.trace = trace};
    assert_int_equal(ct_replay(trace, options, on_line, &log), 0);
    assert_string_equal(log.text, expected);
    ct_trace_close(trace);
    free(path);
    sample_remove(directory);
}

static void check_one(const char *script, const struct ct_replay_options *options, const char *expected) {
    struct sample_thread t = {.id = 1, .tid = 1000, .name = "sample", .script = script};
    check(&(struct sample){.threads = &t, .thread_count = 1}, options, expected);
}

static const struct ct_replay_options everything = {0};

/* ---- shapes ---- */

static void leaves_are_one_line(void **state) {
    (void)state;
    check_one("0+main 10+work 20+leaf 25-leaf 30+leaf 36-leaf 40-work 50+leaf 60-leaf 70-main", &everything,
              "0/1000 main{\n10/1000  work{\n20/1000   leaf=5\n30/1000   leaf=6\n40/1000  }work=30\n50/1000  leaf=10\n"
              "70/1000 }main=70");
}

static void entry_only_and_nameless(void **state) {
    (void)state;
    check_one("0+main 10+setjmp 20+? 30-? 40+unknown 50-unknown 60-main", &everything,
              "0/1000 main{\n10/1000  setjmp-\n20/1000  sample+0x1600=10\n40/1000  function_9_7=10\n60/1000 }main=60");
}

static void exceptions(void **state) {
    (void)state;
    check_one("0+main 10+work 20+thrower 30!thrower 40!work 50-main", &everything,
              "0/1000 main{\n10/1000  work{\n20/1000   thrower=10 left\n40/1000  }work=30 left\n50/1000 }main=50");
}

static void open_at_the_end(void **state) {
    (void)state;
    struct sample_thread t = {.id = 1, .tid = 1000, .name = "sample", .script = "0+main 10+work 20+leaf"};
    check(&(struct sample){.threads = &t, .thread_count = 1, .end_ns = 100}, &everything,
          "0/1000 main{\n10/1000  work{\n20/1000   leaf=80 open\n100/1000  }work=90 open\n100/1000 }main=100 open");
}

/* That leaf has ended, and work is what runs, is seen when work returns. */
static void gaps(void **state) {
    (void)state;
    check_one("0+main 10+leaf 50~3/DRAIN_LAG 50+other@2 60-other 70-work 80-main", &everything,
              "0/1000 main{\n10/1000  leaf{\n50/1000   ~gap=3/DRAIN_LAG\n50/1000   other=10\n70/1000  }leaf= lost\n"
              "70/1000  }work?\n80/1000 }main=80");
    check_one("0+main 10+work 20+leaf 50~9/POOL_EXHAUSTED 50+other@1 60-other 80-main", &everything,
              "0/1000 main{\n10/1000  work{\n20/1000   leaf{\n50/1000    ~gap=9/POOL_EXHAUSTED\n50/1000   }leaf= lost\n"
              "50/1000  }work= lost\n50/1000  other=10\n80/1000 }main=80");
}

static void a_gap_at_the_end(void **state) {
    (void)state;
    struct sample_thread t = {.id = 1, .tid = 1000, .name = "sample", .script = "0+main 10+leaf 20~4/DRAIN_LAG"};
    check(&(struct sample){.threads = &t, .thread_count = 1, .end_ns = 100}, &everything,
          "0/1000 main{\n10/1000  leaf{\n10/1000   ~gap=4/DRAIN_LAG\n10/1000  }leaf=0 open\n10/1000 }main=10 open");
}

static void coroutines(void **state) {
    (void)state;
    check_one(
        "0+main 10+work 20+other 30+leaf 40-work 50+work 60-leaf 70-other 80-work 90-main", &everything,
        "0/1000 main{\n10/1000  work{\n20/1000   other{\n30/1000    leaf=30\n40/1000  }work=30\n50/1000  work=30\n"
        "70/1000   }other=50\n90/1000 }main=90");
}

/* ---- several threads ---- */

static const struct sample_thread two[] = {
    {.id = 1, .tid = 1000, .name = "sample", .script = "0+main 10+leaf 90-leaf 100-main"},
    {.id = 2, .tid = 1001, .name = "worker", .script = "5+worker 10+leaf 20-leaf 30+leaf 40-leaf 50-worker"},
};
static const struct sample two_threads = {.threads = two, .thread_count = 2};

/* In order of the calls, also where a call of another thread must be waited for to know that it is a leaf. */
static void threads_in_order_of_time(void **state) {
    (void)state;
    check(&two_threads, &everything,
          "0/1000 main{\n5/1001 worker{\n10/1000  leaf=80\n10/1001  leaf=10\n30/1001  leaf=10\n50/1001 }worker=45\n"
          "100/1000 }main=100");
}

/* A window of one line does not wait: the long leaf opens and closes. */
static void a_full_window_opens_the_oldest(void **state) {
    (void)state;
    check(&two_threads, &(struct ct_replay_options){.window = 1},
          "0/1000 main{\n5/1001 worker{\n10/1000  leaf{\n10/1001  leaf=10\n30/1001  leaf=10\n50/1001 }worker=45\n"
          "90/1000  }leaf=80\n100/1000 }main=100");
}

static void one_of_the_threads(void **state) {
    (void)state;
    static const char *const name[] = {"work*", NULL}, *const number[] = {"1000", NULL}, *const none[] = {"x", NULL};
    check(&two_threads, &(struct ct_replay_options){.select.threads = name},
          "5/1001 worker{\n10/1001  leaf=10\n30/1001  leaf=10\n50/1001 }worker=45");
    check(&two_threads, &(struct ct_replay_options){.select.threads = number},
          "0/1000 main{\n10/1000  leaf=80\n100/1000 }main=100");
    check(&two_threads, &(struct ct_replay_options){.select.threads = none}, "");
}

/* ---- filters ---- */

#define NESTED                                                                                                         \
    "0+main 10+work 20+recurse 30+recurse 40+other 50-other 60-recurse 70-recurse 80-work 90+other 95-other 100-main"

static void subtrees_of_functions(void **state) {
    (void)state;
    static const char *const names[] = {"rec*", NULL};
    check_one(NESTED, &(struct ct_replay_options){.select.functions = names},
              "20/1000 recurse{\n30/1000  recurse{\n40/1000   other=10\n60/1000  }recurse=30\n70/1000 }recurse=50");
    check_one(NESTED, &(struct ct_replay_options){.select.functions = names, .max_depth = 1}, "20/1000 recurse=50");
    check_one(NESTED, &(struct ct_replay_options){.select.functions = names, .max_depth = 2},
              "20/1000 recurse{\n30/1000  recurse=30\n70/1000 }recurse=50");
}

static void calls_of_modules(void **state) {
    (void)state;
    static const char *const modules[] = {"libother*", NULL}, *const names[] = {"work", NULL};
    check_one(NESTED, &(struct ct_replay_options){.select.modules = modules}, "40/1000 other=10\n90/1000 other=5");
    check_one(NESTED, &(struct ct_replay_options){.select.modules = modules, .select.functions = names},
              "40/1000 other=10");
}

static void depth(void **state) {
    (void)state;
    check_one(NESTED, &(struct ct_replay_options){.max_depth = 2},
              "0/1000 main{\n10/1000  work=70\n90/1000  other=5\n100/1000 }main=100");
    check_one(NESTED, &(struct ct_replay_options){.max_depth = 1}, "0/1000 main=100");
}

static void minimum_duration(void **state) {
    (void)state;
    check_one(NESTED, &(struct ct_replay_options){.min_ns = 30},
              "0/1000 main{\n10/1000  work{\n20/1000   recurse{\n30/1000    recurse=30\n70/1000   }recurse=50\n"
              "80/1000  }work=70\n100/1000 }main=100");
    check_one(NESTED, &(struct ct_replay_options){.min_ns = 31},
              "0/1000 main{\n10/1000  work{\n20/1000   recurse=50\n80/1000  }work=70\n100/1000 }main=100");
    check_one(NESTED, &(struct ct_replay_options){.min_ns = 101}, "");
    check(&two_threads, &(struct ct_replay_options){.min_ns = 11},
          "0/1000 main{\n5/1001 worker=45\n10/1000  leaf=80\n100/1000 }main=100");
}

/* A piece of the whole output; calls that began before are known when they end. */
static void time_range(void **state) {
    (void)state;
    check_one(
        NESTED, &(struct ct_replay_options){.select.from_ns = SAMPLE_START + 30, .select.to_ns = SAMPLE_START + 95},
        "30/1000    recurse{\n40/1000     other=10\n60/1000    }recurse=30\n70/1000   }recurse=50\n80/1000  }work=70\n"
        "90/1000  other=5 open\n95/1000 }main=95 open");
    check_one(NESTED, &(struct ct_replay_options){.select.from_ns = SAMPLE_START + 75, .min_ns = 60},
              "80/1000  }work=70\n100/1000 }main=100");
    check_one(NESTED, &(struct ct_replay_options){.select.from_ns = SAMPLE_START + 1000}, "");
}

/* ---- stopping, and a long trace ---- */

static void the_sink_may_stop_it(void **state) {
    (void)state;
    char *directory = sample_directory(), *path = sample_write(directory, &two_threads);
    struct ct_trace *trace;
    assert_int_equal(ct_trace_open(&trace, path, NULL, 0), 0);
    struct log log = {.trace = trace, .stop_after = 2};
    assert_int_equal(ct_replay(trace, &everything, on_line, &log), 7);
    assert_string_equal(log.text, "0/1000 main{\n5/1001 worker{");
    ct_trace_close(trace);
    free(path);
    sample_remove(directory);
}

/* Random calls of three threads with random filters: every line that opens is closed, by thread, at its own indent. */
struct balance {
    uint32_t open[3];
    uint64_t last_ns, lines;
    bool wrong;
};

static int on_balance(void *arg, const struct ct_replay_line *l) {
    struct balance *b = arg;
    uint32_t *open = &b->open[l->thread];
    if (l->kind == CT_REPLAY_CLOSE)
        (*open)--;
    b->wrong |= l->indent != *open || l->time_ns < b->last_ns;
    *open += l->kind == CT_REPLAY_OPEN;
    b->last_ns = l->time_ns;
    b->lines++;
    return 0;
}

static char *random_script(uint32_t *random, int events) {
    static const char *const names[] = {"main", "work", "leaf", "recurse", "other"};
    char *script = calloc(1, 64 * (size_t)events), *at = script;
    int stack[64], depth = 0, now = 0;
    for (int i = 0; i < events || depth; i++) {
        *random = *random * 1103515245 + 12345;
        now += (int)(*random >> 20) % 50;
        bool call = depth == 0 || (depth < 60 && i < events && (*random >> 16) % 2);
        if (call)
            stack[depth] = (int)(*random >> 24) % 5;
        depth += call ? 1 : -1;
        at += sprintf(at, "%d%c%s ", now, call ? '+' : '-', names[stack[call ? depth - 1 : depth]]);
    }
    return script;
}

static void every_line_that_opens_is_closed(void **state) {
    (void)state;
    uint32_t random = 1;
    static const char *const names[] = {"work", NULL}, *const modules[] = {"sample", NULL};
    for (int round = 0; round < 40; round++) {
        struct sample_thread threads[3];
        for (uint32_t i = 0; i < 3; i++)
            threads[i] = (struct sample_thread){
                .id = i + 1, .tid = 1000 + i, .name = "t", .script = random_script(&random, 300)};
        char *directory = sample_directory();
        char *path = sample_write(directory, &(struct sample){.threads = threads, .thread_count = 3});
        struct ct_replay_options options = {
            .select = {.functions = round & 1 ? names : NULL, .modules = round & 2 ? modules : NULL},
            .max_depth = round & 4 ? 5 : 0,
            .min_ns = round & 8 ? 100 : 0,
            .window = round & 16 ? 3 : 0,
        };
        struct ct_trace *trace;
        struct balance b = {0};
        assert_int_equal(ct_trace_open(&trace, path, NULL, 0), 0);
        assert_int_equal(ct_replay(trace, &options, on_balance, &b), 0);
        assert_false(b.wrong);
        assert_true(b.lines > 0);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(b.open[i], 0);
            free((char *)threads[i].script);
        }
        ct_trace_close(trace);
        free(path);
        sample_remove(directory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_are_one_line),
        cmocka_unit_test(entry_only_and_nameless),
        cmocka_unit_test(exceptions),
        cmocka_unit_test(open_at_the_end),
        cmocka_unit_test(gaps),
        cmocka_unit_test(a_gap_at_the_end),
        cmocka_unit_test(coroutines),
        cmocka_unit_test(threads_in_order_of_time),
        cmocka_unit_test(a_full_window_opens_the_oldest),
        cmocka_unit_test(one_of_the_threads),
        cmocka_unit_test(subtrees_of_functions),
        cmocka_unit_test(calls_of_modules),
        cmocka_unit_test(depth),
        cmocka_unit_test(minimum_duration),
        cmocka_unit_test(time_range),
        cmocka_unit_test(the_sink_may_stop_it),
        cmocka_unit_test(every_line_that_opens_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

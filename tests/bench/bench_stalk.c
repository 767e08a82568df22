/* SPDX-License-Identifier: Apache-2.0 */
/* What following costs: the micro workloads and, if they are installed, an interpreter and sqlite, native and followed
 * in one run, best of several; blocks translated per second; memory per translated byte.
 *
 * Programs run with the library of tests/e2e/stalk/preload.c. It is found next to this program in the build, or is the
 * only argument. */
#include <contrail/stalker.h>
#include "calls.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 7
#define CALLS  2000000u

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static volatile uint64_t result;
static uint64_t events_seen;

static void receive(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    (void)user, (void)tid, (void)events;
    events_seen += count;
}

static void summarize(void *user, int tid, const struct ct_stalker_call_count *counts, size_t count) {
    (void)user, (void)tid;
    for (size_t i = 0; i < count; i++)
        events_seen += counts[i].count;
}

/* Ways to follow, and their names in the environment of the preloaded library. */
static const struct way {
    const char *name, *setting;
    uint32_t mask;
    int summary;
} ways[] = {
    {"native", NULL, 0, 0},
    {"no events", "none", 0, 0},
    {"call+ret", "call,ret", CT_STALKER_CALL | CT_STALKER_RET, 0},
    {"call+ret+time", "call,ret,time", CT_STALKER_CALL | CT_STALKER_RET | CT_STALKER_TIMESTAMPS, 0},
    {"call+ret+fast", "call,ret,fast", CT_STALKER_CALL | CT_STALKER_RET | CT_STALKER_FAST_CLOCK, 0},
    {"block", "block", CT_STALKER_BLOCK, 0},
    {"exec", "exec", CT_STALKER_EXEC, 0},
    {"summary", "summary", CT_STALKER_CALL, 1},
};
enum { WAYS = sizeof ways / sizeof *ways };

static void print_row(const char *name, const double *best) {
    printf("%-10s", name);
    for (int i = 0; i < WAYS; i++)
        if (best[i] > 0)
            printf(" %13.2f", best[i] / best[0]);
        else
            printf(" %13s", "-");
    printf("\n");
}

/* ---- micro ---- */

static double time_followed(const struct calls_mode *mode, const struct way *way) {
    struct ct_stalker *stalker;
    struct ct_stalker_sink sink = {.size = sizeof sink, .mask = way->mask};
    if (way->summary)
        sink.on_call_summary = summarize;
    else
        sink.on_receive = receive;
    if (ct_stalker_create(&stalker, NULL) || ct_stalker_follow_me(stalker, NULL, way->mask ? &sink : NULL)) {
        fprintf(stderr, "cannot follow\n");
        exit(1);
    }
    result = mode->run(1000);
    double start = now_ns();
    result = mode->run(CALLS);
    double time = now_ns() - start;
    ct_stalker_unfollow_me(stalker);
    ct_stalker_destroy(stalker);
    return time;
}

static void bench_micro(const struct calls_mode *mode) {
    double best[WAYS] = {0};
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < WAYS; i++) {
            double start = now_ns(), time;
            if (i == 0)
                result = mode->run(CALLS);
            time = i == 0 ? now_ns() - start : time_followed(mode, &ways[i]);
            if (best[i] == 0 || time < best[i])
                best[i] = time;
        }
    print_row(mode->name, best);
    printf("%-10s %.2f ns a call; over it, ns:", "", best[0] / CALLS);
    for (int i = 1; i < WAYS; i++)
        printf(" %s %.1f", ways[i].name, (best[i] - best[0]) / CALLS);
    printf("\n");
}

/* ---- excluded code ---- */

__attribute__((noinline, section("excluded_text"))) static uint64_t excluded(uint64_t x) {
    __asm__ volatile("");
    return x + 1;
}
extern const char __start_excluded_text[], __stop_excluded_text[];

__attribute__((noinline)) static uint64_t call_excluded(uint32_t count, int indirectly) {
    uint64_t (*volatile pointer)(uint64_t) = excluded;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += indirectly ? pointer(i) : excluded(i);
    return sum;
}

static void bench_excluded(void) {
    double best[4] = {0};
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 4; i++) {
            struct ct_stalker *stalker;
            if (ct_stalker_create(&stalker, NULL) ||
                ct_stalker_exclude(stalker, (uint64_t)__start_excluded_text,
                                   (uint64_t)(__stop_excluded_text - __start_excluded_text)) ||
                (i >= 2 && ct_stalker_follow_me(stalker, NULL, NULL)))
                return;
            double start = now_ns();
            result = call_excluded(CALLS, i & 1);
            double time = now_ns() - start;
            if (i >= 2)
                ct_stalker_unfollow_me(stalker);
            ct_stalker_destroy(stalker);
            if (best[i] == 0 || time < best[i])
                best[i] = time;
        }
    printf("excluded: a call natively %.1f ns, through a pointer %.1f; followed %.1f and %.1f\n", best[0] / CALLS,
           best[1] / CALLS, best[2] / CALLS, best[3] / CALLS);
}

/* ---- inline caches ---- */

/* One indirect call that calls the first `count` of fanout's functions; `count` is a power of two. */
static __attribute__((noinline)) uint64_t call_targets(void *const *functions, uint32_t count, uint64_t calls) {
    uint64_t sum = 0;
    uint32_t place = 0;
    for (uint64_t i = 0; i < calls; i++) {
        place += 0x9e3779b9;
        sum += ((uint64_t(*)(uint64_t))functions[(place >> 28) & (count - 1)])(i);
    }
    return sum;
}

static double time_targets(void *const *functions, uint32_t count, int entries) {
    struct ct_stalker *stalker;
    struct ct_stalker_options options = {.size = sizeof options, .inline_cache_entries = entries};
    if (ct_stalker_create(&stalker, &options) || ct_stalker_follow_me(stalker, NULL, NULL)) {
        fprintf(stderr, "cannot follow\n");
        exit(1);
    }
    result = call_targets(functions, count, 1000);
    double start = now_ns();
    result = call_targets(functions, count, CALLS);
    double time = now_ns() - start;
    ct_stalker_unfollow_me(stalker);
    ct_stalker_destroy(stalker);
    return time;
}

static void bench_inline(void) {
    static const int entries[] = {-1, 1, 2, 4, 8};
    enum { COLUMNS = sizeof entries / sizeof *entries };
    void *const *functions = calls_find_mode("fanout")->functions;
    printf("an indirect call, entries of its inline cache:\n%-10s %13s %13s", "", "native", "none");
    for (int i = 1; i < COLUMNS; i++)
        printf(" %13d", entries[i]);
    printf("\n");
    for (uint32_t count = 1; count <= CALLS_FANOUT; count *= 2) {
        double native = 0, best[COLUMNS] = {0};
        for (int round = 0; round < ROUNDS; round++) {
            double start = now_ns();
            result = call_targets(functions, count, CALLS);
            double time = now_ns() - start;
            if (native == 0 || time < native)
                native = time;
            for (int i = 0; i < COLUMNS; i++) {
                time = time_targets(functions, count, entries[i]);
                if (best[i] == 0 || time < best[i])
                    best[i] = time;
            }
        }
        printf("%2u targets %13.2f", count, 1.0);
        for (int i = 0; i < COLUMNS; i++)
            printf(" %13.2f", best[i] / native);
        printf("\n");
    }
}

/* ---- programs ---- */

static double run_program(const char *const *argv, const char *library, const char *setting) {
    struct rusage before, after;
    getrusage(RUSAGE_CHILDREN, &before);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (setting) {
            setenv("LD_PRELOAD", library, 1);
            setenv("STALK_EVENTS", setting, 1);
        }
        if (!freopen("/dev/null", "w", stdout))
            _exit(127);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    getrusage(RUSAGE_CHILDREN, &after);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return 0;
    return (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) *
               1e9 +
           (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec -
                    before.ru_stime.tv_usec) *
               1e3;
}

static const char lua_script[] =
    "local function fib(n) if n < 2 then return n end return fib(n-1) + fib(n-2) end "
    "local t = {} for i = 1, 200000 do t[i] = (i * 7919) % 100003 end table.sort(t) "
    "local s = {} for i = 1, 100000 do s[#s+1] = string.format('%d:%s', i, tostring(i*3)) end "
    "local x, c = table.concat(s), 0 for w in x:gmatch('%d+') do c = c + #w end "
    "local o = {} for i = 1, 300000 do local k = 'k' .. (i % 1000) o[k] = (o[k] or 0) + i end "
    "print(fib(27), t[100], c, o.k7)";
static const char sql[] = "create table t(a integer primary key, b text, c real);"
                          "with recursive n(x) as (select 1 union all select x+1 from n where x < 200000) "
                          "insert into t select x, 'v' || (x * 7919 % 100003), x * 0.5 from n; create index tb on t(b);"
                          "select count(*), sum(c), max(b) from t where b like 'v1%';"
                          "select a.b, count(*) from t a join t b on a.b = b.b group by a.b order by 2 desc, 1 limit 5;"
                          "update t set c = c + 1 where a % 3 = 0; select sum(c) from t; delete from t where a % 7 = "
                          "0; select count(*) from t;";

static void bench_program(const char *name, const char *const *argv, const char *library) {
    double best[WAYS] = {0};
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < WAYS; i++) {
            double time = run_program(argv, library, ways[i].setting);
            if (time > 0 && (best[i] == 0 || time < best[i]))
                best[i] = time;
        }
    if (best[0] > 0)
        print_row(name, best);
    else
        printf("%-10s is not installed\n", name);
}

/* ---- translation ---- */

/* test eax, eax; jz next; ret: two blocks of a few instructions each, a million different ones. */
static void bench_translation(void) {
    enum { FUNCTIONS = 20000, SIZE = 32 };
    static const uint8_t code[SIZE] = {0x48, 0x89, 0xf8, 0x48, 0x83, 0xc0, 0x03, 0x85, 0xf6,
                                       0x74, 0x05, 0x48, 0x8d, 0x44, 0x47, 0x01, 0x48, 0x31,
                                       0xf0, 0x85, 0xd2, 0x75, 0x03, 0x48, 0xff, 0xc0, 0xc3};
    size_t size = (size_t)FUNCTIONS * SIZE;
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < FUNCTIONS; i++)
        memcpy(memory + i * SIZE, code, SIZE);
    mprotect(memory, size, PROT_READ | PROT_EXEC);
    double best = 0, rate = 0, native = 0, bytes = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct ct_stalker *stalker;
        struct ct_stalker_statistics before = {.size = sizeof before}, after = before;
        uint64_t sum = 0;
        double start = now_ns();
        for (size_t i = 0; i < FUNCTIONS; i++)
            sum += ((uint64_t(*)(uint64_t, uint64_t, uint64_t))(void *)(memory + i * SIZE))(i, i & 1, i & 2);
        native = now_ns() - start;
        ct_stalker_create(&stalker, NULL);
        ct_stalker_follow_me(stalker, NULL, NULL);
        ct_stalker_statistics(stalker, &before);
        start = now_ns();
        for (size_t i = 0; i < FUNCTIONS; i++)
            sum += ((uint64_t(*)(uint64_t, uint64_t, uint64_t))(void *)(memory + i * SIZE))(i, i & 1, i & 2);
        double time = now_ns() - start - native;
        ct_stalker_unfollow_me(stalker);
        ct_stalker_statistics(stalker, &after);
        ct_stalker_destroy(stalker);
        result = sum;
        if (best == 0 || time < best) {
            best = time;
            rate = (double)(after.blocks - before.blocks) / time * 1e3;
            bytes = (double)(after.code_bytes + after.metadata_bytes) / (double)after.original_bytes;
        }
    }
    printf("translated: %.2f M blocks a second; %.1f bytes of code and description for each original byte\n", rate,
           bytes);
    munmap(memory, size);
}

static const char *find_library(const char *program) {
    static char path[4096];
    const char *slash = strrchr(program, '/');
    snprintf(path, sizeof path, "%.*s/../e2e/stalk/libstalk_preload.so", slash ? (int)(slash - program) : 1,
             slash ? program : ".");
    return realpath(path, NULL); /* programs may change their directory, and the loader needs a path with a slash */
}

int main(int argc, char **argv) {
    const char *library = argc > 1 ? argv[1] : find_library(argv[0]);
    const char *lua[] = {"lua5.4", "-e", lua_script, NULL};
    const char *sqlite[] = {"sqlite3", ":memory:", sql, NULL};
    const char *start[] = {"python3", "-c", "pass", NULL};
    printf("time of native runs = 1\n%-10s", "");
    for (int i = 0; i < WAYS; i++)
        printf(" %13s", ways[i].name);
    printf("\n");
    for (int i = 0; calls_modes[i]; i++)
        bench_micro(calls_modes[i]);
    bench_inline();
    bench_excluded();
    if (library) {
        bench_program("lua", lua, library);
        bench_program("sqlite", sqlite, library);
        bench_program("python -c", start, library);
    }
    bench_translation();
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What scripts cost (src/script/script.h), each figure beside what it is compared to, measured in the same run:
 *   a callback            a ping-pong over futexes between two processes, of as many hops; with and without spinning
 *   a listener in C       the same listener in a process that hooks itself
 *   1,000 hooks           how long it takes to install them
 *   events of the Stalker how many arrive in a second
 *   counts of calls       a process that follows itself
 * The same from JavaScript: bench_script.js. */
#include "script/script.h"
#include <contrail/hook.h>
#include <contrail/stalker.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 5, CALLS = 3000, NATIVE_CALLS = 2000000, HOOKS = 1000, SPINS = 30000 /* ns */ };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double least(double a, double b) {
    return a < b ? a : b;
}

/* ---- the target: calls a function as often as it is told, and answers with the time ---- */

static volatile long sink;

__attribute__((noinline, used)) static long subject(long n) {
    sink += n;
    return sink;
}

static uint64_t seen;

static void count_call(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu;
    (void)call;
    seen++;
}

static void count_calls(void *user, int tid, const struct ct_stalker_call_count *counts, size_t count) {
    (void)user;
    (void)tid;
    (void)counts;
    seen += count;
}

static bool follow_oneself(void) {
    static struct ct_stalker *stalker;
    const struct ct_stalker_sink counter = {
        .size = sizeof counter, .mask = CT_STALKER_CALL, .on_call_summary = count_calls};
    return !ct_stalker_create(&stalker, NULL) && !ct_stalker_follow_me(stalker, NULL, &counter);
}

static bool hook_oneself(void) {
    static struct ct_hooks *hooks;
    const struct ct_hook_listener listener = {.size = sizeof listener, .on_call = count_call};
    return !ct_hooks_create(&hooks, NULL) && ct_hooks_attach(hooks, (void *)subject, &listener, NULL) >= 0;
}

static int be_target(const char *how) {
    void *address = (void *)subject;
    long calls;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((!strcmp(how, "hooks") && !hook_oneself()) || (!strcmp(how, "follows") && !follow_oneself()))
        return 1;
    if (write(1, &address, sizeof address) != sizeof address)
        return 1;
    while (read(0, &calls, sizeof calls) == sizeof calls) {
        double since = now();
        for (long i = 0; i < calls; i++)
            subject(i);
        double each = (now() - since) / (double)calls;
        if (write(1, &each, sizeof each) != sizeof each)
            return 1;
    }
    return 0;
}

struct target {
    pid_t pid;
    int to, from;
    uint64_t subject;
};

static void start(struct target *t, const char *how) {
    int in[2], out[2];
    if (pipe(in) || pipe(out))
        exit(1);
    t->pid = fork();
    if (!t->pid) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        execl("/proc/self/exe", "bench_script", how, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    t->to = in[1];
    t->from = out[0];
    if (read(t->from, &t->subject, sizeof t->subject) != sizeof t->subject)
        exit(1);
}

/* ns a call */
static double run(const struct target *t, long calls) {
    double each = 0;
    if (write(t->to, &calls, sizeof calls) != sizeof calls || read(t->from, &each, sizeof each) != sizeof each)
        exit(1);
    return each;
}

static void stop(struct target *t) {
    close(t->to);
    close(t->from);
    waitpid(t->pid, NULL, 0);
}

/* ---- a ping-pong over two words ---- */

struct table {
    uint32_t ball, pad[15], back;
};

static void pass(uint32_t *word, uint32_t value) {
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void await(uint32_t *word, uint32_t value, double spin) {
    double since = now();
    uint32_t is;
    while ((is = __atomic_load_n(word, __ATOMIC_SEQ_CST)) != value)
        if (now() - since > spin)
            syscall(SYS_futex, word, FUTEX_WAIT, is, NULL, NULL, 0);
}

/* ns for there and back */
static double play(double spin) {
    struct table *t = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED)
        exit(1);
    pid_t other = fork();
    if (!other) {
        for (uint32_t i = 1; i <= CALLS; i++) {
            await(&t->ball, i, spin);
            pass(&t->back, i);
        }
        _exit(0);
    }
    double since = now();
    for (uint32_t i = 1; i <= CALLS; i++) {
        pass(&t->ball, i);
        await(&t->back, i, spin);
    }
    double each = (now() - since) / CALLS;
    waitpid(other, NULL, 0);
    munmap(t, 4096);
    return each;
}

/* ---- scripts ---- */

struct server {
    struct ct_script *script;
    pthread_t thread;
    uint64_t events, lost;
};

static void take_events(struct server *v) {
    struct ct_script_events e;
    while (!ct_script_events(v->script, &e)) {
        v->events += e.count;
        v->lost += e.lost;
        ct_script_events_done(v->script, &e);
    }
}

static void *serve(void *arg) {
    struct server *v = arg;
    struct ct_script_request r;
    while (!ct_script_wait(v->script, UINT32_MAX, &r)) {
        if (r.kind == CT_SCRIPT_EVENTS)
            take_events(v);
        else if (r.slot != CT_SCRIPT_NO_SLOT)
            (void)ct_script_answer(v->script, &r, false);
    }
    return NULL;
}

static void enter(struct server *v, const struct target *t, uint32_t spin_us) {
    const struct ct_script_options options = {.size = sizeof options, .timeout_ms = 10000, .spin_us = spin_us};
    char error[512] = "";
    *v = (struct server){0};
    if (ct_script_attach(&v->script, t->pid, &options, error, sizeof error)) {
        fprintf(stderr, "bench_script: %s\n", error);
        exit(1);
    }
    pthread_create(&v->thread, NULL, serve, v);
}

static void leave(struct server *v) {
    ct_script_shut(v->script);
    pthread_join(v->thread, NULL);
    (void)ct_script_close(v->script);
}

static double callback(const struct target *t, uint32_t spin_us) {
    struct server v;
    struct ct_script_hook h = {.address = t->subject, .flags = CT_SCRIPT_ON_ENTER};
    enter(&v, t, spin_us);
    if (ct_script_hook(v.script, &h, 1) != 1)
        exit(1);
    double each = run(t, CALLS);
    leave(&v);
    return each;
}

static void compare_callbacks(const struct target *t) {
    double asleep = 1e18, spinning = 1e18, game_asleep = 1e18, game_spinning = 1e18;
    for (int i = 0; i < ROUNDS; i++) {
        asleep = least(asleep, callback(t, UINT32_MAX));
        game_asleep = least(game_asleep, play(0));
        spinning = least(spinning, callback(t, 0));
        game_spinning = least(game_spinning, play(SPINS));
    }
    printf("a callback, both sides sleep   %8.2f us  %5.2f x a ping-pong that sleeps (%.2f us; goal: 1.5)\n",
           asleep / 1e3, asleep / game_asleep, game_asleep / 1e3);
    printf("a callback, both sides spin    %8.2f us  %5.2f x a ping-pong that spins (%.2f us; goal: 15 us)\n",
           spinning / 1e3, spinning / game_spinning, game_spinning / 1e3);
}

/* ---- a listener in C ---- */

static struct ct_script_object *compile(struct ct_script *s) {
    static const char source[] = "unsigned long seen; void enter(void *cpu, void *call) { seen++; }";
    static char bytes[65536];
    struct ct_script_object *object = NULL;
    char path[] = "/tmp/bench_scriptXXXXXX", command[128];
    close(mkstemp(path));
    snprintf(command, sizeof command, "cc -x c -O2 -fPIC -ffreestanding -c -o %s -", path);
    FILE *compiler = popen(command, "w");
    fputs(source, compiler);
    bool made = !pclose(compiler);
    FILE *file = fopen(path, "rb");
    size_t size = made && file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file)
        fclose(file);
    unlink(path);
    if (ct_script_load(s, bytes, size, NULL, 0, &object))
        exit(1);
    return object;
}

static void compare_listeners(const struct target *t) {
    struct target own;
    struct server v;
    double scripted = 1e18, hooked = 1e18, bare = 1e18;
    start(&own, "hooks");
    for (int i = 0; i < ROUNDS; i++) {
        bare = least(bare, run(t, NATIVE_CALLS));
        enter(&v, t, 0);
        struct ct_script_hook h = {.address = t->subject,
                                   .native_enter = ct_script_object_symbol(compile(v.script), "enter")};
        if (ct_script_hook(v.script, &h, 1) != 1)
            exit(1);
        scripted = least(scripted, run(t, NATIVE_CALLS));
        leave(&v);
        hooked = least(hooked, run(&own, NATIVE_CALLS));
    }
    stop(&own);
    printf("a listener of a script, in C   %8.1f ns  %5.2f x the same in a process that hooks itself (%.1f ns; goal: "
           "1.2)\n",
           scripted - bare, (scripted - bare) / (hooked - bare), hooked - bare);
}

/* ---- many hooks ---- */

static void install_many(const struct target *t) {
    static uint64_t addresses[20000];
    static struct ct_script_hook hooks[HOOKS];
    struct server v;
    double begin = now();
    enter(&v, t, 0);
    double entered = now() - begin, best = 1e18;
    int64_t count = ct_script_find_functions(v.script, "str*", addresses, 20000);
    if (count < HOOKS)
        count = ct_script_find_functions(v.script, "*", addresses, 20000);
    count = count < 20000 ? count : 20000;
    int installed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        static uint32_t ids[HOOKS];
        size_t ready = 0;
        for (int64_t i = 0; i < count && i < HOOKS; i++)
            hooks[i] = (struct ct_script_hook){.address = addresses[i * (count / HOOKS)]};
        begin = now();
        installed = ct_script_hook(v.script, hooks, HOOKS);
        best = least(best, now() - begin);
        for (int i = 0; i < HOOKS; i++)
            if (!hooks[i].status)
                ids[ready++] = hooks[i].id;
        (void)ct_script_unhook(v.script, ids, ready);
    }
    leave(&v);
    printf("%4d of %d hooks installed     %8.1f ms  (goal: 100; getting into the process: %.0f ms)\n", installed, HOOKS,
           best / 1e6, entered / 1e6);
}

/* ---- events ---- */

static double count_events(const struct target *t, uint32_t summary) {
    const struct ct_script_follow what = {.mask = CT_SCRIPT_EVENT_CALL | CT_SCRIPT_EVENT_RET, .summary = summary};
    struct server v;
    double each = 1e18;
    uint64_t delivered = 0, lost = 0;
    enter(&v, t, 0);
    if (ct_script_follow(v.script, NULL, t->pid, &what))
        exit(1);
    (void)run(t, 1000);
    for (int i = 0; i < ROUNDS; i++)
        each = least(each, run(t, NATIVE_CALLS));
    (void)ct_script_unfollow(v.script, NULL, t->pid);
    usleep(100000);
    leave(&v);
    delivered = v.events;
    lost = v.lost;
    if (!summary)
        printf(
            "followed, calls and returns    %8.2f ns  a call: %.1f M events/s (goal: 5), %.1f M taken, %.1f M lost\n",
            each, 2e3 / each, (double)delivered / 1e6, (double)lost / 1e6);
    return each;
}

/* Counting by itself, and by a script. */
static void compare_counts(const struct target *t) {
    struct target own;
    double scripted = 1e18, followed = 1e18;
    start(&own, "follows");
    (void)run(&own, 1000);
    for (int i = 0; i < ROUNDS; i++) {
        followed = least(followed, run(&own, NATIVE_CALLS));
        scripted = least(scripted, count_events(t, 1));
    }
    stop(&own);
    printf("followed, calls are counted    %8.2f ns  %5.2f x a process that follows itself (%.2f ns; goal: 1.1)\n",
           scripted, scripted / followed, followed);
}

int main(int argc, char **argv) {
    struct target t;
    if (argc > 1)
        return strcmp(argv[1], "play") ? be_target(argv[1]) : printf("%f %f\n", play(0), play(SPINS)) < 0;
    signal(SIGPIPE, SIG_IGN);
    start(&t, "target");
    compare_callbacks(&t);
    compare_listeners(&t);
    install_many(&t);
    (void)count_events(&t, 0);
    compare_counts(&t);
    stop(&t);
    return 0;
}

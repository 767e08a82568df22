/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at processes from outside: threads and their backtraces, modules, symbols, registers; also of a process that
 * is hooked at the moment. Arguments: KIND=PATH of the programs to look at, all of them programs/process_target.c, and
 * contrail=PATH of the recorder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <cmocka.h>

#include <contrail/process.h>

enum { MAX_FRAMES = 40, MAX_THREADS = 16, ATTEMPTS = 20000 };

/* ---- a process ---- */

struct target {
    pid_t pid;
    pid_t child; /* ours: the process itself, or its recorder */
    int in;      /* its input; closing it ends it */
    FILE *out;   /* its output */
    struct ct_process *process;
};

static int program_count;
static char **programs;

static const char *program(const char *kind) {
    size_t length = strlen(kind);
    for (int i = 0; i < program_count; i++)
        if (!strncmp(programs[i], kind, length) && programs[i][length] == '=')
            return programs[i] + length + 1;
    return NULL;
}

static void sleep_a_little(void) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static pid_t running;            /* our child; 0: none */
static char trace_directory[64]; /* of what is recorded; "" when nothing is */

static void remove_traces(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", trace_directory);
    if (trace_directory[0] && system(command))
        fail_msg("%s", command);
    trace_directory[0] = 0;
}

/* After a test that has failed. */
static int tidy(void **state) {
    (void)state;
    if (running > 0 && kill(running, SIGKILL) == 0)
        waitpid(running, NULL, 0);
    running = 0;
    remove_traces();
    return 0;
}

/* The one child of a process. */
static pid_t child_of(pid_t pid) {
    char path[64];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &child), 1);
    fclose(file);
    return child;
}

static unsigned add_recorder(const char **argv) {
    strcpy(trace_directory, "/tmp/process_test.XXXXXX");
    assert_non_null(mkdtemp(trace_directory));
    const char *const words[] = {program("contrail"), "spawn", "--quiet", "--output", trace_directory, "--"};
    memcpy(argv, words, sizeof words);
    return sizeof words / sizeof words[0];
}

/* Runs it with these threads and waits until it says that they are there. */
static void begin(struct target *t, const char *kind, const char *const *threads) {
    int in[2], out[2];
    char line[64];
    const char *argv[20] = {NULL};
    bool recorded = !strcmp(kind, "recorded");
    unsigned n = recorded ? add_recorder(argv) : 0;
    argv[n++] = program(recorded ? "plain" : kind);
    for (int i = 0; threads[i]; i++)
        argv[n++] = threads[i];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    t->pid = fork();
    assert_true(t->pid >= 0);
    if (t->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        execv(argv[0], (char **)argv);
        _exit(127);
    }
    t->child = running = t->pid;
    close(in[0]);
    close(out[1]);
    t->in = in[1];
    t->out = fdopen(out[0], "r");
    assert_non_null(fgets(line, sizeof line, t->out));
    assert_string_equal(line, "ready\n");
    if (recorded)
        t->pid = child_of(t->child);
    char error[512] = "";
    int status = ct_process_open(&t->process, t->pid, error, sizeof error);
    if (status)
        fail_msg("%s", error);
}

/* It must have lived on unharmed: its end is its own. */
static void finish(struct target *t) {
    int status;
    ct_process_close(t->process);
    close(t->in);
    assert_int_equal(waitpid(t->child, &status, 0), t->child);
    running = 0;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    fclose(t->out);
    remove_traces();
}

#define BEGIN(t, kind, ...) begin(t, kind, (const char *const[]){__VA_ARGS__, NULL})

/* ---- its threads, remembered ---- */

struct seen_thread {
    int tid;
    char name[16], state;
    size_t count;
    struct {
        char name[64], module[256];
        uint64_t pc, offset;
    } frames[MAX_FRAMES];
};

struct seen {
    struct seen_thread threads[MAX_THREADS];
    size_t count;
};

static void remember(struct seen *seen, const struct ct_process_thread *thread) {
    assert_true(seen->count < MAX_THREADS);
    struct seen_thread *to = &seen->threads[seen->count++];
    to->tid = thread->tid;
    to->state = thread->state;
    to->count = thread->frame_count;
    memcpy(to->name, thread->name, sizeof to->name);
    assert_true(thread->frame_count <= MAX_FRAMES);
    for (size_t i = 0; i < thread->frame_count; i++) {
        snprintf(to->frames[i].name, sizeof to->frames[i].name, "%s", thread->frames[i]->name);
        snprintf(to->frames[i].module, sizeof to->frames[i].module, "%s", thread->frames[i]->module);
        to->frames[i].pc = thread->frames[i]->pc;
        to->frames[i].offset = thread->frames[i]->offset;
    }
}

static int try_to_look(struct target *t, size_t frames, struct seen *seen) {
    struct ct_process_thread thread = {.size = sizeof thread};
    uint64_t position = 0;
    int status;
    seen->count = 0;
    while ((status = ct_process_next_thread(t->process, frames, &position, &thread)) > 0)
        remember(seen, &thread);
    return status;
}

static void look(struct target *t, size_t frames, struct seen *seen) {
    int status = try_to_look(t, frames, seen);
    if (status)
        fail_msg("%s: %s", ct_status_name(status), ct_process_error(t->process));
}

static const struct seen_thread *thread_named(const struct seen *seen, const char *name) {
    for (size_t i = 0; i < seen->count; i++)
        if (!strcmp(seen->threads[i].name, name))
            return &seen->threads[i];
    return NULL;
}

/* Names one after the other, the first at any place. */
static bool has_frames(const struct seen_thread *thread, const char *const *names) {
    size_t n = 0;
    while (names[n])
        n++;
    for (size_t first = 0; thread && first + n <= thread->count; first++) {
        size_t i = 0;
        while (i < n && !strcmp(thread->frames[first + i].name, names[i]))
            i++;
        if (i == n)
            return true;
    }
    return false;
}

static void show(const struct seen_thread *thread) {
    if (!thread)
        return;
    print_error("%d %s %c\n", thread->tid, thread->name, thread->state);
    for (size_t i = 0; i < thread->count; i++)
        print_error("  #%zu %llx %s+%llx %s\n", i, (unsigned long long)thread->frames[i].pc, thread->frames[i].name,
                    (unsigned long long)thread->frames[i].offset, thread->frames[i].module);
}

static bool is_one_of(const char *name, const char *const *names) {
    for (; *names; names++)
        if (!strcmp(name, *names))
            return true;
    return false;
}

/* Looks until the thread has got to where it is going: the frames are there, and above them nothing but libraries. */
static void expect(struct target *t, const char *name, const char *const *names) {
    static struct seen seen;
    const struct seen_thread *thread = NULL;
    for (int i = 0; i < ATTEMPTS; i++, sleep_a_little()) {
        look(t, MAX_FRAMES, &seen);
        thread = thread_named(&seen, name);
        if (has_frames(thread, names) && thread->state == 'S')
            return;
    }
    show(thread);
    fail_msg("the frames of %s do not come", name);
}
#define EXPECT(t, name, ...) expect(t, name, (const char *const[]){__VA_ARGS__, NULL})

static void expect_running(struct target *t) {
    static struct seen seen;
    look(t, 0, &seen);
    for (size_t i = 0; i < seen.count; i++)
        assert_true(seen.threads[i].state != 't' && seen.threads[i].state != 'T');
}

/* ---- threads ---- */

static void test_names_and_states(void **state) {
    (void)state;
    struct target t;
    static struct seen seen;
    BEGIN(&t, "plain", "sleeper", "caller", "waiter");
    look(&t, 0, &seen);
    assert_int_equal(seen.count, 4);
    assert_int_equal(seen.threads[0].tid, t.pid);
    assert_string_equal(seen.threads[0].name, "process_target_"); /* the kernel cuts it */
    assert_non_null(thread_named(&seen, "sleeper"));
    assert_non_null(thread_named(&seen, "waiter"));
    assert_int_equal(thread_named(&seen, "caller")->state, 'R');
    for (size_t i = 0; i < seen.count; i++)
        assert_int_equal(seen.threads[i].count, 0);
    finish(&t);
}

static void expect_blocked(const char *kind) {
    struct target t;
    BEGIN(&t, kind, "sleeper", "waiter", "reader");
    EXPECT(&t, "sleeper", "inner_sleep", "middle_sleep", "sleeper");
    EXPECT(&t, "waiter", "inner_wait", "waiter");
    EXPECT(&t, "reader", "inner_read", "reader");
    EXPECT(&t, "process_target_", "main_wait", "main");
    expect_running(&t);
    finish(&t);
}

static void test_blocked(void **state) {
    (void)state;
    struct target t;
    expect_blocked("plain");
    BEGIN(&t, "plain", "sleeper", "waiter", "reader");
    EXPECT(&t, "sleeper", "clock_nanosleep", "nanosleep", "inner_sleep", "middle_sleep", "sleeper");
    EXPECT(&t, "waiter", "pthread_cond_wait", "inner_wait", "waiter");
    EXPECT(&t, "reader", "read", "inner_read", "reader");
    EXPECT(&t, "process_target_", "read", "main_wait", "main");
    finish(&t);
}

/* Frames say where they are, innermost first, and the backtrace reaches the thread's beginning. */
static void test_whole_backtrace(void **state) {
    (void)state;
    struct target t;
    static struct seen seen;
    BEGIN(&t, "plain", "sleeper");
    EXPECT(&t, "sleeper", "clock_nanosleep", "nanosleep", "inner_sleep", "middle_sleep", "sleeper");
    EXPECT(&t, "process_target_", "read", "main_wait", "main");
    look(&t, MAX_FRAMES, &seen);
    const struct seen_thread *main_thread = &seen.threads[0], *sleeper = thread_named(&seen, "sleeper");
    assert_string_equal(main_thread->frames[main_thread->count - 1].name, "_start");
    assert_non_null(strstr(main_thread->frames[0].module, "libc"));
    assert_true(main_thread->frames[main_thread->count - 1].offset > 0);
    assert_non_null(strstr(sleeper->frames[sleeper->count - 1].module, "libc")); /* clone */
    assert_true(sleeper->count >= 6 && sleeper->count <= 8);
    size_t count = sleeper->count;
    look(&t, 2, &seen);
    assert_int_equal(thread_named(&seen, "sleeper")->count, 2);
    look(&t, count, &seen);
    assert_int_equal(thread_named(&seen, "sleeper")->count, count);
    finish(&t);
}

static void test_signal_stack(void **state) {
    (void)state;
    struct target t;
    static struct seen seen;
    BEGIN(&t, "plain", "handler");
    EXPECT(&t, "handler", "inner_handler", "on_signal");
    EXPECT(&t, "handler", "interrupted", "handler"); /* on the other side of the signal's frame */
    look(&t, MAX_FRAMES, &seen);
    expect_running(&t);
    finish(&t);
}

static void test_running(void **state) {
    (void)state;
    struct target t;
    static struct seen seen;
    BEGIN(&t, "plain", "caller");
    static const char *const places[] = {"leaf", "branch", "caller", NULL};
    for (int i = 0; i < 200; i++) {
        look(&t, MAX_FRAMES, &seen);
        const struct seen_thread *thread = thread_named(&seen, "caller");
        assert_non_null(thread);
        if (!is_one_of(thread->frames[0].name, places) || !has_frames(thread, (const char *const[]){"caller", NULL})) {
            show(thread);
            fail_msg("a sample went wrong");
        }
    }
    expect_running(&t);
    finish(&t);
}

/* ---- kinds of programs ---- */

static void test_static(void **state) {
    (void)state;
    expect_blocked("static");
}

static void test_static_pie(void **state) {
    (void)state;
    expect_blocked("static_pie");
}

/* Compiled without unwind information, with frame pointers. */
static void test_frame_pointers(void **state) {
    (void)state;
    expect_blocked("frame_pointers");
}

static void test_without_anything(void **state) {
    (void)state;
    expect_blocked("no_tables");
}

static void test_musl(void **state) {
    (void)state;
    if (!program("musl"))
        skip();
    expect_blocked("musl");
}

static void test_musl_static(void **state) {
    (void)state;
    if (!program("musl_static"))
        skip();
    expect_blocked("musl_static");
}

/* No names at all, but the same frames at the same places. */
static void test_stripped(void **state) {
    (void)state;
    struct target t;
    static struct seen seen;
    const struct seen_thread *thread = NULL;
    BEGIN(&t, "stripped", "sleeper");
    size_t ours = 0;
    bool there = false;
    for (int i = 0; i < ATTEMPTS && !there; i++, sleep_a_little()) {
        look(&t, MAX_FRAMES, &seen);
        thread = thread_named(&seen, "sleeper");
        ours = 0;
        for (size_t k = 0; thread && k < thread->count; k++)
            if (strstr(thread->frames[k].module, "stripped")) {
                assert_string_equal(thread->frames[k].name, "");
                assert_true(thread->frames[k].offset > 0);
                ours++;
            }
        there = ours == 3 && has_frames(thread, (const char *const[]){"clock_nanosleep", "nanosleep", NULL});
    }
    show(there ? NULL : thread);
    assert_int_equal(ours, 3);
    assert_true(there);
    finish(&t);
}

/* ---- a process that is hooked ---- */

static void expect_hooked(const char *kind) {
    struct target t;
    BEGIN(&t, kind, "sleeper", "waiter", "reader", "handler");
    EXPECT(&t, "sleeper", "clock_nanosleep", "nanosleep", "inner_sleep", "middle_sleep", "sleeper");
    EXPECT(&t, "waiter", "pthread_cond_wait", "inner_wait", "waiter");
    EXPECT(&t, "reader", "read", "inner_read", "reader");
    EXPECT(&t, "process_target_", "read", "main_wait", "main");
    EXPECT(&t, "handler", "inner_handler", "on_signal");
    EXPECT(&t, "handler", "interrupted", "handler");
    finish(&t);
}

static void test_hooked(void **state) {
    (void)state;
    expect_hooked("hooked");
    expect_hooked("hooked_libc");
    expect_hooked("hooked_listener");
}

/* Wherever in the stubs, the shared code or the slow paths it is: the callers are right. */
static void expect_hooked_running(const char *kind) {
    struct target t;
    static struct seen seen;
    BEGIN(&t, kind, "caller");
    for (int i = 0; i < 300; i++) {
        look(&t, MAX_FRAMES, &seen);
        const struct seen_thread *thread = thread_named(&seen, "caller");
        assert_non_null(thread);
        const char *last = NULL;
        bool right = has_frames(thread, (const char *const[]){"caller", NULL});
        for (size_t k = 0; right && k < thread->count; k++) {
            if (!strcmp(thread->frames[k].name, "leaf") && k + 1 < thread->count)
                right = !strcmp(thread->frames[k + 1].name, "branch");
            if (!strcmp(thread->frames[k].name, "branch") && k + 1 < thread->count)
                right = !strcmp(thread->frames[k + 1].name, "caller");
            last = thread->frames[k].module;
        }
        if (!right || !last || !strstr(last, "libc.so")) {
            show(thread);
            fail_msg("sample %d of %s went wrong", i, kind);
        }
    }
    expect_running(&t);
    finish(&t);
}

static void test_hooked_running(void **state) {
    (void)state;
    expect_hooked_running("hooked");
    expect_hooked_running("hooked_libc");
    expect_hooked_running("hooked_listener");
}

/* By another process, which holds no ptrace meanwhile; the agent has no tables. */
static void test_recorded(void **state) {
    (void)state;
    expect_hooked("recorded");
}

static void test_recorded_running(void **state) {
    (void)state;
    expect_hooked_running("recorded");
}

/* ---- modules and symbols ---- */

struct found_module {
    const char *wanted;
    unsigned found;
    uint64_t bias, start, end;
    size_t functions;
    char build_id[128];
};

static void find_module(struct ct_process *process, struct found_module *f) {
    struct ct_process_module module = {.size = sizeof module};
    uint64_t position = 0;
    int status;
    while ((status = ct_process_next_module(process, &position, &module)) > 0) {
        if (!strstr(module.path, f->wanted))
            continue;
        f->found++;
        f->bias = module.bias;
        f->start = module.start;
        f->end = module.end;
        f->functions = module.functions;
        snprintf(f->build_id, sizeof f->build_id, "%s", module.build_id);
    }
    assert_int_equal(status, 0);
}

struct found_symbol {
    const char *wanted;
    unsigned found, all;
    uint64_t address, size;
};

static void find_symbol(struct ct_process *process, const char *glob, struct found_symbol *f) {
    struct ct_process_symbol symbol = {.size = sizeof symbol};
    uint64_t position = 0;
    int status;
    while ((status = ct_process_next_symbol(process, glob, &position, &symbol)) > 0) {
        f->all++;
        if (strcmp(symbol.name, f->wanted))
            continue;
        f->found++;
        f->address = symbol.address;
        f->size = symbol.length;
    }
    assert_int_equal(status, 0);
}

static void test_modules(void **state) {
    (void)state;
    struct target t;
    struct found_module libc = {.wanted = "libc.so"}, main_module = {.wanted = "process_target_plain"};
    struct found_module vdso = {.wanted = "[vdso]"};
    struct found_symbol symbol = {.wanted = "middle_sleep"}, none = {.wanted = "middle_sleep"};
    static struct seen seen;
    BEGIN(&t, "plain", "sleeper");
    find_module(t.process, &libc);
    find_module(t.process, &main_module);
    find_module(t.process, &vdso);
    assert_int_equal(libc.found, 1);
    assert_int_equal(main_module.found, 1);
    assert_int_equal(vdso.found, 1);
    assert_true(libc.functions > 2000 && main_module.functions > 10 && vdso.functions > 3);
    assert_int_equal(strlen(libc.build_id), 40);
    assert_true(libc.start < libc.end && libc.bias <= libc.start);

    EXPECT(&t, "sleeper", "inner_sleep", "middle_sleep", "sleeper");
    look(&t, MAX_FRAMES, &seen);
    find_symbol(t.process, "process_target_*", &symbol);
    assert_int_equal(symbol.found, 1);
    assert_int_equal(symbol.all, main_module.functions);
    const struct seen_thread *thread = thread_named(&seen, "sleeper");
    for (size_t i = 0; i < thread->count; i++)
        if (!strcmp(thread->frames[i].name, "middle_sleep")) {
            assert_int_equal(thread->frames[i].pc - thread->frames[i].offset, symbol.address);
            assert_true(thread->frames[i].offset <= symbol.size);
        }
    find_symbol(t.process, "libc.so*", &none);
    assert_int_equal(none.found, 0);
    assert_int_equal(none.all, libc.functions);
    finish(&t);
}

/* A walk may end early and begin again; what is wrong is refused; symbols of no module are none. */
static void test_walks(void **state) {
    (void)state;
    struct target t;
    struct ct_process_module first = {.size = sizeof first}, again = first, none = {0};
    struct ct_process_symbol symbol = {.size = sizeof symbol};
    struct ct_process_thread thread = {.size = sizeof thread}, same = thread;
    uint64_t position = 0;
    BEGIN(&t, "plain", "sleeper");
    assert_int_equal(ct_process_next_module(t.process, &position, &first), 1);
    position = 0;
    assert_int_equal(ct_process_next_module(t.process, &position, &again), 1);
    assert_int_equal(first.start, again.start);
    assert_int_equal(ct_process_next_module(t.process, &position, &again), 1);
    assert_true(first.start < again.start);
    assert_int_equal(ct_process_next_module(t.process, &position, &none), CT_ERR_INVALID_ARGUMENT);
    position = 0;
    assert_int_equal(ct_process_next_symbol(t.process, "no such module", &position, &symbol), 0);
    position = 0;
    assert_int_equal(ct_process_next_thread(t.process, 8, &position, &thread), 1);
    position = 0;
    assert_int_equal(ct_process_next_thread(t.process, 0, &position, &same), 1);
    assert_int_equal(thread.tid, same.tid);
    assert_int_equal(same.frame_count, 0);
    finish(&t);
}

/* ---- registers ---- */

static int set_rbx(void *arg, struct ct_cpu_context *cpu) {
    struct ct_cpu_x64 *x64 = (struct ct_cpu_x64 *)cpu;
    assert_null(x64->vector);
    x64->gpr[3] = *(uint64_t *)arg;
    return 0;
}

static int refuse(void *arg, struct ct_cpu_context *cpu) {
    struct ct_cpu_x64 *x64 = (struct ct_cpu_x64 *)cpu;
    (void)arg;
    x64->gpr[3] = 99;
    x64->pc = 0;
    return 7;
}

static void test_modify(void **state) {
    (void)state;
    struct target t;
    static struct seen seen;
    uint64_t value = 4711;
    char line[64];
    BEGIN(&t, "plain", "changed", "sleeper");
    look(&t, 0, &seen);
    int tid = thread_named(&seen, "changed")->tid;
    assert_int_equal(ct_process_modify_thread(t.process, tid, refuse, NULL), 7);
    expect_running(&t);
    for (;;) { /* until it is in the loop */
        look(&t, MAX_FRAMES, &seen);
        if (!strcmp(thread_named(&seen, "changed")->frames[0].name, "wait_for_register") &&
            thread_named(&seen, "changed")->frames[0].offset >= 16) /* the loop is after 32 nops */
            break;
    }
    assert_int_equal(ct_process_modify_thread(t.process, tid, set_rbx, &value), 0);
    assert_non_null(fgets(line, sizeof line, t.out));
    assert_string_equal(line, "changed 4711\n");
    assert_int_equal(ct_process_modify_thread(t.process, 1, set_rbx, &value), CT_ERR_NOT_FOUND);
    assert_non_null(strstr(ct_process_error(t.process), "has no thread 1"));
    expect_running(&t);
    finish(&t);
}

/* In a system call: shown as it will be made again; a new pc makes it end. */
static int leave_call(void *arg, struct ct_cpu_context *cpu) {
    struct ct_cpu_x64 *x64 = (struct ct_cpu_x64 *)cpu;
    *(uint64_t *)arg = x64->gpr[0];
    x64->pc += 2;
    x64->gpr[0] = 0;
    return 0;
}

static int look_only(void *arg, struct ct_cpu_context *cpu) {
    *(uint64_t *)arg = ((struct ct_cpu_x64 *)cpu)->gpr[0];
    return 0;
}

static void test_modify_in_call(void **state) {
    (void)state;
    struct target t;
    static struct seen seen;
    uint64_t call = 0;
    BEGIN(&t, "plain", "sleeper");
    EXPECT(&t, "sleeper", "inner_sleep", "middle_sleep", "sleeper");
    look(&t, 0, &seen);
    int tid = thread_named(&seen, "sleeper")->tid;
    assert_int_equal(ct_process_modify_thread(t.process, tid, look_only, &call), 0);
    assert_true(call == 230 || call == 219); /* clock_nanosleep, or the rest of one that was interrupted before */
    EXPECT(&t, "sleeper", "inner_sleep", "middle_sleep", "sleeper");
    assert_int_equal(ct_process_modify_thread(t.process, tid, leave_call, &call), 0);
    assert_int_equal(call, 219);
    for (int i = 0; i < ATTEMPTS; i++, sleep_a_little()) { /* it returns, and the thread ends */
        look(&t, 0, &seen);
        if (seen.count == 1)
            break;
    }
    assert_int_equal(seen.count, 1);
    finish(&t);
}

/* ---- errors ---- */

static void expect_refused(int pid, int status, const char *word) {
    struct ct_process *process = NULL;
    char error[512] = "";
    assert_int_equal(ct_process_open(&process, pid, error, sizeof error), status);
    assert_null(process);
    if (!strstr(error, word) || strchr(error, '\n'))
        fail_msg("the message is: %s", error);
    assert_int_equal(ct_process_open(&process, pid, NULL, 0), status);
}

static void test_errors(void **state) {
    (void)state;
    expect_refused(0x3ffffff, CT_ERR_NOT_FOUND, "no process");
    expect_refused(0, CT_ERR_NOT_FOUND, "process");
    pid_t zombie = fork();
    if (zombie == 0)
        _exit(0);
    siginfo_t info;
    waitid(P_PID, (id_t)zombie, &info, WEXITED | WNOWAIT);
    expect_refused(zombie, CT_ERR_ATTACH_FAILED, "ended");
    waitpid(zombie, NULL, 0);
}

/* Somebody else's process, for a user who may not. */
static void test_permission(void **state) {
    (void)state;
    struct target t;
    int status;
    if (geteuid() != 0)
        skip();
    BEGIN(&t, "plain", "sleeper");
    pid_t child = fork();
    if (child == 0) {
        struct ct_process *process;
        char error[512] = "";
        if (setgid(65534) || setuid(65534))
            _exit(1);
        int result = ct_process_open(&process, t.pid, error, sizeof error);
        _exit(result == CT_ERR_PERMISSION_DENIED && strlen(error) > 20 && !strchr(error, '\n') ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    finish(&t);
}

static void test_kernel_thread(void **state) {
    (void)state;
    char text[64] = "";
    FILE *file = fopen("/proc/2/comm", "r");
    if (!file || !fgets(text, sizeof text, file) || strcmp(text, "kthreadd\n"))
        skip(); /* in a container */
    fclose(file);
    expect_refused(2, CT_ERR_ATTACH_FAILED, "kernel thread");
}

/* Ends while it is open. */
static void test_ended(void **state) {
    (void)state;
    struct target t;
    static struct seen seen;
    BEGIN(&t, "plain", "sleeper");
    kill(t.pid, SIGKILL);
    waitpid(t.pid, NULL, 0);
    running = 0;
    assert_int_equal(try_to_look(&t, 5, &seen), CT_ERR_NOT_FOUND);
    assert_non_null(strstr(ct_process_error(t.process), "ended"));
    assert_int_not_equal(ct_process_modify_thread(t.process, t.pid, refuse, NULL), 0);
    ct_process_close(t.process);
    close(t.in);
    fclose(t.out);
}

/* Somebody else traces it. */
static void test_traced(void **state) {
    (void)state;
    struct target t;
    BEGIN(&t, "plain", "sleeper");
    assert_int_equal(ptrace(PTRACE_SEIZE, t.pid, 0, 0), 0);
    expect_refused(t.pid, CT_ERR_BUSY, "trace");
    ptrace(PTRACE_INTERRUPT, t.pid, 0, 0);
    waitpid(t.pid, NULL, __WALL);
    ptrace(PTRACE_DETACH, t.pid, 0, 0);
    finish(&t);
}

#define TEST(name) cmocka_unit_test_teardown(name, tidy)

int main(int argc, char **argv) {
    program_count = argc - 1;
    programs = argv + 1;
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        TEST(test_names_and_states), TEST(test_blocked),        TEST(test_whole_backtrace), TEST(test_signal_stack),
        TEST(test_running),          TEST(test_static),         TEST(test_static_pie),      TEST(test_frame_pointers),
        TEST(test_without_anything), TEST(test_musl),           TEST(test_musl_static),     TEST(test_stripped),
        TEST(test_hooked),           TEST(test_hooked_running), TEST(test_recorded),        TEST(test_recorded_running),
        TEST(test_modules),          TEST(test_walks),          TEST(test_modify),          TEST(test_modify_in_call),
        TEST(test_errors),           TEST(test_permission),     TEST(test_kernel_thread),   TEST(test_ended),
        TEST(test_traced),
    };
    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}

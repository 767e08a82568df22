/* SPDX-License-Identifier: Apache-2.0 */
/* Scripting a process: callbacks with changed registers, work, time limits, and that nothing stays. */
#include "script/script.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char *program;
static int kills = 6; /* `script_test TARGET --kills N` */

enum { RAX = 0, RDX = 2, RSI = 6, RDI = 7 };

/* ---- the target ---- */

struct target {
    pid_t pid;
    FILE *to, *from;
    uint64_t add, scale, inner, outer, sum10, fail_with, jump_away, twin, errno_function;
};

static void ask_line(struct target *t, char *line, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void tell(struct target *t, const char *text) {
    fprintf(t->to, "%s\n", text);
    fflush(t->to);
}

static void hear(struct target *t, char *line, size_t size) {
    alarm(60);
    assert_non_null(fgets(line, (int)size, t->from));
    alarm(0);
    line[strcspn(line, "\n")] = 0;
}

static void ask_line(struct target *t, char *line, size_t size, const char *format, ...) {
    char text[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tell(t, text);
    hear(t, line, size);
}

static void start_target(struct target *t) {
    int in[2], out[2];
    char line[512];
    unsigned long long a[9];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    t->pid = fork();
    if (!t->pid) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        execl(program, program, (char *)NULL);
        _exit(127);
    }
    close(in[0]), close(out[1]);
    t->to = fdopen(in[1], "w");
    t->from = fdopen(out[0], "r");
    hear(t, line, sizeof line);
    int found = sscanf(
        line, "add=%llx scale=%llx inner=%llx outer=%llx sum10=%llx fail_with=%llx jump_away=%llx twin=%llx errno=%llx",
        &a[0], &a[1], &a[2], &a[3], &a[4], &a[5], &a[6], &a[7], &a[8]);
    assert_int_equal(found, 9);
    t->add = a[0], t->scale = a[1], t->inner = a[2], t->outer = a[3], t->sum10 = a[4], t->fail_with = a[5];
    t->jump_away = a[6], t->twin = a[7], t->errno_function = a[8];
}

static void end_target(struct target *t) {
    int status;
    fclose(t->to);
    assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
    assert_int_equal(status, 0);
    fclose(t->from);
}

static char *read_maps(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 16);
    assert_non_null(file);
    assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
    fclose(file);
    return text;
}

/* ---- a thread that serves, as a script would ---- */

struct server {
    struct ct_script *script;
    void (*serve)(struct server *server, struct ct_script_request *request);
    const struct target *target;
    pthread_t thread;
    int enters, leaves, gone, failures;
    uint64_t call;
};

static void *serve_all(void *arg) {
    struct server *v = arg;
    struct ct_script_request r;
    while (!ct_script_wait(v->script, UINT32_MAX, &r)) {
        v->enters += r.kind == CT_SCRIPT_ENTER;
        v->leaves += r.kind == CT_SCRIPT_LEAVE;
        v->gone += r.kind == CT_SCRIPT_GONE;
        if (r.kind != CT_SCRIPT_GONE)
            v->serve(v, &r);
    }
    return NULL;
}

/* A child that is a script must not go on with the tests. */
static bool is_script;

static void give_up(const char *error) {
    if (!is_script)
        fail_msg("%s", error);
    fprintf(stderr, "the script: %s\n", error);
    _exit(3);
}

static void begin_server(struct server *v, const struct target *t, const struct ct_script_options *options,
                         void (*serve)(struct server *server, struct ct_script_request *request)) {
    static const struct ct_script_options patient = {.size = sizeof patient, .timeout_ms = 30000};
    char error[512] = "";
    *v = (struct server){.serve = serve, .target = t};
    if (ct_script_attach(&v->script, t->pid, options ? options : &patient, error, sizeof error))
        give_up(error);
    assert_int_equal(pthread_create(&v->thread, NULL, serve_all, v), 0);
}

static void end_server(struct server *v) {
    ct_script_shut(v->script);
    pthread_join(v->thread, NULL);
    assert_int_equal(ct_script_close(v->script), 0);
}

static void hook(struct server *v, uint64_t address, uint32_t flags) {
    struct ct_script_hook h = {.address = address, .flags = flags};
    char error[512];
    if (ct_script_hook(v->script, &h, 1) != 1) {
        ct_script_error(v->script, error, sizeof error);
        give_up(error);
    }
}

/* ---- registers ---- */

static void change_numbers(struct server *v, struct ct_script_request *r) {
    if (r->kind == CT_SCRIPT_ENTER) {
        r->cpu.gpr[RDI] += 100;
        v->call = r->call;
    } else {
        assert_true(r->call == v->call);
        r->cpu.gpr[RAX] *= 2;
    }
    v->failures += ct_script_answer(v->script, r, true) != 0;
}

static void changes_arguments_and_result(void **state) {
    struct target t;
    struct server v;
    char line[128];
    (void)state;
    start_target(&t);
    ask_line(&t, line, sizeof line, "add 1 2");
    char *before = read_maps(t.pid);
    begin_server(&v, &t, NULL, change_numbers);
    hook(&v, t.add, CT_SCRIPT_ON_ENTER | CT_SCRIPT_ON_LEAVE);
    ask_line(&t, line, sizeof line, "add 1 2");
    assert_string_equal(line, "206");
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "222");
    assert_int_equal(v.enters, 2);
    assert_int_equal(v.leaves, 2);
    assert_int_equal(v.failures, 0);
    end_server(&v);
    char *after = read_maps(t.pid);
    assert_string_equal(before, after);
    free(before);
    free(after);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "11");
    end_target(&t);
}

static void change_reals(struct server *v, struct ct_script_request *r) {
    double x[2];
    assert_int_equal(ct_script_read_vector(v->script, r, 0, x), 0);
    x[0] += 1;
    assert_int_equal(ct_script_write_vector(v->script, r, 0, x), 0);
    v->failures += ct_script_answer(v->script, r, false) != 0;
}

static void changes_vector_registers(void **state) {
    struct target t;
    struct server v;
    char line[128];
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, change_reals);
    hook(&v, t.scale, CT_SCRIPT_ON_ENTER | CT_SCRIPT_ON_LEAVE);
    ask_line(&t, line, sizeof line, "scale 2 10");
    assert_string_equal(line, "31.000"); /* (2 + 1) * 10 + 1 */
    end_server(&v);
    end_target(&t);
}

/* ---- work ---- */

static void answer_nested(void *arg, const struct ct_script_request *nested) {
    struct server *v = arg;
    struct ct_script_request r = *nested;
    v->call++;
    r.cpu.gpr[RDI] += 10;
    v->failures += ct_script_answer(v->script, &r, true) != 0;
}

static void call_functions(struct server *v, struct ct_script_request *r) {
    const struct target *t = v->target;
    struct ct_script_call c = {
        .function = t->sum10, .integers = {1, 2, 3, 4, 5, 6}, .stack_count = 4, .stack = {7, 8, 9, 10}};
    v->failures += ct_script_run(v->script, r, &c, NULL, NULL) != 0;
    v->failures += c.result != 385;
    double x = 1.5, y = 4;
    c = (struct ct_script_call){.function = t->scale, .real_count = 2};
    memcpy(&c.reals[0], &x, sizeof x);
    memcpy(&c.reals[1], &y, sizeof y);
    v->failures += ct_script_run(v->script, r, &c, NULL, NULL) != 0;
    memcpy(&x, &c.real, sizeof x);
    v->failures += x != 6;
    c = (struct ct_script_call){.function = t->fail_with, .integers = {9}, .errno_function = t->errno_function};
    v->failures += ct_script_run(v->script, r, &c, NULL, NULL) != 0;
    v->failures += (int)c.result != -1 || c.error != 9;
    c = (struct ct_script_call){.integers = {39 /* getpid */}};
    v->failures += ct_script_run(v->script, r, &c, NULL, NULL) != 0;
    v->failures += (int)c.result != t->pid;
    /* inner is hooked: its callback is served while outer runs */
    c = (struct ct_script_call){.function = t->outer, .integers = {5}};
    v->failures += ct_script_run(v->script, r, &c, answer_nested, v) != 0;
    v->failures += c.result != 2 * 16;
    v->failures += ct_script_answer(v->script, r, false) != 0;
}

static void does_work(void **state) {
    struct target t;
    struct server v;
    char line[128];
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, call_functions);
    hook(&v, t.add, CT_SCRIPT_ON_ENTER);
    hook(&v, t.inner, CT_SCRIPT_ON_ENTER);
    ask_line(&t, line, sizeof line, "jump 1");
    assert_string_equal(line, "added 2 errno 77"); /* the program's errno is as before */
    assert_int_equal(v.failures, 0);
    assert_int_equal(v.call, 1);
    assert_int_equal(v.enters, 1);
    end_server(&v);
    end_target(&t);
}

static void jump_out(struct server *v, struct ct_script_request *r) {
    struct ct_script_call c = {.function = v->target->jump_away, .integers = {1}};
    v->failures += ct_script_run(v->script, r, &c, NULL, NULL) != CT_ERR_NOT_FOUND;
}

static void plain(struct server *v, struct ct_script_request *r) {
    (void)ct_script_answer(v->script, r, false);
}

static void survives_work_that_jumps_away(void **state) {
    struct target t;
    struct server v;
    char line[128];
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, jump_out);
    hook(&v, t.add, CT_SCRIPT_ON_ENTER);
    ask_line(&t, line, sizeof line, "jump 1");
    assert_string_equal(line, "jumped");
    v.serve = plain;
    ask_line(&t, line, sizeof line, "add 1 2"); /* shows that the thread is elsewhere */
    assert_string_equal(line, "3");
    end_server(&v);
    assert_int_equal(v.failures, 0);
    end_target(&t);
}

/* ---- time limits, signals, forks, many threads ---- */

static void answer_late(struct server *v, struct ct_script_request *r) {
    usleep(150000);
    r->cpu.gpr[RDI] = 1000;
    v->failures += ct_script_answer(v->script, r, true) != CT_ERR_TIMEOUT;
}

static void goes_on_after_the_limit(void **state) {
    struct target t;
    struct server v;
    char line[128];
    struct ct_script_state now;
    const struct ct_script_options options = {.size = sizeof options, .timeout_ms = 50};
    (void)state;
    start_target(&t);
    begin_server(&v, &t, &options, answer_late);
    hook(&v, t.add, CT_SCRIPT_ON_ENTER);
    ask_line(&t, line, sizeof line, "add 1 2");
    assert_string_equal(line, "3");
    ct_script_get_state(v.script, &now);
    assert_int_equal(now.timeouts, 1);
    assert_int_equal(now.hooks, 1);
    end_server(&v);
    assert_int_equal(v.failures, 0);
    end_target(&t);
}

static void serves_threads_and_signals(void **state) {
    struct target t;
    struct server v;
    char line[128];
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, plain);
    hook(&v, t.add, CT_SCRIPT_ON_ENTER | CT_SCRIPT_ON_LEAVE);
    hook(&v, t.inner, CT_SCRIPT_ON_LEAVE | CT_SCRIPT_ON_ENTER);
    ask_line(&t, line, sizeof line, "alarm");
    ask_line(&t, line, sizeof line, "threads 8 50");
    assert_string_equal(line, "wrong 0");
    assert_int_equal(v.enters, 8 * 50 * 2);
    assert_int_equal(v.leaves, 8 * 50 * 2);
    ask_line(&t, line, sizeof line, "ticks");
    assert_true(atoi(line) > 0);
    ask_line(&t, line, sizeof line, "fork");
    assert_string_equal(line, "child 0");
    assert_int_equal(v.enters, 8 * 50 * 2); /* children are not scripted */
    end_server(&v);
    end_target(&t);
}

/* The agent makes no system call once the program has forbidden itself some: threads look for their answers. */
static void serves_a_program_that_forbids_calls(void **state) {
    struct target t;
    struct server v;
    char line[128];
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, change_numbers);
    hook(&v, t.add, CT_SCRIPT_ON_ENTER | CT_SCRIPT_ON_LEAVE);
    ask_line(&t, line, sizeof line, "filter");
    assert_string_equal(line, "0");
    for (int i = 0; i < 3; i++) {
        ask_line(&t, line, sizeof line, "add 1 2");
        assert_string_equal(line, "206");
    }
    ct_script_shut(v.script);
    pthread_join(v.thread, NULL);
    (void)ct_script_close(v.script); /* without rights to lift the filter, memory stays */
    ask_line(&t, line, sizeof line, "add 1 2");
    assert_string_equal(line, "3");
    end_target(&t);
}

static void tells_the_end(void **state) {
    struct target t;
    struct server v;
    char line[128];
    int status;
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, plain);
    hook(&v, t.add, CT_SCRIPT_ON_ENTER);
    ask_line(&t, line, sizeof line, "exec");
    assert_string_equal(line, "exec");
    assert_int_equal(waitpid(t.pid, &status, 0), t.pid);
    assert_int_equal(status, 0);
    pthread_join(v.thread, NULL); /* ends by itself */
    assert_int_equal(v.gone, 1);
    assert_int_equal(ct_script_close(v.script), 0);
    fclose(t.to);
    fclose(t.from);
}

/* ---- spawn ---- */

static void changes_a_spawned_program(void **state) {
    struct server v = {.serve = change_numbers};
    char error[512] = "", *argv[] = {program, "40", NULL};
    struct ct_script_state now;
    struct ct_script_request r;
    (void)state;
    if (ct_script_spawn(&v.script, program, argv, NULL, NULL, error, sizeof error))
        fail_msg("%s", error);
    ct_script_get_state(v.script, &now);
    assert_int_equal(now.life, CT_SCRIPT_STOPPED);
    uint64_t add = 0;
    assert_int_equal(ct_script_find_functions(v.script, "add", &add, 1), 1);
    hook(&v, add, CT_SCRIPT_ON_ENTER);
    assert_int_equal(ct_script_resume(v.script), 0);
    assert_int_equal(ct_script_resume(v.script), CT_ERR_BAD_STATE);
    assert_int_equal(ct_script_wait(v.script, 10000, &r), 0);
    assert_int_equal(r.cpu.gpr[RDI], 40);
    r.cpu.gpr[RDI] = 4;
    assert_int_equal(ct_script_answer(v.script, &r, true), 0);
    assert_int_equal(ct_script_wait(v.script, 10000, &r), 0);
    assert_int_equal(r.kind, CT_SCRIPT_GONE);
    ct_script_get_state(v.script, &now);
    assert_int_equal(now.life, CT_SCRIPT_ENDED);
    assert_int_equal(now.exit_status, 6 << 8);
    assert_int_equal(ct_script_close(v.script), 0);
}

/* ---- the script's death ---- */

static void be_a_script(const struct target *t) {
    struct server v;
    is_script = true;
    begin_server(&v, t, NULL, plain);
    hook(&v, t->add, CT_SCRIPT_ON_ENTER | CT_SCRIPT_ON_LEAVE);
    hook(&v, t->inner, CT_SCRIPT_ON_ENTER | CT_SCRIPT_ON_LEAVE);
    pause();
    _exit(0);
}

static void outlives_the_script(void **state) {
    struct target t;
    char line[128];
    (void)state;
    start_target(&t);
    srand(1);
    for (int i = 0; i < kills; i++) {
        pid_t script = fork();
        if (!script)
            be_a_script(&t);
        tell(&t, "threads 4 300");
        usleep((useconds_t)(rand() % 60000));
        kill(script, SIGKILL);
        waitpid(script, NULL, 0);
        hear(&t, line, sizeof line);
        assert_string_equal(line, "wrong 0");
    }
    struct server v; /* cleans up */
    begin_server(&v, &t, NULL, plain);
    end_server(&v);
    char *maps = read_maps(t.pid);
    assert_null(strstr(maps, "contrail"));
    free(maps);
    end_target(&t);
}

/* ---- memory ---- */

static void uses_memory(void **state) {
    struct target t;
    struct server v;
    char text[16] = "", line[128];
    uint64_t at = 0, near = 0;
    uint32_t before = 0;
    (void)state;
    start_target(&t);
    ask_line(&t, line, sizeof line, "add 1 2");
    char *maps = read_maps(t.pid);
    begin_server(&v, &t, NULL, plain);
    assert_int_equal(ct_script_alloc(v.script, CT_SCRIPT_NO_SLOT, 0, 10000, 3, &at), 0);
    assert_int_equal(ct_script_write(v.script, at, "hello", 6), 0);
    assert_int_equal(ct_script_read(v.script, at, text, 6), 0);
    assert_string_equal(text, "hello");
    assert_int_equal(ct_script_protect(v.script, CT_SCRIPT_NO_SLOT, at, 1, 1, &before), 0);
    assert_int_equal(before, 3);
    assert_int_equal(ct_script_alloc(v.script, CT_SCRIPT_NO_SLOT, t.add, 4096, 3, &near), 0);
    assert_true((near > t.add ? near - t.add : t.add - near) < 1u << 30);
    assert_int_equal(ct_script_read(v.script, 16, text, 6), CT_ERR_NOT_MAPPED);
    assert_int_equal(ct_script_write(v.script, 16, text, 6), CT_ERR_NOT_MAPPED);
    assert_int_equal(ct_script_read_some(v.script, at + 12288 - 4, text, 8) >= 4, 1);
    assert_int_equal(ct_script_free(v.script, CT_SCRIPT_NO_SLOT, near), 0);
    assert_int_equal(ct_script_free(v.script, CT_SCRIPT_NO_SLOT, near), CT_ERR_NOT_FOUND);
    end_server(&v);
    char *after = read_maps(t.pid);
    assert_string_equal(maps, after);
    free(maps);
    free(after);
    end_target(&t);
}

/* ---- replacements, callbacks, calls outside of callbacks ---- */

static void multiply(struct server *v, struct ct_script_request *r) {
    if (r->kind == CT_SCRIPT_CALLBACK)
        r->cpu.gpr[RAX] = r->cpu.gpr[RDI] * 10 + r->cpu.gpr[RSI];
    v->call = r->id; /* before the answer, with which the target goes on */
    v->failures += ct_script_answer(v->script, r, true) != 0;
}

static void replaces_functions(void **state) {
    struct target t;
    struct server v;
    char line[128];
    uint64_t address = 0;
    uint32_t id = 99, first = 99;
    (void)state;
    start_target(&t);
    ask_line(&t, line, sizeof line, "add 5 6");
    char *before = read_maps(t.pid);
    begin_server(&v, &t, NULL, multiply);
    struct ct_script_hook h = {.address = t.add, .replacement = t.twin};
    assert_int_equal(ct_script_hook(v.script, &h, 1), 1);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "30");
    assert_int_equal(ct_script_unhook(v.script, &h.id, 1), 0);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "11");
    assert_int_equal(ct_script_callback(v.script, CT_SCRIPT_NO_SLOT, &address, &first), 0);
    assert_int_equal(ct_script_callback(v.script, CT_SCRIPT_NO_SLOT, &address, &id), 0);
    h.replacement = address;
    assert_int_equal(ct_script_hook(v.script, &h, 1), 1);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "56");
    assert_int_equal(v.call, id);
    struct ct_script_call c = {.function = h.original, .integers = {20, 3}};
    assert_int_equal(ct_script_run(v.script, NULL, &c, NULL, NULL), 0);
    assert_int_equal(c.result, 23);
    assert_int_equal(ct_script_unhook(v.script, &h.id, 1), 0);
    end_server(&v);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "11");
    char *after = read_maps(t.pid);
    assert_null(strstr(after, "contrail"));
    free(before);
    free(after);
    assert_int_equal(v.failures, 0);
    end_target(&t);
}

static void calls_outside_of_callbacks(void **state) {
    struct target t;
    struct server v;
    char line[128];
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, plain);
    for (int i = 0; i < 20; i++) {
        struct ct_script_call c = {.function = t.add, .integers = {1, (uint64_t)i}};
        assert_int_equal(ct_script_run(v.script, NULL, &c, NULL, NULL), 0);
        assert_int_equal(c.result, 1 + i);
    }
    hook(&v, t.inner, CT_SCRIPT_ON_ENTER);
    struct ct_script_call c = {.function = t.outer, .integers = {5}};
    assert_int_equal(ct_script_run(v.script, NULL, &c, answer_nested, &v), 0);
    assert_int_equal(c.result, 32);
    assert_int_equal(v.call, 1);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "11");
    ask_line(&t, line, sizeof line, "threads 4 50");
    assert_string_equal(line, "wrong 0");
    end_server(&v);
    ask_line(&t, line, sizeof line, "threads 4 50");
    assert_string_equal(line, "wrong 0");
    end_target(&t);
}

static void look_at_stack(struct server *v, struct ct_script_request *r) {
    uint64_t frames[16];
    struct ct_script_place place;
    if (r->kind == CT_SCRIPT_LEAVE) {
        plain(v, r);
        return;
    }
    int count = ct_script_backtrace(v->script, r->slot, 0, false, frames, 16);
    v->failures += count < 3 || frames[0] != v->target->inner;
    v->failures += count > 1 && (ct_script_describe(v->script, frames[1], &place) || strcmp(place.name, "outer"));
    v->failures += ct_script_backtrace(v->script, r->slot, 0, true, frames, 16) < 3;
    v->failures += ct_script_answer(v->script, r, false) != 0;
}

static void lists_what_is_there(void **state) {
    struct target t;
    struct server v;
    char line[128];
    struct ct_script_thread *threads;
    struct ct_script_module *modules;
    struct ct_script_symbol *symbols;
    struct ct_script_range *ranges;
    struct ct_script_place place;
    size_t count, module_count;
    bool found = false;
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, look_at_stack);
    assert_int_equal(ct_script_threads(v.script, &threads, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(threads[0].tid, t.pid);
    free(threads);
    assert_int_equal(ct_script_modules(v.script, &modules, &module_count), 0);
    assert_true(module_count >= 1);
    assert_non_null(strstr(modules[0].path, strrchr(program, '/')));
    assert_int_equal(ct_script_symbols(v.script, modules[0].base, CT_SCRIPT_SYMBOLS, &symbols, &count), 0);
    for (size_t i = 0; i < count; i++)
        found |= !strcmp(symbols[i].name, "add") && symbols[i].address == t.add;
    assert_true(found);
    free(symbols);
    found = false;
    assert_int_equal(ct_script_symbols(v.script, modules[0].base, CT_SCRIPT_IMPORTS, &symbols, &count), 0);
    for (size_t i = 0; i < count; i++)
        found |= !strcmp(symbols[i].name, "longjmp") || !strcmp(symbols[i].name, "printf");
    assert_true(found || module_count == 1); /* a static program has none */
    free(symbols);
    found = false;
    for (size_t m = 0; m < module_count; m++) {
        assert_int_equal(ct_script_symbols(v.script, modules[m].base, CT_SCRIPT_EXPORTS, &symbols, &count), 0);
        for (size_t i = 0; i < count; i++)
            found |= !strcmp(symbols[i].name, "pthread_create");
        free(symbols);
    }
    assert_true(found || module_count == 1);
    ct_script_free_modules(modules, module_count);
    assert_int_equal(ct_script_ranges(v.script, &ranges, &count), 0);
    for (size_t i = 0; i < count; i++)
        assert_null(strstr(ranges[i].path, "contrail:"));
    free(ranges);
    assert_int_equal(ct_script_describe(v.script, t.add + 1, &place), 0);
    assert_string_equal(place.name, "add");
    assert_true(place.function == t.add);
    assert_non_null(strstr(place.file, "script_target.c"));
    assert_int_equal(ct_script_describe(v.script, 4096, &place), CT_ERR_NOT_FOUND);
    hook(&v, t.inner, CT_SCRIPT_ON_ENTER);
    hook(&v, t.outer, CT_SCRIPT_ON_LEAVE);
    ask_line(&t, line, sizeof line, "outer 1");
    assert_int_equal(v.enters, 1);
    end_server(&v);
    assert_int_equal(v.failures, 0);
    end_target(&t);
}

static void refuses_what_cannot_be(void **state) {
    struct target t;
    struct server v;
    char error[512];
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, plain);
    struct ct_script_hook h[3] = {
        {.address = t.add + 1, .flags = 1}, {.address = t.add, .flags = 1}, {.address = t.add, .flags = 1}};
    assert_int_equal(ct_script_hook(v.script, h, 3), 1);
    assert_int_equal(h[0].status, CT_ERR_NOT_FUNCTION);
    assert_int_equal(h[1].status, 0);
    assert_int_equal(h[2].status, CT_ERR_ALREADY_HOOKED);
    uint32_t id = 1u << 30;
    assert_int_equal(ct_script_unhook(v.script, &id, 1), CT_ERR_NOT_FOUND);
    struct ct_script *other;
    assert_int_equal(ct_script_attach(&other, t.pid, NULL, error, sizeof error), CT_ERR_BUSY);
    assert_non_null(strstr(error, "scripted"));
    end_server(&v);
    end_target(&t);
}

/* ---- the Stalker ---- */

struct counts {
    uint64_t calls, returns, others, inner, lost;
};

static void take_events(struct server *v, struct counts *c, uint64_t inner) {
    struct ct_script_events e;
    while (!ct_script_events(v->script, &e)) {
        const struct ct_script_event *event = e.data;
        const struct ct_script_call_count *count = e.data;
        for (size_t i = 0; i < e.count && !e.summary; i++) {
            c->calls += event[i].kind == CT_SCRIPT_EVENT_CALL;
            c->returns += event[i].kind == CT_SCRIPT_EVENT_RET;
            c->inner += event[i].kind == CT_SCRIPT_EVENT_CALL && event[i].target == inner;
            c->inner += event[i].kind == CT_SCRIPT_EVENT_EXEC && event[i].location == inner;
        }
        for (size_t i = 0; i < e.count && e.summary; i++) {
            c->calls += count[i].count;
            c->inner += count[i].target == inner ? count[i].count : 0;
        }
        c->lost += e.lost;
        ct_script_events_done(v->script, &e);
    }
}

static void leave_alone(struct server *v, struct ct_script_request *r) {
    if (r->kind != CT_SCRIPT_EVENTS)
        (void)ct_script_answer(v->script, r, false);
}

static void follows_a_thread(void **state) {
    struct target t;
    struct server v;
    struct counts c = {0};
    char line[128];
    (void)state;
    start_target(&t);
    ask_line(&t, line, sizeof line, "outer 1");
    char *before = read_maps(t.pid);
    begin_server(&v, &t, NULL, leave_alone);
    for (uint32_t summary = 0; summary < 2; summary++) {
        const struct ct_script_follow what = {.mask = CT_SCRIPT_EVENT_CALL | CT_SCRIPT_EVENT_RET, .summary = summary};
        c = (struct counts){0};
        assert_int_equal(ct_script_follow(v.script, NULL, t.pid, &what), 0);
        assert_int_equal(ct_script_follow(v.script, NULL, t.pid, &what), CT_ERR_BAD_STATE);
        for (int i = 0; i < 100; i++) {
            ask_line(&t, line, sizeof line, "outer 4");
            assert_string_equal(line, "10");
        }
        assert_int_equal(ct_script_unfollow(v.script, NULL, t.pid), 0);
        take_events(&v, &c, t.inner);
        assert_int_equal(c.inner, 100);
        assert_true(c.calls > 1000);
        assert_int_equal(c.lost, 0);
        assert_true(summary || c.returns > 1000);
    }
    end_server(&v);
    char *after = read_maps(t.pid);
    assert_string_equal(before, after);
    free(before);
    free(after);
    ask_line(&t, line, sizeof line, "outer 4");
    assert_string_equal(line, "10");
    end_target(&t);
}

/* On a busy machine a thread may be stopped in the middle of translating, again and again. */
#define PATIENTLY(call)                                                                                                \
    do {                                                                                                               \
        int patient_status = CT_ERR_BUSY;                                                                              \
        for (int patient = 0; patient < 100 && patient_status == CT_ERR_BUSY; patient++)                               \
            patient_status = (int)(call);                                                                              \
        assert_true(patient_status >= 0);                                                                              \
    } while (0)

/* What is recorded is handed over while the thread runs, wherever it is: once, and all of it. All fits into the ring,
 * so that nothing is lost on a busy machine. */
static void flush_often(struct server *v, struct target *t, const struct ct_script_follow *what, uint64_t calls) {
    struct counts c = {0};
    char line[128];
    int early = 0;
    PATIENTLY(ct_script_follow(v->script, NULL, t->pid, what));
    snprintf(line, sizeof line, "calls %d %d", (int)calls, (int)calls / 200);
    tell(t, line);
    for (int i = 0; i < 1000 && c.inner < calls; i++) {
        PATIENTLY(ct_script_flush(v->script));
        take_events(v, &c, t->inner);
        early += c.inner > 0 && c.inner < calls;
        if (i % 50 == 0) /* code is translated anew meanwhile */
            PATIENTLY(ct_script_set_trust(v->script, i / 50 % 3));
    }
    hear(t, line, sizeof line);
    PATIENTLY(ct_script_collect(v->script));
    PATIENTLY(ct_script_unfollow(v->script, NULL, t->pid));
    take_events(v, &c, t->inner);
    assert_int_equal(c.inner, calls);
    assert_int_equal(c.lost, 0);
    assert_true(early > 0);
}

static void hands_over_at_a_flush(void **state) {
    static const struct ct_script_follow calls = {.mask = CT_SCRIPT_EVENT_CALL},
                                         instructions = {.mask = CT_SCRIPT_EVENT_EXEC}, counts = {.summary = 1};
    struct target t;
    struct server v;
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, leave_alone);
    assert_int_equal(ct_script_flush(v.script), 0); /* nobody is followed */
    assert_int_equal(ct_script_collect(v.script), 0);
    assert_int_equal(ct_script_set_queue(v.script, 1 << 17, 0), 0);
    flush_often(&v, &t, &calls, 300000);
    flush_often(&v, &t, &instructions, 20000);
    flush_often(&v, &t, &counts, 1000000);
    assert_int_equal(ct_script_set_trust(v.script, -2), CT_ERR_INVALID_ARGUMENT);
    end_server(&v);
    end_target(&t);
}

static void follow_in_call(struct server *v, struct ct_script_request *r) {
    const struct ct_script_follow what = {.mask = CT_SCRIPT_EVENT_CALL};
    if (r->kind == CT_SCRIPT_EVENTS)
        return;
    if (r->kind == CT_SCRIPT_ENTER)
        v->failures += ct_script_follow(v->script, r, 0, &what) != 0;
    else
        v->failures += ct_script_unfollow(v->script, r, 0) != 0;
    v->failures += ct_script_answer(v->script, r, false) != 0;
}

static void follows_a_call(void **state) {
    struct target t;
    struct server v;
    struct counts c = {0};
    char line[128];
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, follow_in_call);
    hook(&v, t.outer, CT_SCRIPT_ON_ENTER | CT_SCRIPT_ON_LEAVE);
    for (int i = 0; i < 20; i++) {
        ask_line(&t, line, sizeof line, "outer 4");
        assert_string_equal(line, "10");
    }
    take_events(&v, &c, t.inner);
    assert_int_equal(c.inner, 20);
    assert_int_equal(v.enters, 20);
    assert_int_equal(v.leaves, 20);
    end_server(&v);
    assert_int_equal(v.failures, 0);
    ask_line(&t, line, sizeof line, "threads 4 50");
    assert_string_equal(line, "wrong 0");
    end_target(&t);
}

static void follows_threads_until_the_end(void **state) {
    struct target t;
    struct server v;
    char line[128];
    struct ct_script_thread *threads;
    size_t count;
    int followed = 0;
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, leave_alone);
    hook(&v, t.inner, CT_SCRIPT_ON_ENTER);
    tell(&t, "threads 6 2000");
    usleep(20000);
    const struct ct_script_follow what = {.mask = CT_SCRIPT_EVENT_CALL};
    assert_int_equal(ct_script_threads(v.script, &threads, &count), 0);
    for (size_t i = 0; i < count; i++)
        followed += !ct_script_follow(v.script, NULL, threads[i].tid, &what);
    free(threads);
    assert_true(followed > 1);
    end_server(&v);
    hear(&t, line, sizeof line);
    assert_string_equal(line, "wrong 0");
    end_target(&t);
}

/* Threads go on natively as soon as they notice. */
static void outlives_a_script_that_follows(void **state) {
    struct target t;
    char line[128], error[512];
    struct ct_script *other;
    (void)state;
    for (int i = 0; i < 1; i++) {
        start_target(&t);
        pid_t script = fork();
        if (!script) {
            struct server v;
            const struct ct_script_follow what = {.mask = CT_SCRIPT_EVENT_CALL | CT_SCRIPT_EVENT_RET};
            is_script = true;
            begin_server(&v, &t, NULL, leave_alone);
            hook(&v, t.inner, CT_SCRIPT_ON_ENTER);
            (void)ct_script_follow(v.script, NULL, t.pid, &what);
            pause();
        }
        tell(&t, "threads 4 300");
        usleep((useconds_t)(40000 + rand() % 60000));
        kill(script, SIGKILL);
        waitpid(script, NULL, 0);
        hear(&t, line, sizeof line);
        assert_string_equal(line, "wrong 0");
        for (int k = 0; k < 50; k++) {
            ask_line(&t, line, sizeof line, "outer 4");
            assert_string_equal(line, "10");
        }
        int status = ct_script_attach(&other, t.pid, NULL, error, sizeof error);
        if (!status) /* it was killed before it followed */
            assert_int_equal(ct_script_close(other), 0);
        ask_line(&t, line, sizeof line, "outer 4");
        assert_string_equal(line, "10");
        end_target(&t);
    }
}

/* Before each instruction of outer's first block a callout; inner's first instruction is jumped over nothing: a branch
 * that is taken, to a label after a callout that must not run. */
static void edit_block(struct server *v, struct ct_script_request *r) {
    struct ct_script_insn insns[128];
    struct ct_script_edit edits[400];
    int count = ct_script_block(v->script, r, insns, 128);
    size_t n = 0;
    v->failures += count <= 0 || insns[0].address != r->address;
    for (int i = 0; i < count; i++) {
        if (!i && insns[i].address == v->target->inner) {
            edits[n++] = (struct ct_script_edit){.kind = CT_SCRIPT_PUT_CALLOUT, .id = 7};
            edits[n++] = (struct ct_script_edit){.kind = CT_SCRIPT_PUT_JUMP, .id = 1, .user = 16};
            edits[n++] = (struct ct_script_edit){.kind = CT_SCRIPT_PUT_CALLOUT, .id = 8};
            edits[n++] = (struct ct_script_edit){.kind = CT_SCRIPT_PUT_LABEL, .id = 1};
            edits[n++] = (struct ct_script_edit){.kind = CT_SCRIPT_BYTES, .length = 1, .bytes = {0x90}};
        }
        edits[n++] = (struct ct_script_edit){.kind = CT_SCRIPT_KEEP, .insn = (uint32_t)i};
    }
    v->failures += ct_script_transform(v->script, r, edits, n) != 0;
}

static void transform_blocks(struct server *v, struct ct_script_request *r) {
    if (r->kind == CT_SCRIPT_TRANSFORM) {
        edit_block(v, r);
        return;
    }
    if (r->kind == CT_SCRIPT_CALLOUT) {
        v->failures += r->id != 7 || r->cpu.pc != v->target->inner;
        v->call++;
        r->cpu.gpr[RDI] += 5;
    } else if (r->kind == CT_SCRIPT_PROBE) {
        v->failures += r->cpu.pc != v->target->outer;
        r->cpu.gpr[RDI] += 100;
        v->enters++;
    }
    if (r->kind != CT_SCRIPT_EVENTS)
        v->failures += ct_script_answer(v->script, r, true) != 0;
}

static void transforms_code(void **state) {
    struct target t;
    struct server v;
    char line[128];
    uint32_t id = 99;
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, transform_blocks);
    const struct ct_script_follow what = {.transform = 1};
    assert_int_equal(ct_script_follow(v.script, NULL, t.pid, &what), 0);
    for (int i = 0; i < 10; i++) {
        ask_line(&t, line, sizeof line, "outer 4");
        assert_string_equal(line, "20"); /* (4 + 5 + 1) * 2 */
    }
    assert_int_equal(v.call, 10);
    assert_int_equal(ct_script_unfollow(v.script, NULL, t.pid), 0);
    ask_line(&t, line, sizeof line, "outer 4");
    assert_string_equal(line, "10");
    const struct ct_script_follow plainly = {.mask = 0};
    assert_int_equal(ct_script_add_probe(v.script, t.outer, 0, 0, &id), 0);
    assert_int_equal(ct_script_follow(v.script, NULL, t.pid, &plainly), 0);
    ask_line(&t, line, sizeof line, "outer 4");
    assert_string_equal(line, "210");
    assert_int_equal(ct_script_remove_probe(v.script, id), 0);
    assert_int_equal(ct_script_remove_probe(v.script, id), CT_ERR_NOT_FOUND);
    ask_line(&t, line, sizeof line, "outer 4");
    assert_string_equal(line, "10");
    end_server(&v);
    assert_int_equal(v.failures, 0);
    ask_line(&t, line, sizeof line, "outer 4");
    assert_string_equal(line, "10");
    end_target(&t);
}

/* ---- code of a script ---- */

static void loads_code(void **state) {
    static const char source[] =
        "struct cpu { unsigned long gpr[16]; };\n"
        "extern long above(long); extern int atoi(const char *);\n"
        "long calls, bonus = 30; static long seen[4];\n"
        "void enter(struct cpu *c, void *call) { calls++; seen[calls & 3] = c->gpr[7]; c->gpr[7] += bonus; }\n"
        "void leave(struct cpu *c, void *call) { c->gpr[0] += atoi(\"6\") + above(seen[calls & 3]); }\n"
        "long twice(long a, long b) { return 2 * (a + b); }\n";
    char path[] = "/tmp/script_testXXXXXX", command[256], line[128], bytes[65536];
    struct target t;
    struct server v;
    struct ct_script_object *object;
    long calls = 0;
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    snprintf(command, sizeof command, "gcc -x c -O2 -fPIC -ffreestanding -c -o %s - && true", path);
    FILE *compiler = popen(command, "w");
    fputs(source, compiler);
    assert_int_equal(pclose(compiler), 0);
    close(fd);
    fd = open(path, O_RDONLY | O_CLOEXEC); /* the compiler may have made a new file */
    ssize_t size = read(fd, bytes, sizeof bytes);
    close(fd);
    unlink(path);
    start_target(&t);
    ask_line(&t, line, sizeof line, "add 5 6");
    char *before = read_maps(t.pid);
    begin_server(&v, &t, NULL, plain);
    const struct ct_script_name names[] = {{"above", t.inner}};
    assert_int_equal(ct_script_load(v.script, bytes, (size_t)size, NULL, 0, &object), CT_ERR_BAD_FILE);
    assert_int_equal(ct_script_load(v.script, source, sizeof source, NULL, 0, &object), CT_ERR_BAD_FILE);
    for (ssize_t cut = 0; cut < size; cut += 97) /* nothing in a file that is cut is believed */
        if (!ct_script_load(v.script, bytes, (size_t)cut, names, 1, &object))
            assert_int_equal(ct_script_unload(v.script, object), 0);
    if (ct_script_load(v.script, bytes, (size_t)size, names, 1, &object)) {
        ct_script_error(v.script, line, sizeof line);
        fail_msg("%s", line);
    }
    struct ct_script_hook h = {.address = t.add,
                               .native_enter = ct_script_object_symbol(object, "enter"),
                               .native_leave = ct_script_object_symbol(object, "leave")};
    assert_int_equal(ct_script_hook(v.script, &h, 1), 1);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "53"); /* 5 + 30 + 6, 6, 5 + 1 */
    ask_line(&t, line, sizeof line, "threads 4 1000");
    assert_true(!ct_script_read(v.script, ct_script_object_symbol(object, "calls"), &calls, sizeof calls));
    assert_true(calls > 1000);
    assert_int_equal(ct_script_unhook(v.script, &h.id, 1), 0);
    h = (struct ct_script_hook){.address = t.add, .replacement = ct_script_object_symbol(object, "twice")};
    assert_int_equal(ct_script_hook(v.script, &h, 1), 1);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "22");
    assert_int_equal(ct_script_unload(v.script, object), 0);
    end_server(&v);
    assert_int_equal(v.enters, 0);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "11");
    ask_line(&t, line, sizeof line, "threads 4 50");
    assert_string_equal(line, "wrong 0");
    free(before);
    end_target(&t);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_arguments_and_result),
        cmocka_unit_test(changes_vector_registers),
        cmocka_unit_test(does_work),
        cmocka_unit_test(survives_work_that_jumps_away),
        cmocka_unit_test(goes_on_after_the_limit),
        cmocka_unit_test(serves_threads_and_signals),
        cmocka_unit_test(serves_a_program_that_forbids_calls),
        cmocka_unit_test(tells_the_end),
        cmocka_unit_test(changes_a_spawned_program),
        cmocka_unit_test(outlives_the_script),
        cmocka_unit_test(uses_memory),
        cmocka_unit_test(replaces_functions),
        cmocka_unit_test(calls_outside_of_callbacks),
        cmocka_unit_test(lists_what_is_there),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(follows_a_thread),
        cmocka_unit_test(hands_over_at_a_flush),
        cmocka_unit_test(follows_a_call),
        cmocka_unit_test(follows_threads_until_the_end),
        cmocka_unit_test(transforms_code),
        cmocka_unit_test(loads_code),
        cmocka_unit_test(outlives_a_script_that_follows),
    };
    program = argv[1];
    if (argc > 3 && !strcmp(argv[2], "--kills")) {
        kills = atoi(argv[3]);
        cmocka_set_test_filter("outlives_the*");
    } else if (argc > 2) {
        cmocka_set_test_filter(argv[2]);
    }
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

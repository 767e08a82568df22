/* SPDX-License-Identifier: Apache-2.0 */
/* Scripting a process: callbacks with changed registers, work, time limits, memory, and that nothing stays. */
#include "isa/machine.h"
#include "script_util.h"
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
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int kills = 6; /* `script_test TARGET --kills N` */

/* ---- registers ---- */

static void change_numbers(struct server *v, struct ct_script_request *r) {
    if (r->kind == CT_SCRIPT_ENTER) {
        r->cpu.gpr[FIRST] += 100;
        v->call = r->call;
    } else {
        assert_true(r->call == v->call);
        r->cpu.gpr[RESULT] *= 2;
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

/* The last arguments are on the stack. */
static struct ct_script_call sum10_call(const struct target *t) {
    const struct ct_machine *m = ct_machine_host();
    struct ct_script_call c = {.function = t->sum10, .integers = {1, 2, 3, 4, 5, 6}, .more_integers = {7, 8}};
    c.stack_count = 10 - m->argument_count;
    for (uint32_t i = 0; i < c.stack_count; i++)
        c.stack[i] = m->argument_count + i + 1;
    return c;
}

static void call_functions(struct server *v, struct ct_script_request *r) {
    const struct target *t = v->target;
    struct ct_script_call c = sum10_call(t);
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
    c = (struct ct_script_call){.integers = {SYS_getpid}};
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
    r->cpu.gpr[FIRST] = 1000;
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

/* ---- a thread that looks for requests, beside the one that waits ---- */

struct looker {
    struct ct_script *script;
    int looked; /* requests that it has got */
    int stop;   /* it rests after the next one */
};

static void *look(void *arg) {
    struct looker *k = arg;
    struct ct_script_request r;
    int status = CT_ERR_TIMEOUT;
    while (!status || (status == CT_ERR_TIMEOUT && !__atomic_load_n(&k->stop, __ATOMIC_ACQUIRE))) {
        status = ct_script_look(k->script, &r);
        if (status || r.slot == CT_SCRIPT_NO_SLOT)
            continue;
        if (__atomic_load_n(&k->stop, __ATOMIC_ACQUIRE)) {
            ct_script_rest(k->script);
            status = CT_ERR_TIMEOUT;
        }
        __atomic_fetch_add(&k->looked, 1, __ATOMIC_RELEASE);
        (void)ct_script_answer(k->script, &r, false);
    }
    return NULL;
}

static void looks_for_requests(void **state) {
    const struct ct_script_options options = {
        .size = sizeof options, .timeout_ms = 30000, .spin_us = 60000000, .sleeps = 1};
    struct looker k = {NULL};
    struct target t;
    struct server v;
    pthread_t thread;
    char line[128];
    (void)state;
    start_target(&t);
    begin_server(&v, &t, &options, plain);
    hook(&v, t.add, CT_SCRIPT_ON_ENTER);
    k.script = v.script;
    pthread_create(&thread, NULL, look, &k);
    while (!__atomic_load_n(&k.looked, __ATOMIC_ACQUIRE))
        ask_line(&t, line, sizeof line, "add 1 2");
    int waited = v.enters, looked = k.looked;
    for (int i = 0; i < 20; i++)
        ask_line(&t, line, sizeof line, "add 1 2");
    assert_int_equal(v.enters, waited); /* all are the looking thread's ... */
    assert_int_equal(k.looked, looked + 20);
    __atomic_store_n(&k.stop, 1, __ATOMIC_RELEASE);
    ask_line(&t, line, sizeof line, "add 1 2");
    pthread_join(thread, NULL);
    for (int i = 0; i < 20; i++)
        ask_line(&t, line, sizeof line, "add 1 2");
    assert_int_equal(v.enters, waited + 20); /* ... until it rests */
    end_server(&v);
    end_target(&t);
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
    assert_int_equal(r.cpu.gpr[FIRST], 40);
    r.cpu.gpr[FIRST] = 4;
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
        cmocka_unit_test(looks_for_requests),
        cmocka_unit_test(changes_a_spawned_program),
        cmocka_unit_test(outlives_the_script),
        cmocka_unit_test(uses_memory),
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

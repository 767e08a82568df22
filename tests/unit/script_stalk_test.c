/* SPDX-License-Identifier: Apache-2.0 */
/* Scripting a process: threads that are followed, transforms, probes, code in C. */
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

/* A word that the program cannot change: a branch through it leads where the script says, from the next call on. */
static void changes_what_branches_read(void **state) {
    static const struct ct_script_follow what = {.mask = CT_SCRIPT_EVENT_CALL};
    struct target t;
    struct server v;
    char line[128];
    void *word = NULL;
    (void)state;
    start_target(&t);
    ask_line(&t, line, sizeof line, "word");
    assert_int_equal(sscanf(line, "%p", &word), 1);
    begin_server(&v, &t, NULL, leave_alone);
    assert_int_equal(ct_script_follow(v.script, NULL, t.pid, &what), 0);
    for (int i = 0; i < 20; i++) {
        uint64_t target = i % 2 ? t.outer : t.inner;
        assert_int_equal(ct_script_write(v.script, (uint64_t)word, &target, sizeof target), 0);
        for (int j = 0; j < 5; j++) {
            ask_line(&t, line, sizeof line, "through 4");
            assert_string_equal(line, i % 2 ? "10" : "5");
        }
    }
    assert_int_equal(ct_script_unfollow(v.script, NULL, t.pid), 0);
    end_server(&v);
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

/* What is recorded is handed over while the thread runs, wherever it is, and while it waits: once, and all of it. All
 * fits into the ring, so that nothing is lost on a busy machine. */
static void flush_often(struct server *v, struct target *t, const struct ct_script_follow *what, uint64_t calls) {
    struct counts c = {0};
    char line[128];
    PATIENTLY(ct_script_follow(v->script, NULL, t->pid, what));
    snprintf(line, sizeof line, "calls %d %d", (int)calls, (int)calls / 200);
    tell(t, line);
    for (int i = 0; i < 1000 && c.inner < calls; i++) {
        PATIENTLY(ct_script_flush(v->script));
        take_events(v, &c, t->inner);
        if (i % 50 == 0) /* code is translated anew meanwhile */
            PATIENTLY(ct_script_set_trust(v->script, i / 50 % 3));
    }
    hear(t, line, sizeof line);
    PATIENTLY(ct_script_flush(v->script));
    take_events(v, &c, t->inner);
    assert_int_equal(c.inner, calls);
    PATIENTLY(ct_script_collect(v->script));
    PATIENTLY(ct_script_unfollow(v->script, NULL, t->pid));
    take_events(v, &c, t->inner);
    assert_int_equal(c.inner, calls);
    assert_int_equal(c.lost, 0);
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
    const struct ct_script_follow what = {.mask = CT_SCRIPT_EVENT_CALL};
    for (int tries = 0;; tries++) {
        assert_int_equal(ct_script_threads(v.script, &threads, &count), 0);
        if (count > 2 || tries == 1000)
            break;
        free(threads);
        usleep(5000);
    }
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
            edits[n] = (struct ct_script_edit){.kind = CT_SCRIPT_BYTES, .length = ct_machine_host()->nop_size};
            memcpy(edits[n].bytes, ct_machine_host()->nop, edits[n].length);
            n++;
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
        r->cpu.gpr[FIRST] += 5;
    } else if (r->kind == CT_SCRIPT_PROBE) {
        v->failures += r->cpu.pc != v->target->outer;
        r->cpu.gpr[FIRST] += 100;
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

/* More jumps than there is room for: the block is left as it is, and that is said. */
static void jump_too_often(struct server *v, struct ct_script_request *r) {
    struct ct_script_edit edits[2 * 65 + 1] = {{0}};
    for (uint32_t i = 0; i < 65; i++) {
        edits[2 * i] = (struct ct_script_edit){.kind = CT_SCRIPT_PUT_JUMP, .id = i, .user = 16};
        edits[2 * i + 1] = (struct ct_script_edit){.kind = CT_SCRIPT_PUT_LABEL, .id = i};
    }
    edits[2 * 65].kind = CT_SCRIPT_KEEP;
    if (r->kind == CT_SCRIPT_TRANSFORM) {
        v->failures += ct_script_transform(v->script, r, edits, 2 * 65 + 1) != CT_ERR_NO_SPACE;
        v->call++;
    } else if (r->kind != CT_SCRIPT_EVENTS) {
        v->failures += ct_script_answer(v->script, r, false) != 0;
    }
}

static void refuses_too_many_jumps(void **state) {
    struct target t;
    struct server v;
    char line[128];
    const struct ct_script_follow what = {.transform = 1};
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, jump_too_often);
    assert_int_equal(ct_script_follow(v.script, NULL, t.pid, &what), 0);
    ask_line(&t, line, sizeof line, "outer 4");
    assert_string_equal(line, "10");
    end_server(&v);
    assert_int_equal(v.failures, 0);
    assert_true(v.call > 0);
    end_target(&t);
}

static unsigned naps;

/* In the place of the C library's: counts how often something is waited for. */
int usleep(useconds_t us) {
    const struct timespec time = {us / 1000000, us % 1000000 * 1000l};
    __atomic_fetch_add(&naps, 1, __ATOMIC_RELAXED);
    return nanosleep(&time, NULL);
}

/* The thread cannot leave before it has its answer: nobody waits for that. */
static void unfollow_in_callout(struct server *v, struct ct_script_request *r) {
    if (r->kind == CT_SCRIPT_TRANSFORM) {
        edit_block(v, r);
        return;
    }
    if (r->kind == CT_SCRIPT_CALLOUT) {
        unsigned before = __atomic_load_n(&naps, __ATOMIC_RELAXED);
        v->failures += ct_script_unfollow(v->script, v->enters++ % 2 ? r : NULL, r->tid) != 0;
        v->leaves += (int)(__atomic_load_n(&naps, __ATOMIC_RELAXED) - before);
    }
    if (r->kind != CT_SCRIPT_EVENTS)
        v->failures += ct_script_answer(v->script, r, true) != 0;
}

static void leaves_in_a_callout(void **state) {
    struct target t;
    struct server v;
    char line[128];
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, unfollow_in_callout);
    const struct ct_script_follow what = {.transform = 1};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(ct_script_follow(v.script, NULL, t.pid, &what), 0);
        for (int k = 0; k < 3; k++) {
            ask_line(&t, line, sizeof line, "outer 4");
            assert_string_equal(line, "10");
        }
        assert_int_equal(v.enters, i + 1); /* it left at the first callout */
    }
    assert_true(v.leaves < 60);
    end_server(&v);
    assert_int_equal(v.failures, 0);
    end_target(&t);
}

/* ---- code of a script ---- */

static void loads_code(void **state) {
    static const char source[] =
        "struct cpu { unsigned long gpr[32]; };\n"
#ifdef __x86_64__
        "enum { FIRST = 7 };\n"
#else
        "enum { FIRST };\n"
#endif
        "extern long above(long); extern int atoi(const char *);\n"
        "long calls, bonus = 30; static long seen[4];\n"
        "void enter(struct cpu *c, void *call) { calls++; seen[calls & 3] = c->gpr[FIRST]; c->gpr[FIRST] += bonus; }\n"
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
        cmocka_unit_test(follows_a_thread),
        cmocka_unit_test(changes_what_branches_read),
        cmocka_unit_test(hands_over_at_a_flush),
        cmocka_unit_test(follows_a_call),
        cmocka_unit_test(follows_threads_until_the_end),
        cmocka_unit_test(transforms_code),
        cmocka_unit_test(refuses_too_many_jumps),
        cmocka_unit_test(leaves_in_a_callout),
        cmocka_unit_test(loads_code),
        cmocka_unit_test(outlives_a_script_that_follows),
    };
    program = argv[1];
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

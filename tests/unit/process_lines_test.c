/* SPDX-License-Identifier: Apache-2.0 */
/* Backtraces with source lines: inlined functions are frames of their own. The process that is looked at is a child of
 * this one, which waits in a function that was inlined twice. Argument: this source. */
#include <contrail/process.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ATTEMPTS = 20000 };

static const char *source;
static int ready[2];
static volatile int calls;

static inline __attribute__((always_inline)) void inlined_inner(void) {
    char byte = 1;
    if (write(ready[1], &byte, 1) == 1)
        pause(); /* inner */
    calls++;
}

static inline __attribute__((always_inline)) void inlined_outer(void) {
    calls++;
    inlined_inner(); /* outer */
    calls++;
}

static __attribute__((noinline)) void real_function(void) {
    calls++;
    inlined_outer(); /* function */
    calls++;
}

/* The line of the source that holds the mark. */
static int line_of(const char *mark) {
    char text[512], wanted[64];
    int line = 0;
    FILE *file = fopen(source, "r");
    if (!file)
        return 0;
    snprintf(wanted, sizeof wanted, "/* %s */", mark);
    while (fgets(text, sizeof text, file) && ++line)
        if (strstr(text, wanted))
            break;
    fclose(file);
    return line;
}

static bool is_frame(const struct ct_process_frame *f, const char *name, const char *mark, bool inlined) {
    char line[64];
    snprintf(line, sizeof line, "process_lines_test.c:%d", line_of(mark));
    return !strcmp(f->name, name) && f->inlined == inlined && strstr(f->line, line) != NULL;
}

static bool has_lines(const struct ct_process_thread *thread) {
    for (size_t i = 0; i + 2 < thread->frame_count; i++)
        if (is_frame(thread->frames[i], "inlined_inner", "inner", true) &&
            is_frame(thread->frames[i + 1], "inlined_outer", "outer", true) &&
            is_frame(thread->frames[i + 2], "real_function", "function", false))
            return true;
    return false;
}

static bool has_names_only(const struct ct_process_thread *thread) {
    bool found = false;
    for (size_t i = 0; i < thread->frame_count; i++) {
        found |= !strcmp(thread->frames[i]->name, "real_function");
        assert_false(thread->frames[i]->inlined);
        assert_string_equal(thread->frames[i]->line, "");
    }
    return found;
}

static bool look(struct ct_process *process, bool (*is_right)(const struct ct_process_thread *thread)) {
    struct ct_process_thread thread = {.size = sizeof thread};
    uint64_t position = 0;
    bool found = false;
    int status;
    while ((status = ct_process_next_thread(process, 64, &position, &thread)) > 0)
        found |= is_right(&thread);
    assert_int_equal(status, 0);
    return found;
}

static void test_inlined_frames(void **state) {
    (void)state;
    struct ct_process *process;
    char error[512] = "", byte;
    bool found = false;
    assert_true(line_of("inner") && line_of("outer") && line_of("function"));
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        real_function();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    if (ct_process_open(&process, child, error, sizeof error))
        fail_msg("%s", error);
    assert_true(look(process, has_names_only));
    assert_int_equal(ct_process_use_lines(process), 0);
    for (int i = 0; i < ATTEMPTS && !found; i++) { /* it has written its byte, and may not wait yet */
        found = look(process, has_lines);
        usleep(1000);
    }
    assert_true(found);
    ct_process_close(process);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_inlined_frames)};
    source = argc > 1 ? argv[1] : __FILE__;
    return cmocka_run_group_tests_name("process_lines", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "script_util.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

char *program;

/* ---- the target ---- */

void tell(struct target *t, const char *text) {
    fprintf(t->to, "%s\n", text);
    fflush(t->to);
}

void hear(struct target *t, char *line, size_t size) {
    alarm(60);
    assert_non_null(fgets(line, (int)size, t->from));
    alarm(0);
    line[strcspn(line, "\n")] = 0;
}

void ask_line(struct target *t, char *line, size_t size, const char *format, ...) {
    char text[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tell(t, text);
    hear(t, line, size);
}

void start_target(struct target *t) {
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

void end_target(struct target *t) {
    int status;
    fclose(t->to);
    assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
    assert_int_equal(status, 0);
    fclose(t->from);
}

char *read_maps(pid_t pid) {
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
bool is_script;

void give_up(const char *error) {
    if (!is_script)
        fail_msg("%s", error);
    fprintf(stderr, "the script: %s\n", error);
    _exit(3);
}

void begin_server(struct server *v, const struct target *t, const struct ct_script_options *options,
                  void (*serve)(struct server *server, struct ct_script_request *request)) {
    static const struct ct_script_options patient = {.size = sizeof patient, .timeout_ms = 30000};
    char error[512] = "";
    *v = (struct server){.serve = serve, .target = t};
    if (ct_script_attach(&v->script, t->pid, options ? options : &patient, error, sizeof error))
        give_up(error);
    assert_int_equal(pthread_create(&v->thread, NULL, serve_all, v), 0);
}

void end_server(struct server *v) {
    ct_script_shut(v->script);
    pthread_join(v->thread, NULL);
    assert_int_equal(ct_script_close(v->script), 0);
}

void hook(struct server *v, uint64_t address, uint32_t flags) {
    struct ct_script_hook h = {.address = address, .flags = flags};
    char error[512];
    if (ct_script_hook(v->script, &h, 1) != 1) {
        ct_script_error(v->script, error, sizeof error);
        give_up(error);
    }
}

void answer_nested(void *arg, const struct ct_script_request *nested) {
    struct server *v = arg;
    struct ct_script_request r = *nested;
    v->call++;
    r.cpu.gpr[FIRST] += 10;
    v->failures += ct_script_answer(v->script, &r, true) != 0;
}

void plain(struct server *v, struct ct_script_request *r) {
    (void)ct_script_answer(v->script, r, false);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* harness.h for programs that Contrail records from outside: nothing of Contrail is linked in. Instead of hooking, the
 * program notes in a log file which functions it would have hooked and which trees it expects, and run.py compares that
 * with the trace. Each note is one call of e2e_mark, which the trace shows too: so it is known where in the trace it
 * belongs.
 *
 * E2E_LOG names the log, E2E_WAIT a FIFO from which a byte is read before the program begins (attach). Without them the
 * program only checks itself. */
#include "../harness.h"
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct ct_hooks *e2e_hooks;
static int log_file = -1;
static int failures;

void e2e_mark(const char *text);

unsigned e2e_clobber_level(int level);

unsigned e2e_clobber(void) {
#ifdef __x86_64__
    __builtin_cpu_init();
    return e2e_clobber_level(__builtin_cpu_supports("avx512f") ? 2 : __builtin_cpu_supports("avx") ? 1 : 0);
#else
    return e2e_clobber_level(0);
#endif
}

/* Programs ask when they skip what only a hook set can report, and would have forgotten the events afterwards. */
bool e2e_plain(void) {
    e2e_mark("forget");
    return true;
}

/* Long loops are shorter for listeners: traces are smaller then. */
bool e2e_listening(void) {
    return true;
}

bool e2e_passed(void) {
    return failures == 0;
}

int e2e_times(int times) {
    return !getenv("CONTRAIL_TEST_EMULATED") ? times : times < 10 ? 1 : times / 10;
}

int e2e_gettid(void) {
    return (int)syscall(SYS_gettid);
}

/* ---- the log ---- */

/* One line, by one write: threads and children share the file. */
E2E_FN void e2e_mark(const char *text) {
    static const char format[] = "%d %d %s\n";
    if (log_file < 0)
        return;
    int pid = (int)syscall(SYS_getpid), tid = e2e_gettid();
    size_t size = strlen(text) + 64;
    char *line = malloc(size);
    int length = snprintf(line, size, format, pid, tid, text);
    if (write(log_file, line, (size_t)length) != length)
        abort();
    free(line);
}

__attribute__((format(printf, 1, 2))) static void mark(const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0)
        abort();
    e2e_mark(text);
    free(text);
}

static void wait_for_start(const char *fifo) {
    char byte;
    int file = open(fifo, O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, &byte, 1) != 1)
        abort();
    close(file);
}

void e2e_begin_with(int argc, char **argv, const struct ct_hooks_options *options, size_t buffer_events) {
    (void)argc, (void)argv, (void)options, (void)buffer_events;
    const char *log = getenv("E2E_LOG"), *fifo = getenv("E2E_WAIT");
    if (log && log_file < 0) {
        int file = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        log_file = fcntl(file, F_DUPFD_CLOEXEC, 200); /* out of the way of programs that count descriptors */
        close(file);
    }
    if (fifo) {
        e2e_mark("ready");
        wait_for_start(fifo);
    }
    e2e_mark("begin");
}

void e2e_begin(int argc, char **argv) {
    e2e_begin_with(argc, argv, NULL, 1024);
}

void e2e_skip(const char *why) {
    printf("skipped: %s\n", why);
    fflush(stdout);
    _exit(77);
}

int e2e_end(void) {
    e2e_mark("end");
    printf("%s\n", failures ? "FAILED" : "passed");
    return failures ? 1 : 0;
}

void e2e_name(int hook, const char *name) {
    (void)hook, (void)name;
}

/* Plain programs get the error, which they don't mind. */
int e2e_try_record(const char *name, void *function) {
    mark("try_record %p %s", function, name);
    return CT_ERR_UNSUPPORTED;
}

int e2e_record(const char *name, void *function) {
    mark("record %p %s", function, name);
    return CT_ERR_UNSUPPORTED;
}

void e2e_expect(const char *file, int line, int tid, const char *tree) {
    mark("expect %d %s:%d %s", tid, strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line, tree);
}

void e2e_expect_flat(const char *file, int line, int tid, const char *events) {
    mark("flat %d %s:%d %s", tid, strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line, events);
}

void e2e_forget(void) {
    e2e_mark("forget");
}

void e2e_count_only(void) {
    e2e_mark("count_only");
}

const char *e2e_tree(int tid) {
    (void)tid;
    return "";
}

struct e2e_summary e2e_summarize(int tid) {
    (void)tid;
    return (struct e2e_summary){0};
}

size_t e2e_count(int tid, int hook, enum ct_event_kind kind) {
    (void)tid, (void)hook, (void)kind;
    return 0;
}

uint64_t e2e_total(enum ct_event_kind kind) {
    (void)kind;
    return 0;
}

void e2e_allow_unnested(void) {
    e2e_mark("unnested");
}

void e2e_allow_stack_pops(void) {
}

/* ---- verdicts ---- */

void e2e_fail(const char *file, int line, const char *format, ...) {
    const char *base = strrchr(file, '/');
    if (__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED) > 20)
        return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "%s:%d: %s\n", base ? base + 1 : file, line, text);
}

bool e2e_check(const char *file, int line, bool condition, const char *text) {
    if (!condition)
        e2e_fail(file, line, "not true: %s", text);
    return condition;
}

bool e2e_equal(const char *file, int line, long long actual, long long expected, const char *text) {
    if (actual != expected)
        e2e_fail(file, line, "%s is %lld (%#llx), expected %lld (%#llx)", text, actual, (unsigned long long)actual,
                 expected, (unsigned long long)expected);
    return actual == expected;
}

/* Memory in use is the traced program's own business here: it holds shadow stacks and a part of the lanes. */
size_t e2e_rss_kib(void) {
    return 0;
}

/* ---- what programs refer to and don't call when they are plain ---- */

static int never(void) {
    abort();
}

int ct_hooks_create(struct ct_hooks **out, const struct ct_hooks_options *options) {
    return (void)out, (void)options, never();
}

void ct_hooks_destroy(struct ct_hooks *hooks) {
    (void)hooks, never();
}

int ct_hooks_attach(struct ct_hooks *hooks, void *function, const struct ct_hook_listener *listener, void *user) {
    return (void)hooks, (void)function, (void)listener, (void)user, never();
}

int ct_hooks_record(struct ct_hooks *hooks, void *function) {
    return (void)hooks, (void)function, never();
}

int ct_hooks_revert(struct ct_hooks *hooks, int hook) {
    return (void)hooks, (void)hook, never();
}

int ct_hooks_disable(struct ct_hooks *hooks, int hook) {
    return (void)hooks, (void)hook, never();
}

int ct_hooks_begin(struct ct_hooks *hooks) {
    return (void)hooks, never();
}

int ct_hooks_commit(struct ct_hooks *hooks) {
    return (void)hooks, never();
}

int ct_hooks_flush(struct ct_hooks *hooks) {
    return (void)hooks, never();
}

int ct_hooks_attach_module(struct ct_hooks *hooks, const struct ct_hooks_module *what) {
    return (void)hooks, (void)what, never();
}

int ct_hooks_statistics(struct ct_hooks *hooks, struct ct_hooks_statistics *out) {
    return (void)hooks, (void)out, never();
}

int ct_hooks_enable(struct ct_hooks *hooks, int hook) {
    return (void)hooks, (void)hook, never();
}

uint64_t ct_cpu_argument(const struct ct_cpu_context *cpu, unsigned n) {
    return (void)cpu, (void)n, (uint64_t)never();
}

void ct_cpu_set_argument(struct ct_cpu_context *cpu, unsigned n, uint64_t value) {
    (void)cpu, (void)n, (void)value, never();
}

uint64_t ct_cpu_return_value(const struct ct_cpu_context *cpu) {
    return (void)cpu, (uint64_t)never();
}

void ct_cpu_set_return_value(struct ct_cpu_context *cpu, uint64_t value) {
    (void)cpu, (void)value, never();
}

const char *ct_status_text(int status) {
    return (void)status, "";
}

const char *ct_status_name(int status) {
    return (void)status, "";
}

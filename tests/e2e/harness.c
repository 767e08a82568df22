/* SPDX-License-Identifier: Apache-2.0 */
/* The hook set of a hazard program, the log of what it saw, and the verdict. Trees are built in tree.c.
 *
 * The log is one array in memory that was reserved at the start; any thread appends with one atomic addition, so the
 * sink and the listener allocate nothing and take no lock. Events of one thread are in order; threads are mixed. */
#include "harness.h"
#include "log.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOG_CAPACITY (96u << 20)
#ifdef __x86_64__
#define RETURN_ADDRESS 8 /* bytes of stack that a call takes */
#else
#define RETURN_ADDRESS 0
#endif

struct ct_hooks *e2e_hooks;
struct e2e_log e2e_log;

static bool plain, listening, count_only;
static enum ct_hooks_memory memory_mode;
static int failures;
static uint64_t totals[5];
static int vector_level;

/* What listeners get as user pointer. Never reused: calls of reverted hooks may still be on their way. */
struct e2e_hook {
    const char *name;
    void *function;
    bool entry_only;
};
static struct e2e_hook pool[E2E_MAX_HOOKS];
static size_t pool_used;

unsigned e2e_clobber_level(int level);

__attribute__((constructor)) static void find_vector_level(void) {
#ifdef __x86_64__
    __builtin_cpu_init();
    vector_level = __builtin_cpu_supports("avx512f") ? 2 : __builtin_cpu_supports("avx") ? 1 : 0;
#endif
}

unsigned e2e_clobber(void) {
    return e2e_clobber_level(vector_level);
}

bool e2e_plain(void) {
    return plain;
}

bool e2e_listening(void) {
    return listening;
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

static void append(int tid, uint32_t hook, uint32_t kind, uint32_t depth, uint64_t time) {
    __atomic_add_fetch(&totals[kind], 1, __ATOMIC_RELAXED);
    if (count_only)
        return;
    size_t at = __atomic_fetch_add(&e2e_log.count, 1, __ATOMIC_RELAXED);
    if (at < LOG_CAPACITY)
        e2e_log.events[at] = (struct e2e_log_event){time, hook, depth, tid, kind};
}

static void sink(void *arg, int tid, const struct ct_event *events, size_t count) {
    (void)arg;
    for (size_t i = 0; i < count; i++) {
        if (events[i].kind < CT_EVENT_CALL || events[i].kind > CT_EVENT_ENTRY)
            e2e_fail(__FILE__, __LINE__, "the sink got an event of kind %u", events[i].kind);
        else
            append(tid, events[i].hook, events[i].kind, E2E_DEPTH_UNKNOWN, events[i].timestamp);
    }
}

void e2e_count_only(void) {
    if (e2e_hooks)
        ct_hooks_flush(e2e_hooks);
    memset(totals, 0, sizeof totals);
    count_only = true;
}

uint64_t e2e_total(enum ct_event_kind kind) {
    if (e2e_hooks && !listening)
        ct_hooks_flush(e2e_hooks);
    return __atomic_load_n(&totals[kind], __ATOMIC_RELAXED);
}

/* ---- the tracing listener ---- */

/* What on_return must find again: made of what on_call got. */
static uint64_t cookie(const struct ct_hook_call *call, uint64_t sp_after) {
    uint64_t mix = (uint64_t)(uintptr_t)call->return_address * 0x9e3779b97f4a7c15u;
    if (!e2e_log.stack_pops)
        mix ^= sp_after << 1;
    if (!e2e_log.unnested)
        mix ^= (uint64_t)call->depth << 40;
    return mix ^ call->hook ^ 1;
}

/* The user pointer is the function's place in the pool. */
static const struct e2e_hook *check_call(const struct ct_hook_call *call, const char *where) {
    const struct e2e_hook *hook = call->user;
    if (hook < pool || hook >= pool + pool_used)
        e2e_fail(__FILE__, __LINE__, "%s was given the wrong user pointer", where);
    else if (call->function != hook->function)
        e2e_fail(__FILE__, __LINE__, "%s of %s was given the wrong function", where, hook->name);
    return hook;
}

static void clobber_all(const char *where) {
    if (e2e_clobber() & 0x41)
        e2e_fail(__FILE__, __LINE__, "%s ran with a filled x87 stack", where);
}

static void on_call(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    const struct e2e_hook *hook = check_call(call, "on_call");
    if (ct_cpu_pc(cpu) != (uint64_t)(uintptr_t)call->function)
        e2e_fail(__FILE__, __LINE__, "on_call: pc is not the function's entry");
    if (call->data != 0)
        e2e_fail(__FILE__, __LINE__, "on_call: data is not zero");
    append(e2e_gettid(), call->hook, hook->entry_only ? CT_EVENT_ENTRY : CT_EVENT_CALL, call->depth, 0);
    call->data = cookie(call, ct_cpu_sp(cpu) + RETURN_ADDRESS);
    clobber_all("on_call");
}

static void on_return(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    const struct e2e_hook *hook = check_call(call, "on_return");
    if (ct_cpu_pc(cpu) != (uint64_t)(uintptr_t)call->return_address)
        e2e_fail(__FILE__, __LINE__, "on_return: pc is not the return address");
    if (call->data != cookie(call, ct_cpu_sp(cpu)))
        e2e_fail(__FILE__, __LINE__,
                 "on_return of %s: return address %p, depth %u or sp %#lx differ from on_call's (data %#lx, difference "
                 "%#lx)",
                 hook->name, call->return_address, call->depth, (unsigned long)ct_cpu_sp(cpu),
                 (unsigned long)call->data, (unsigned long)(call->data ^ cookie(call, ct_cpu_sp(cpu))));
    append(e2e_gettid(), call->hook, CT_EVENT_RETURN, call->depth, 0);
    clobber_all("on_return");
}

static void on_leave(struct ct_hook_call *call) {
    check_call(call, "on_leave");
    append(e2e_gettid(), call->hook, CT_EVENT_EXCEPTION, call->depth, 0);
    clobber_all("on_leave");
}

static const struct ct_hook_listener tracing = {
    .size = sizeof tracing, .on_call = on_call, .on_return = on_return, .on_leave = on_leave};

/* ---- set-up ---- */

static enum ct_hooks_memory memory_from(const char *text) {
    if (strcmp(text, "rwx") == 0)
        return CT_HOOKS_MEMORY_RWX;
    if (strcmp(text, "dual") == 0)
        return CT_HOOKS_MEMORY_DUAL;
    if (strcmp(text, "protect") == 0)
        return CT_HOOKS_MEMORY_PROTECT;
    fprintf(stderr, "unknown memory mode %s\n", text);
    exit(1);
}

static void read_options(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--plain") == 0)
            plain = true;
        else if (strcmp(argv[i], "--listen") == 0)
            listening = true;
        else if (strncmp(argv[i], "--memory=", 9) == 0)
            memory_mode = memory_from(argv[i] + 9);
    }
}

void e2e_begin(int argc, char **argv) {
    e2e_begin_with(argc, argv, NULL, 1024);
}

void e2e_begin_with(int argc, char **argv, const struct ct_hooks_options *options, size_t buffer_events) {
    read_options(argc, argv);
    memset(e2e_log.names, 0, sizeof e2e_log.names);
    if (!e2e_log.events)
        e2e_log.events = mmap(NULL, LOG_CAPACITY * sizeof *e2e_log.events, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (e2e_log.events == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    if (plain)
        return;
    struct ct_hooks_options all =
        options ? *options : (struct ct_hooks_options){.size = sizeof(struct ct_hooks_options)};
    if (memory_mode != CT_HOOKS_MEMORY_AUTO)
        all.memory = memory_mode;
    int rc = ct_hooks_create(&e2e_hooks, &all);
    if (rc == CT_ERR_UNSUPPORTED && all.memory != CT_HOOKS_MEMORY_AUTO)
        e2e_skip("this kind of code memory is not allowed here");
    if (rc == 0)
        rc = ct_hooks_set_sink(e2e_hooks, sink, NULL, buffer_events);
    if (rc != 0) {
        fprintf(stderr, "no hook set: %s (%s)\n", ct_status_text(rc), ct_status_name(rc));
        exit(1);
    }
}

void e2e_skip(const char *why) {
    printf("skipped: %s\n", why);
    fflush(stdout);
    _exit(77);
}

int e2e_end(void) {
    if (e2e_hooks)
        ct_hooks_destroy(e2e_hooks);
    e2e_hooks = NULL;
    if (e2e_log.count > LOG_CAPACITY)
        e2e_fail(__FILE__, __LINE__, "the log was too small for %zu events", e2e_log.count);
    printf("%s\n", failures ? "FAILED" : "passed");
    return failures ? 1 : 0;
}

static bool is_entry_only(int hook) {
    struct ct_hook_info info = {.size = sizeof info};
    for (uint64_t position = 0; ct_hooks_next(e2e_hooks, &position, &info) > 0;)
        if (info.hook == hook)
            return info.entry_only != CT_HOOK_ENTRY_ONLY_NONE;
    return false;
}

void e2e_name(int hook, const char *name) {
    if (hook >= 0 && hook < E2E_MAX_HOOKS)
        e2e_log.names[hook] = name;
}

int e2e_try_record(const char *name, void *function) {
    if (plain)
        return CT_ERR_UNSUPPORTED;
    if (pool_used == E2E_MAX_HOOKS)
        return CT_ERR_NO_SPACE;
    struct e2e_hook *user = &pool[pool_used++];
    *user = (struct e2e_hook){.name = name, .function = function};
    int hook = listening ? ct_hooks_attach(e2e_hooks, function, &tracing, user) : ct_hooks_record(e2e_hooks, function);
    if (hook >= 0) {
        user->entry_only = is_entry_only(hook);
        e2e_log.names[hook] = name;
    }
    return hook;
}

int e2e_record(const char *name, void *function) {
    int hook = e2e_try_record(name, function);
    if (hook < 0 && !plain)
        e2e_fail(__FILE__, __LINE__, "%s cannot be hooked: %s (%s)", name, ct_status_text(hook), ct_status_name(hook));
    return hook;
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

size_t e2e_rss_kib(void) {
    FILE *f = fopen("/proc/self/status", "r");
    if (!f)
        return 0;
    char line[256];
    size_t kib = 0;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtoul(line + 6, NULL, 10);
    fclose(f);
    return kib;
}

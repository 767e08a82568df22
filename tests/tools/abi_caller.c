/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses every struct of the public headers that begins with its size. abi_test.py builds it with headers
 * of an older and of a newer version, which have one field less or more at the end of each struct, and runs it with the
 * library of this version. It does not use the last field of any struct.
 *
 * Structs lie before a page that cannot be touched: a library that reads or writes beyond the size that they have here
 * crashes. NEWER is defined with the newer headers, whose additional field is `added`. Argument: a directory for
 * traces. */
#define _GNU_SOURCE
#include <contrail/contrail.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Zeroed, with its size set, right before a page without any rights. */
static void *before_the_end(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (size + page - 1) / page * page;
    char *memory = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + room, page, PROT_NONE) == 0);
    *(size_t *)(memory + room - size) = size;
    return memory + room - size;
}

#define NEW(type) before_the_end(sizeof(struct type))

/* What every function that takes a struct from us does with a wrong one. `call` uses `it`. */
#ifdef NEWER
#define CHECK_UNKNOWN(it, call)                                                                                        \
    do {                                                                                                               \
        (it)->added = 1;                                                                                               \
        CHECK((call) == CT_ERR_UNKNOWN_FIELD);                                                                         \
        (it)->added = 0;                                                                                               \
    } while (0)
#define FILL(it)         ((it)->added = UINT64_MAX)
#define CHECK_FILLED(it) CHECK((it)->added == 0)
#define CHECK_LENT(it)   CHECK((it)->size < sizeof *(it))
#else
#define CHECK_UNKNOWN(it, call)
#define FILL(it)
#define CHECK_FILLED(it)
#define CHECK_LENT(it) CHECK((it)->size >= sizeof *(it))
#endif

#define CHECK_SIZES(it, call)                                                                                          \
    do {                                                                                                               \
        (it)->size = 0;                                                                                                \
        CHECK((call) == CT_ERR_INVALID_ARGUMENT);                                                                      \
        (it)->size = SIZE_MAX;                                                                                         \
        CHECK((call) == CT_ERR_INVALID_ARGUMENT);                                                                      \
        (it)->size = sizeof *(it);                                                                                     \
    } while (0)

/* ---- hooks ---- */

static unsigned calls, returns;

/* Long enough for a patch. */
__attribute__((noinline)) int abi_work(int n) {
    static volatile int one = 1;
    __asm__ volatile("" : "+r"(n));
    return n + one;
}

static void on_call(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    CHECK(call->function == (void *)abi_work && ct_cpu_argument(cpu, 0) == 41);
    CHECK_LENT(call);
    calls++;
}

static void on_return(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    CHECK(call->user == &calls && ct_cpu_return_value(cpu) == 42);
    returns++;
}

static int is_work(void *arg, const char *name, void *address, size_t length) {
    (void)arg, (void)name, (void)length;
    return address == (void *)abi_work;
}

static void check_listener(struct ct_hooks *hooks) {
    struct ct_hook_listener *listener = NEW(ct_hook_listener);
    listener->on_call = on_call;
    listener->on_return = on_return;
    CHECK_SIZES(listener, ct_hooks_attach(hooks, (void *)abi_work, listener, &calls));
    CHECK_UNKNOWN(listener, ct_hooks_attach(hooks, (void *)abi_work, listener, &calls));
    int hook = ct_hooks_attach(hooks, (void *)abi_work, listener, &calls);
    CHECK(hook >= 0 && abi_work(41) == 42 && calls == 1 && returns == 1);
    CHECK(ct_hooks_revert(hooks, hook) == 0);
}

static void check_module(struct ct_hooks *hooks) {
    struct ct_hooks_module *module = NEW(ct_hooks_module);
    struct ct_hook_listener *listener = NEW(ct_hook_listener);
    module->flavor = CT_HOOK_FLAVOR_LISTEN;
    module->user = &calls;
    module->filter = is_work;
    listener->on_call = on_call;
    module->listener = listener;
    CHECK_SIZES(module, ct_hooks_attach_module(hooks, module));
    CHECK_SIZES(listener, ct_hooks_attach_module(hooks, module));
    CHECK_UNKNOWN(module, ct_hooks_attach_module(hooks, module));
    CHECK_UNKNOWN(listener, ct_hooks_attach_module(hooks, module));
    CHECK(ct_hooks_attach_module(hooks, module) == 0);
    CHECK(abi_work(41) == 42 && calls == 2 && returns == 1);
}

static void check_hooks(void) {
    struct ct_hooks *hooks;
    struct ct_hooks_options *options = NEW(ct_hooks_options);
    struct ct_hook_info *info = NEW(ct_hook_info);
    struct ct_hooks_statistics *statistics = NEW(ct_hooks_statistics);
    uint64_t position = 0;
    unsigned hooked = 0, skipped = 0;
    CHECK_SIZES(options, ct_hooks_create(&hooks, options));
    CHECK_UNKNOWN(options, ct_hooks_create(&hooks, options));
    CHECK(ct_hooks_create(&hooks, options) == 0);
    check_listener(hooks);
    check_module(hooks);
    CHECK_SIZES(info, ct_hooks_next(hooks, &position, info));
    FILL(info);
    while (ct_hooks_next(hooks, &position, info) > 0) {
        CHECK_FILLED(info);
        hooked += info->hook >= 0 && info->function == (void *)abi_work;
        skipped += info->hook < 0;
    }
    CHECK(hooked == 1 && skipped > 0);
    CHECK_SIZES(statistics, ct_hooks_statistics(hooks, statistics));
    FILL(statistics);
    CHECK(ct_hooks_statistics(hooks, statistics) == 0);
    CHECK_FILLED(statistics);
    CHECK(statistics->hooked == 1 && statistics->skipped == skipped);
    CHECK(statistics->skipped_by[CT_HOOK_SKIP_FILTERED] > 0);
    ct_hooks_destroy(hooks);
}

/* ---- the Stalker ---- */

static unsigned received, transformed;

static void on_receive(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    CHECK(user == &received && tid == getpid());
    for (size_t i = 0; i < count; i++)
        received += events[i].kind == CT_STALKER_CALL && events[i].target == (uint64_t)abi_work;
}

static int transform(void *user, struct ct_stalker_iterator *iterator, struct ct_stalker_writer *writer) {
    const struct ct_stalker_insn *insn;
    (void)user, (void)writer;
    while ((insn = ct_stalker_iterator_next(iterator))) {
        CHECK_LENT(insn);
        CHECK(insn->length > 0 && insn->length <= 15 && insn->bytes);
        transformed++;
        ct_stalker_iterator_keep(iterator);
    }
    return 0;
}

static void check_following(struct ct_stalker *stalker) {
    struct ct_stalker_sink *sink = NEW(ct_stalker_sink);
    struct ct_stalker_transformer *transformer = NEW(ct_stalker_transformer);
    sink->mask = CT_STALKER_CALL;
    sink->user = &received;
    sink->on_receive = on_receive;
    transformer->transform = transform;
    CHECK_SIZES(sink, ct_stalker_follow_me(stalker, transformer, sink));
    CHECK_SIZES(transformer, ct_stalker_follow_me(stalker, transformer, sink));
    CHECK_SIZES(sink, ct_stalker_follow(stalker, getpid(), transformer, sink));
    CHECK_UNKNOWN(sink, ct_stalker_follow_me(stalker, transformer, sink));
    CHECK_UNKNOWN(transformer, ct_stalker_follow_me(stalker, transformer, sink));
    CHECK(ct_stalker_follow_me(stalker, transformer, sink) == 0);
    int result = abi_work(41);
    CHECK(ct_stalker_unfollow_me(stalker) == 0);
    CHECK(result == 42 && received == 1 && transformed > 0);
}

static void check_stalker(void) {
    struct ct_stalker *stalker;
    struct ct_stalker_options *options = NEW(ct_stalker_options);
    struct ct_stalker_statistics *statistics = NEW(ct_stalker_statistics);
    options->inline_cache_entries = 8;
    CHECK_SIZES(options, ct_stalker_create(&stalker, options));
    CHECK_UNKNOWN(options, ct_stalker_create(&stalker, options));
    CHECK(ct_stalker_create(&stalker, options) == 0);
    check_following(stalker);
    CHECK_SIZES(statistics, ct_stalker_statistics(stalker, statistics));
    FILL(statistics);
    CHECK(ct_stalker_statistics(stalker, statistics) == 0);
    CHECK_FILLED(statistics);
    CHECK(statistics->blocks > 0 && statistics->instructions >= transformed);
    CHECK(ct_stalker_destroy(stalker) == 0);
}

/* ---- sessions ---- */

static char directory[4096]; /* of the trace */

/* The program that is recorded is this one, with an argument. */
static void record(struct ct_session *session, const char *self) {
    char *const argv[] = {(char *)self, "--recorded", NULL};
    struct ct_session_event *event = NEW(ct_session_event);
    struct ct_session_statistics *statistics = NEW(ct_session_statistics);
    if (ct_session_spawn_suspended(session, argv, NULL) || ct_session_install_full_coverage(session) ||
        ct_session_resume(session)) {
        fprintf(stderr, "cannot record: %s\n", ct_session_error(session));
        exit(1);
    }
    CHECK_SIZES(event, ct_session_wait(session, 0, event));
    FILL(event);
    CHECK(ct_session_wait(session, 60000, event) == 0);
    CHECK_FILLED(event);
    CHECK(event->kind == CT_SESSION_EVENT_EXITED);
    CHECK_SIZES(statistics, ct_session_statistics(session, statistics));
    FILL(statistics);
    CHECK(ct_session_statistics(session, statistics) == 0);
    CHECK_FILLED(statistics);
    CHECK(statistics->events > 0 && statistics->processes == 1 && statistics->threads_seen > 0);
}

static void check_session(const char *self, const char *output) {
    struct ct_session *session;
    struct ct_session_options *options = NEW(ct_session_options);
    options->output = output;
    options->detail = CT_SESSION_DETAIL_ALWAYS;
    CHECK_SIZES(options, ct_session_create(&session, options));
    CHECK(session == NULL);
    CHECK_UNKNOWN(options, ct_session_create(&session, options));
    CHECK(ct_session_create(&session, options) == 0);
    record(session, self);
    snprintf(directory, sizeof directory, "%s", ct_session_directory(session));
    ct_session_destroy(session);
}

static void check_following_session(const char *self, const char *output) {
    struct ct_session *session;
    struct ct_session_options *options = NEW(ct_session_options);
    struct ct_session_stalk *stalk = NEW(ct_session_stalk);
    stalk->events = CT_STALKER_CALL | CT_STALKER_RET;
    stalk->trust = 1;
    options->output = output;
    options->stalk = stalk;
    CHECK_SIZES(stalk, ct_session_create(&session, options));
    CHECK_UNKNOWN(stalk, ct_session_create(&session, options));
    CHECK(ct_session_create(&session, options) == 0);
    record(session, self);
    ct_session_destroy(session);
}

/* ---- traces ---- */

static void check_details(struct ct_trace *trace) {
    struct ct_trace_detail *detail = NEW(ct_trace_detail);
    struct ct_trace_cursor *cursor;
    struct ct_trace_event event;
    unsigned calls_with_detail = 0;
    CHECK_SIZES(detail, ct_trace_detail(trace, 0, 0, detail));
    CHECK(ct_trace_cursor_open(&cursor, trace, 0) == 0);
    FILL(detail);
    while (ct_trace_cursor_next(cursor, &event)) {
        if (event.detail == CT_TRACE_NO_DETAIL || ct_trace_detail(trace, event.thread, event.detail, detail))
            continue;
        CHECK_FILLED(detail);
        CHECK(detail->type != CT_TRACE_DETAIL_CALL || detail->function_id == event.function_id);
        calls_with_detail += detail->type == CT_TRACE_DETAIL_CALL;
    }
    ct_trace_cursor_close(cursor);
    CHECK(calls_with_detail > 0);
}

static void check_trace(void) {
    struct ct_trace *trace;
    char error[512] = "";
    if (ct_trace_open(&trace, directory, error, sizeof error)) {
        fprintf(stderr, "%s: %s\n", directory, error);
        exit(1);
    }
    CHECK(ct_trace_process_count(trace) == 1 && ct_trace_thread_count(trace) == 1);
    const struct ct_trace_process *process = ct_trace_process_at(trace, 0);
    CHECK_LENT(process);
    CHECK(process->pid > 0 && process->complete && ct_trace_module_count(trace) > 1);
    const struct ct_trace_thread *thread = ct_trace_thread_at(trace, 0);
    CHECK_LENT(thread);
    CHECK(thread->event_count > 0 && thread->has_detail);
    for (size_t i = 0; i < ct_trace_module_count(trace); i++) {
        const struct ct_trace_module *module = ct_trace_module_at(trace, i);
        CHECK_LENT(module);
        CHECK(module->process == 0 && module->path[0]);
        const struct ct_trace_function *function = ct_trace_function(trace, 0, (uint64_t)module->id << 32);
        if (function) {
            CHECK_LENT(function);
            CHECK(function->name[0] && function->line);
        }
    }
    check_details(trace);
    ct_trace_close(trace);
}

/* ---- another process ---- */

static void check_threads(struct ct_process *process, int pid) {
    struct ct_process_thread *thread = NEW(ct_process_thread);
    uint64_t position = 0;
    CHECK_SIZES(thread, ct_process_next_thread(process, 16, &position, thread));
    FILL(thread);
    CHECK(ct_process_next_thread(process, 16, &position, thread) == 1);
    CHECK_FILLED(thread);
    CHECK(thread->tid == pid && thread->frames[0] && thread->frames[1]);
    CHECK_LENT(thread->frames[1]);
    CHECK(thread->frames[1]->pc && thread->frames[1]->module[0]);
    CHECK(ct_process_next_thread(process, 16, &position, thread) == 0);
}

static void check_modules(struct ct_process *process) {
    struct ct_process_module *module = NEW(ct_process_module);
    struct ct_process_symbol *symbol = NEW(ct_process_symbol);
    struct ct_process_generated *generated = NEW(ct_process_generated);
    uint64_t position = 0;
    unsigned modules = 0, found = 0;
    CHECK_SIZES(module, ct_process_next_module(process, &position, module));
    FILL(module);
    for (; ct_process_next_module(process, &position, module) > 0; modules++) {
        CHECK_FILLED(module);
        CHECK(module->path[0] && module->start < module->end);
    }
    CHECK(modules > 1);
    position = 0;
    CHECK_SIZES(symbol, ct_process_next_symbol(process, "abi_*", &position, symbol));
    FILL(symbol);
    while (ct_process_next_symbol(process, "abi_*", &position, symbol) > 0) {
        CHECK_FILLED(symbol);
        found += !strcmp(symbol->name, "abi_work") && symbol->length > 0;
    }
    CHECK(found == 1);
    CHECK_SIZES(generated, ct_process_generated_code(process, generated));
    FILL(generated);
    CHECK(ct_process_generated_code(process, generated) == 0);
    CHECK_FILLED(generated);
    CHECK(!generated->recorded);
}

static void check_process(void) {
    struct ct_process *process;
    int pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    CHECK(pid > 0 && ct_process_open(&process, pid, NULL, 0) == 0);
    check_threads(process, pid);
    check_modules(process);
    ct_process_close(process);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    if (!strcmp(argv[1], "--recorded"))
        return abi_work(-1);
    check_process();
    check_following_session(argv[0], argv[1]);
    check_session(argv[0], argv[1]);
    check_trace();
    check_stalker();
    check_hooks();
    puts("passed");
    return 0;
}

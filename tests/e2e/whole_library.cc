/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of the big libraries hooked at once, under a workload that uses them; the output must be that of an
 * unhooked run, byte for byte.
 *
 *     whole_library                 runs itself in each way and compares (the test)
 *     whole_library --plain         the workload alone
 *     whole_library --hooked        hooks everything first; coverage and events go to stderr
 *     whole_library --hooked-exit   the same, short, and ends with the hooks in place
 *     whole_library --listening     the same, short, with a listener that destroys all vector registers
 *     whole_library --list          prints every function that has no hook, with its reason
 *
 * The workload's parts are in workload/, one file per library. */
#include "harness.h"
#include "workload/workload.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

struct library {
    const char *file;
    bool judged; /* coverage must reach 99 % */
};

const library libraries[] = {
    {"libc.so.6", true},      {"libm.so.6", true},    {"libstdc++.so.6", true},        {"libsqlite3.so.0", true},
    {"libcrypto.so.3", true}, {PYTHON_LIBRARY, true}, {"ld-linux-x86-64.so.2", false}, {"libgcc_s.so.1", false},
};

/* ---- events: only whether they fit together ---- */

/* What one thread has open. Fixed memory: the sink runs inside whatever the program does. */
struct thread_events {
    int tid;
    size_t depth, deepest;
    uint32_t open[1 << 16];
};

/* An end that does not belong to the innermost open call. */
struct misfit {
    int tid;
    uint32_t kind, hook, innermost;
};

struct totals {
    uint64_t events[5];
    uint64_t unpaired;
    misfit misfits[16];
};

thread_events threads[128];
totals counted;

thread_events *events_of(int tid) {
    for (auto &t : threads) {
        int expected = 0;
        if (t.tid == tid)
            return &t;
        if (t.tid == 0 &&
            __atomic_compare_exchange_n(&t.tid, &expected, tid, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return &t;
    }
    return nullptr;
}

void sink(void *, int tid, const ct_event *events, size_t count) {
    thread_events *t = events_of(tid);
    for (size_t i = 0; i < count; i++) {
        const ct_event &e = events[i];
        if (e.kind < 5)
            __atomic_add_fetch(&counted.events[e.kind], 1, __ATOMIC_RELAXED);
        if (!t || e.kind == CT_EVENT_ENTRY)
            continue;
        if (e.kind == CT_EVENT_CALL) {
            if (t->depth < sizeof t->open / sizeof *t->open)
                t->open[t->depth] = e.hook;
            t->depth++;
            t->deepest = std::max(t->deepest, t->depth);
        } else if (t->depth && (t->depth > sizeof t->open / sizeof *t->open || t->open[t->depth - 1] == e.hook)) {
            t->depth--;
        } else {
            uint64_t n = __atomic_fetch_add(&counted.unpaired, 1, __ATOMIC_RELAXED);
            if (n < sizeof counted.misfits / sizeof *counted.misfits)
                counted.misfits[n] = {tid, e.kind, e.hook, t->depth ? t->open[t->depth - 1] : UINT32_MAX};
        }
    }
}

/* ---- coverage ---- */

struct coverage {
    size_t functions = 0, hooked = 0, entry_only = 0;
    size_t skipped[CT_HOOK_SKIP_COUNT] = {};
    std::vector<std::string> lines;

    /* Pieces that the tables list but nobody calls as functions */
    size_t not_functions() const {
        return skipped[CT_HOOK_SKIP_PLT] + skipped[CT_HOOK_SKIP_COLD] + skipped[CT_HOOK_SKIP_FRAGMENT] +
               skipped[CT_HOOK_SKIP_ODD_ENTRY];
    }
    double percent() const {
        size_t real = functions - not_functions();
        return real ? 100.0 * static_cast<double>(hooked) / static_cast<double>(real) : 0;
    }
};

using coverages = std::map<std::string, coverage>;

void add_function(coverages &all, const ct_hook_info *info) {
    const char *base = strrchr(info->module, '/');
    coverage &c = all[base ? base + 1 : info->module];
    c.functions++;
    if (info->hook >= 0) {
        c.hooked++;
        c.entry_only += info->entry_only != CT_HOOK_ENTRY_ONLY_NONE;
    } else if (info->skip < CT_HOOK_SKIP_COUNT) {
        c.skipped[info->skip]++;
        char line[256];
        snprintf(line, sizeof line, "%-14s %p %s", ct_hook_skip_name(info->skip), info->function, info->name);
        c.lines.push_back(line);
    }
}

/* The module table names files by their real path: libpython3.11.so.1.0 and the like all begin with the name. */
const coverage *coverage_of(const coverages &all, const library &l) {
    std::string stem(l.file, strcspn(l.file, "."));
    for (const auto &entry : all)
        if (entry.first == l.file || entry.first.compare(0, stem.size(), stem) == 0)
            return &entry.second;
    return nullptr;
}

bool print_coverage(ct_hooks *hooks, bool list) {
    coverages all;
    bool good = true;
    ct_hook_info info = {};
    info.size = sizeof info;
    for (uint64_t position = 0; ct_hooks_next(hooks, &position, &info) > 0;)
        add_function(all, &info);
    for (const auto &l : libraries) {
        const coverage *c = coverage_of(all, l);
        if (!c) {
            fprintf(stderr, "%s: not hooked at all\n", l.file);
            good = false;
            continue;
        }
        fprintf(stderr, "%-22s %6zu functions %6zu hooked %4zu entry-only %7.2f %%", l.file,
                c->functions - c->not_functions(), c->hooked, c->entry_only, c->percent());
        for (int reason = 1; reason < CT_HOOK_SKIP_COUNT; reason++)
            if (c->skipped[reason])
                fprintf(stderr, "  %s %zu", ct_hook_skip_name(static_cast<ct_hook_skip_reason>(reason)),
                        c->skipped[reason]);
        fputc('\n', stderr);
        for (const auto &line : c->lines)
            if (list)
                fprintf(stderr, "    %s\n", line.c_str());
        if (l.judged && c->percent() < 99) {
            fprintf(stderr, "%s: coverage is below 99 %%\n", l.file);
            good = false;
        }
    }
    return good;
}

/* ---- the hooked run ---- */

void fail(const char *what, int rc) {
    fprintf(stderr, "%s: %s (%s)\n", what, ct_status_text(rc), ct_status_name(rc));
    exit(1);
}

uint64_t listened;

/* Counts, and leaves nothing in the registers that C code may use. */
void clobbering_listener(ct_cpu_context *, ct_hook_call *) {
    __atomic_add_fetch(&listened, 1, __ATOMIC_RELAXED);
    e2e_clobber();
}

ct_hooks *hook_everything(ct_hook_flavor flavor) {
    ct_hooks *hooks;
    int rc = ct_hooks_create(&hooks, nullptr);
    if (rc != 0)
        fail("create", rc);
    if ((rc = ct_hooks_set_sink(hooks, sink, nullptr, 0)) != 0)
        fail("set_sink", rc);
    if ((rc = ct_hooks_begin(hooks)) != 0)
        fail("begin", rc);
    ct_hook_listener listener = {};
    listener.size = sizeof listener;
    listener.on_call = listener.on_return = clobbering_listener;
    for (const auto &l : libraries) {
        ct_hooks_module what = {};
        what.size = sizeof what;
        what.module = l.file;
        what.flavor = flavor;
        what.listener = &listener;
        if ((rc = ct_hooks_attach_module(hooks, &what)) < 0)
            fail(l.file, rc);
    }
    if ((rc = ct_hooks_commit(hooks)) != 0)
        fail("commit", rc);
    return hooks;
}

void print_misfits(ct_hooks *hooks) {
    std::map<uint32_t, std::string> names;
    ct_hook_info info = {};
    info.size = sizeof info;
    for (uint64_t position = 0; counted.unpaired && ct_hooks_next(hooks, &position, &info) > 0;)
        if (info.hook >= 0)
            names[static_cast<uint32_t>(info.hook)] = info.name;
    for (uint64_t i = 0; i < std::min<uint64_t>(counted.unpaired, 16); i++) {
        const misfit &m = counted.misfits[i];
        fprintf(stderr, "    thread %d: %s of %s while %s is open\n", m.tid,
                m.kind == CT_EVENT_RETURN ? "return" : "leave", names[m.hook].c_str(), names[m.innermost].c_str());
    }
}

bool print_events(ct_hooks *hooks) {
    struct ct_hooks_statistics s = {};
    s.size = sizeof s;
    ct_hooks_flush(hooks);
    ct_hooks_statistics(hooks, &s);
    size_t open = 0, deepest = 0;
    for (const auto &t : threads) {
        open += t.depth;
        deepest = std::max(deepest, t.deepest);
    }
    fprintf(stderr, "%lu calls, %lu returns, %lu left, %lu entries, %lu unpaired, %zu open, depth %zu\n",
            counted.events[CT_EVENT_CALL], counted.events[CT_EVENT_RETURN], counted.events[CT_EVENT_EXCEPTION],
            counted.events[CT_EVENT_ENTRY], counted.unpaired, open, deepest);
    fprintf(
        stderr,
        "%lu guarded, %lu deep, %lu left frames, %lu abandoned, %lu threads, planned in %.0f ms, stopped for %.1f ms\n",
        s.guarded_calls, s.deep_calls, s.left_frames, s.abandoned, s.threads, static_cast<double>(s.plan_ns) / 1e6,
        static_cast<double>(s.stop_ns) / 1e6);
    print_misfits(hooks);
    /* this thread is in nothing hooked; other threads have ended */
    return counted.unpaired == 0 && counted.events[CT_EVENT_CALL] > 1000000 && s.abandoned == 0;
}

int run_hooked(bool list, bool to_the_end) {
    workload_prepare();
    ct_hooks *hooks = hook_everything(CT_HOOK_FLAVOR_RECORD);
    if (list) {
        print_coverage(hooks, true);
        ct_hooks_destroy(hooks);
        return 0;
    }
    workload(to_the_end);
    if (to_the_end)
        return 0;
    bool good = print_events(hooks);
    good &= print_coverage(hooks, false);
    ct_hooks_destroy(hooks);
    workload_quick(); /* everything works without them, too */
    fflush(stdout);
    return good ? 0 : 1;
}

int run_listening() {
    workload_prepare();
    ct_hooks *hooks = hook_everything(CT_HOOK_FLAVOR_LISTEN);
    workload(1);
    fflush(stdout);
    ct_hooks_destroy(hooks);
    fprintf(stderr, "%lu calls of the listener\n", listened);
    return listened > 100000 ? 0 : 1;
}

int run_plain(bool quick) {
    workload_prepare();
    workload(quick);
    if (!quick)
        workload_quick();
    fflush(stdout);
    return 0;
}

/* ---- the driver ---- */

/* Runs this program with an option; what it wrote to stdout. */
std::string run_self(const char *self, const char *option, bool *good) {
    int pipes[2];
    std::string text;
    if (pipe(pipes) != 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[1], 1);
        close(pipes[0]);
        close(pipes[1]);
        setenv("PYTHONHASHSEED", "0", 1);
        execl(self, self, option, static_cast<char *>(nullptr));
        _exit(127);
    }
    close(pipes[1]);
    char buffer[65536];
    ssize_t got;
    while ((got = read(pipes[0], buffer, sizeof buffer)) > 0)
        text.append(buffer, static_cast<size_t>(got));
    close(pipes[0]);
    int status;
    waitpid(pid, &status, 0);
    if (status != 0) {
        fprintf(stderr, "%s ended with status %#x\n", option, status);
        *good = false;
    }
    return text;
}

bool same(const std::string &plain, const std::string &hooked) {
    if (plain == hooked)
        return true;
    size_t at = 0;
    while (at < plain.size() && at < hooked.size() && plain[at] == hooked[at])
        at++;
    size_t from = plain.rfind('\n', at ? at - 1 : 0);
    from = from == std::string::npos ? 0 : from + 1;
    fprintf(stderr, "the outputs differ at byte %zu\nunhooked: %.200s\nhooked:   %.200s\n", at, plain.c_str() + from,
            hooked.size() > from ? hooked.c_str() + from : "(ended)");
    return false;
}

int drive(const char *self) {
    bool good = true;
    std::string plain = run_self(self, "--plain", &good);
    std::string hooked = run_self(self, "--hooked", &good);
    good &= same(plain, hooked);
    good &= plain.size() > 1000;
    plain = run_self(self, "--plain-quick", &good);
    hooked = run_self(self, "--hooked-exit", &good);
    good &= same(plain, hooked);
    hooked = run_self(self, "--listening", &good);
    good &= same(plain, hooked);
    printf("%zu bytes of output: %s\n", plain.size(), good ? "passed" : "FAILED");
    return good ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
    const char *option = argc > 1 ? argv[1] : "";
    if (strcmp(option, "--plain") == 0 || strcmp(option, "--plain-quick") == 0)
        return run_plain(option[7] != 0);
    if (strncmp(option, "--hooked", 8) == 0)
        return run_hooked(false, option[8] != 0);
    if (strcmp(option, "--listening") == 0)
        return run_listening();
    if (strcmp(option, "--list") == 0)
        return run_hooked(true, false);
    return drive("/proc/self/exe");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Judges what the facts mean for a recording, and what helps. Facts in, sentences out: it reads nothing itself. */
#include "doctor/doctor.h"
#include "drain/switches.h"
#include "isa/machine.h"
#include "trace/place.h"
#include <contrail/status.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)
enum { MIN_FILES = 64, MIN_SPACE_MIB = 512 };  /* for lanes, libraries and stubs of a usual recording */
enum { OWN_FILES = 64 };                       /* that a recording opens besides those for switches */
enum { MIN_MEMORY_MIB = 160, MIN_TASKS = 32 }; /* lanes of the usual size fit into half of it; our own threads */

static struct ct_doctor_check *add_check(struct ct_doctor_report *r, const char *name, enum ct_doctor_level level,
                                         const char *remedy, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static struct ct_doctor_check *add_check(struct ct_doctor_report *r, const char *name, enum ct_doctor_level level,
                                         const char *remedy, const char *format, ...) {
    struct ct_doctor_check *check = &r->checks[r->count];
    va_list arguments;
    if (r->count + 1 < CT_DOCTOR_CHECKS) /* otherwise the last entry is overwritten; the counts stay right */
        r->count++;
    *check = (struct ct_doctor_check){.name = name, .level = level};
    va_start(arguments, format);
    vsnprintf(check->text, sizeof check->text, format, arguments);
    va_end(arguments);
    snprintf(check->remedy, sizeof check->remedy, "%s", remedy);
    r->warnings += level == CT_DOCTOR_WARNING;
    r->problems += level == CT_DOCTOR_PROBLEM;
    if (level == CT_DOCTOR_PROBLEM && !r->status)
        r->status = CT_ERR_UNSUPPORTED;
    return check;
}

/* Adds a problem of missing rights, which decides the exit code of the command. */
static void add_refusal(struct ct_doctor_report *r, const char *name, const char *remedy, const char *text) {
    add_check(r, name, CT_DOCTOR_PROBLEM, remedy, "%s", text)->permission = true;
    r->status = CT_ERR_PERMISSION_DENIED;
}

static bool has_capability(const struct ct_doctor_facts *f, int capability) {
    return f->capabilities >> capability & 1;
}

/* ---- rights ---- */

static void judge_ptrace(const struct ct_doctor_facts *f, struct ct_doctor_report *r) {
    char text[128];
    if (!f->ptrace_error) {
        add_check(r, "ptrace", CT_DOCTOR_OK, "", "a child process can be traced");
        return;
    }
    snprintf(text, sizeof text, "a child process cannot be traced: %s", strerror(f->ptrace_error));
    add_refusal(r, "ptrace",
                f->yama == 3
                    ? "restart the machine with a kernel.yama.ptrace_scope other than 3"
                    : "in a container, start it with --cap-add=SYS_PTRACE and a seccomp profile that allows ptrace",
                text);
}

static void judge_yama(const struct ct_doctor_facts *f, struct ct_doctor_report *r) {
    static const char root[] = "run `contrail attach` as root, or start programs with `contrail spawn`";
    if (f->yama < 0)
        add_check(r, "yama", CT_DOCTOR_OK, "", "not in this kernel");
    else if (f->yama == 0)
        add_check(r, "yama", CT_DOCTOR_OK, "", "kernel.yama.ptrace_scope is 0: you can attach to your own processes");
    else if (f->yama == 3)
        add_refusal(r, "yama", "restart the machine with another value",
                    "kernel.yama.ptrace_scope is 3: nobody may trace");
    else if (has_capability(f, CT_DOCTOR_SYS_PTRACE))
        add_check(r, "yama", CT_DOCTOR_OK, "", "kernel.yama.ptrace_scope is %d, which CAP_SYS_PTRACE overrides",
                  f->yama);
    else if (f->yama == 1)
        add_check(r, "yama", CT_DOCTOR_WARNING, root,
                  "kernel.yama.ptrace_scope is 1: only programs that contrail has started can be recorded");
    else
        add_refusal(r, "yama", "run contrail as root, or set the sysctl to 0 or 1",
                    "kernel.yama.ptrace_scope is 2: only root may trace");
}

static void judge_capabilities(const struct ct_doctor_facts *f, struct ct_doctor_report *r) {
    bool trace = has_capability(f, CT_DOCTOR_SYS_PTRACE), admin = has_capability(f, CT_DOCTOR_SYS_ADMIN);
    const char *restore = has_capability(f, CT_DOCTOR_CHECKPOINT_RESTORE) ? "yes" : "no";
    bool whole = trace && admin;
    add_check(r, "capabilities", whole ? CT_DOCTOR_OK : CT_DOCTOR_WARNING,
              whole   ? ""
              : trace ? "run as root or give CAP_SYS_ADMIN to record programs that have a seccomp filter"
                      : "run as root to record processes of other users and those with a seccomp filter",
              "user %u; CAP_SYS_PTRACE %s, CAP_SYS_ADMIN %s, CAP_CHECKPOINT_RESTORE %s", f->user, trace ? "yes" : "no",
              admin ? "yes" : "no", restore);
}

static void judge_seccomp(const struct ct_doctor_facts *f, struct ct_doctor_report *r) {
    if (f->seccomp <= 0)
        add_check(r, "seccomp", CT_DOCTOR_OK, "", "contrail runs without a filter");
    else
        add_check(
            r, "seccomp", CT_DOCTOR_WARNING,
            "to record others, run contrail outside the container, or start the container with --security-opt "
            "seccomp=unconfined",
            "contrail itself runs under a seccomp filter (a container?): it can record programs that have the same "
            "filter, and cannot lift another");
}

/* ---- memory ---- */

static void judge_limits(const struct ct_doctor_facts *f, struct ct_doctor_report *r) {
    if (f->address_space == CT_DOCTOR_UNLIMITED)
        add_check(r, "address space", CT_DOCTOR_OK, "", "not limited");
    else
        add_check(r, "address space", f->address_space < MIN_SPACE_MIB * MIB ? CT_DOCTOR_PROBLEM : CT_DOCTOR_WARNING,
                  "raise it with `ulimit -v unlimited`, or use a smaller --index-mem",
                  "limited to %llu MiB, for contrail and the programs that it starts",
                  (unsigned long long)(f->address_space / MIB));
    if (f->locked_memory == CT_DOCTOR_UNLIMITED)
        add_check(r, "locked memory", CT_DOCTOR_OK, "", "not limited");
    else
        add_check(r, "locked memory", CT_DOCTOR_OK, "", "limited to %llu KiB; recording locks none, except with --cpu",
                  (unsigned long long)(f->locked_memory / 1024));
    if (f->open_files == CT_DOCTOR_UNLIMITED)
        add_check(r, "open files", CT_DOCTOR_OK, "", "not limited");
    else
        add_check(r, "open files", f->open_files < MIN_FILES ? CT_DOCTOR_WARNING : CT_DOCTOR_OK,
                  f->open_files < MIN_FILES ? "raise the limit with `ulimit -n 1024`" : "", "at most %llu",
                  (unsigned long long)f->open_files);
}

static void judge_overcommit(const struct ct_doctor_facts *f, struct ct_doctor_report *r) {
    if (f->overcommit != 2)
        add_check(r, "overcommit", CT_DOCTOR_OK, "",
                  "vm.overcommit_memory is not 2: address space is not counted as memory");
    else
        add_check(r, "overcommit", f->commit_left < 64 * MIB ? CT_DOCTOR_PROBLEM : CT_DOCTOR_WARNING,
                  "set vm.overcommit_memory to 0, or use a smaller --index-mem",
                  "vm.overcommit_memory is 2: %llu MiB can still be committed",
                  (unsigned long long)(f->commit_left / MIB));
}

/* ---- kernel and processor ---- */

static void judge_kernel(const struct ct_doctor_facts *f, struct ct_doctor_report *r) {
    static const char newer[] = "use Linux 5.6 or newer; in a container, a seccomp profile that allows the call";
    if (!f->pidfd_open || !f->memfd || !f->wipe_on_fork)
        add_check(r, "kernel", CT_DOCTOR_PROBLEM, newer, "Linux %s without%s%s%s", f->kernel,
                  f->pidfd_open ? "" : " pidfd_open", f->memfd ? "" : " memfd_create",
                  f->wipe_on_fork ? "" : " MADV_WIPEONFORK");
    else if (!f->pidfd_getfd)
        add_check(r, "kernel", f->seccomp > 0 ? CT_DOCTOR_OK : CT_DOCTOR_WARNING, f->seccomp > 0 ? "" : newer,
                  "Linux %s without pidfd_getfd: /proc/PID/fd is used instead", f->kernel);
    else
        add_check(r, "kernel", CT_DOCTOR_OK, "", "Linux %s; pidfd_getfd, memfd_create and MADV_WIPEONFORK work",
                  f->kernel);
    if (!f->no_gs)
        add_check(r, "FSGSBASE", CT_DOCTOR_OK, "", "%s",
                  f->fsgsbase ? "offered to programs" : "not offered to programs; recording does not need it");
}

static void judge_clock(const struct ct_doctor_facts *f, struct ct_doctor_report *r) {
    bool steady = f->constant_tsc && f->nonstop_tsc;
    if (f->steady_counter)
        add_check(r, "clock", CT_DOCTOR_OK, "", "the processor's counter, which is steady");
    else if (!steady)
        add_check(r, "clock", CT_DOCTOR_WARNING,
                  "record on a machine, or a virtual machine type, with an invariant TSC",
                  "the processor does not promise a steady time stamp counter (%s%smissing): times may be wrong",
                  f->constant_tsc ? "" : "constant_tsc ", f->nonstop_tsc ? "" : "nonstop_tsc ");
    else if (f->clock_source[0] && strcmp(f->clock_source, "tsc"))
        add_check(r, "clock", CT_DOCTOR_WARNING,
                  "look for \"tsc\" in the kernel's log; in a virtual machine this is usual and mostly harmless",
                  "the time stamp counter is invariant, but the kernel's clock source is %s", f->clock_source);
    else
        add_check(r, "clock", CT_DOCTOR_OK, "", "invariant time stamp counter%s",
                  f->clock_source[0] ? ", which the kernel uses too" : "");
}

/* Without it everything but --cpu works, so it is never a problem. */
static void judge_switches(const struct ct_doctor_facts *f, struct ct_doctor_report *r) {
    uint64_t needed = (uint64_t)f->target.threads * f->processors + OWN_FILES;
    struct ct_switches_refusal refusal = ct_switches_refusal(f->switches_error);
    if (f->switches_error)
        add_check(r, "time on CPUs", CT_DOCTOR_WARNING, refusal.remedy, "--cpu has no effect: %s",
                  refusal.cause ? refusal.cause : strerror(f->switches_error));
    else if (f->switches_whole_error && needed > f->open_files)
        add_check(r, "time on CPUs", CT_DOCTOR_WARNING,
                  "raise `ulimit -n`, run contrail as root, or set /proc/sys/kernel/perf_event_paranoid to 0",
                  "--cpu has no effect: it needs %llu open files for the %u threads of the process",
                  (unsigned long long)needed, f->target.threads);
    else
        add_check(r, "time on CPUs", CT_DOCTOR_OK, "", "perf_event_open works: --cpu records when threads run");
}

/* ---- directories ---- */

static void judge_directories(const struct ct_doctor_facts *f, struct ct_doctor_report *r) {
    if (!f->cache[0])
        add_check(r, "cache", CT_DOCTOR_WARNING, "set HOME or XDG_CACHE_HOME",
                  "there is no directory for a cache: every recording analyses all code again");
    else if (f->cache_error == CT_PLACE_NOT_OURS || f->cache_error == CT_PLACE_LINK)
        add_check(r, "cache", CT_DOCTOR_WARNING, "set XDG_CACHE_HOME to a directory that only you can write",
                  "%.400s is not used, since another user could change it: every recording analyses all code again",
                  f->cache);
    else if (f->cache_error)
        add_check(r, "cache", CT_DOCTOR_WARNING, "make the directory writable, or set XDG_CACHE_HOME to another one",
                  "%.400s cannot be written (%s): every recording analyses all code again", f->cache,
                  strerror(f->cache_error));
    else
        add_check(r, "cache", CT_DOCTOR_OK, "", "%.500s", f->cache);
    if (f->output_error)
        add_check(r, "output", CT_DOCTOR_PROBLEM, "choose another place with --output DIR",
                  "traces cannot be written below %.400s (%s)", f->output, strerror(f->output_error));
    else
        add_check(r, "output", CT_DOCTOR_OK, "", "traces can be written below %.400s", f->output);
    if (!f->output_error)
        add_check(r, "disk space",
                  f->disk_free < 16 * MIB ? CT_DOCTOR_PROBLEM
                  : f->disk_free < GIB    ? CT_DOCTOR_WARNING
                                          : CT_DOCTOR_OK,
                  f->disk_free < GIB ? "free some, or choose another place with --output DIR" : "", "%llu MiB free",
                  (unsigned long long)(f->disk_free / MIB));
}

/* ---- the process ---- */

static void judge_access(const struct ct_doctor_target *t, struct ct_doctor_report *r) {
    const char *why = t->why[0] ? t->why : ct_status_text(t->open_status);
    if (t->open_status == CT_ERR_PERMISSION_DENIED)
        add_refusal(r, "access", "", why);
    else if (t->open_status)
        add_check(r, "access", CT_DOCTOR_PROBLEM, "", "%s", why);
    else
        add_check(r, "access", CT_DOCTOR_OK, "", "process %d%s%s%s may be traced%s%s", t->pid,
                  t->program[0] ? " (" : "", t->program, t->program[0] ? ")" : "",
                  t->other_user ? ", although it belongs to another user" : "",
                  t->more_rights ? ", although its rights differ from ours" : "");
}

static void judge_program(const struct ct_doctor_target *t, struct ct_doctor_report *r) {
    static const char *const libcs[] = {"another libc", "linked statically", "glibc", "musl"};
    const char *host = ct_machine_host()->name;
    bool known = !strcmp(t->architecture, host);
    char remedy[128];
    snprintf(remedy, sizeof remedy, "build the program for %s: this contrail records no other", host);
    if (t->architecture[0])
        add_check(r, "architecture", known ? CT_DOCTOR_OK : CT_DOCTOR_PROBLEM, known ? "" : remedy, "%s",
                  t->architecture);
    if (t->open_status)
        return;
    add_check(r, "libc", t->libc == CT_DOCTOR_LIBC_UNKNOWN ? CT_DOCTOR_WARNING : CT_DOCTOR_OK,
              t->libc == CT_DOCTOR_LIBC_UNKNOWN ? "try it: longjmp is noticed late, and constructors run unrecorded"
                                                : "",
              "%s", libcs[t->libc]);
}

/* The kernel lets only a tracer with CAP_SYS_ADMIN, and without a filter of its own, lift another process's filter. */
static void judge_filter(const struct ct_doctor_facts *f, struct ct_doctor_report *r) {
    const struct ct_doctor_target *t = &f->target;
    bool may_lift = has_capability(f, CT_DOCTOR_SYS_ADMIN) && f->seccomp <= 0;
    if (t->seccomp <= 0)
        add_check(r, "its seccomp", CT_DOCTOR_OK, "", "%s", t->seccomp ? "not known" : "no filter");
    else if (t->same_filters)
        add_check(r, "its seccomp", CT_DOCTOR_OK, "",
                  "the same filter as contrail's own, which allows the calls that recording makes");
    else if (!t->all_filtered || may_lift)
        add_check(r, "its seccomp", CT_DOCTOR_WARNING,
                  "for a recording, the filter must allow rt_sigprocmask, mmap and futex", "it has a filter, which %s",
                  t->all_filtered ? "can be lifted while hooks are set" : "some threads lack");
    else
        add_refusal(
            r, "its seccomp",
            "run contrail as root outside the container, or start the container with --security-opt seccomp=unconfined",
            "all its threads have a filter, which contrail may not lift");
}

static void judge_room(const struct ct_doctor_target *t, struct ct_doctor_report *r) {
    bool limited = t->memory_left != CT_DOCTOR_UNLIMITED, few = t->tasks_left < MIN_TASKS;
    if (!limited)
        add_check(r, "its memory", CT_DOCTOR_OK, "", "not limited by a cgroup");
    else
        add_check(r, "its memory", t->memory_left < MIN_MEMORY_MIB * MIB ? CT_DOCTOR_WARNING : CT_DOCTOR_OK,
                  t->memory_left < MIN_MEMORY_MIB * MIB
                      ? "raise the limit of the cgroup, or expect smaller lanes than --index-mem"
                      : "",
                  "its cgroup has %llu MiB left, of which recording takes at most half",
                  (unsigned long long)(t->memory_left / MIB));
    if (t->tasks_left != CT_DOCTOR_UNLIMITED)
        add_check(r, "its processes", few ? CT_DOCTOR_WARNING : CT_DOCTOR_OK,
                  few ? "raise `ulimit -u`, or pids.max of the container: threads of contrail count too" : "",
                  "it may start %llu more processes and threads", (unsigned long long)t->tasks_left);
}

static void judge_others(const struct ct_doctor_target *t, struct ct_doctor_report *r) {
    char remedy[64];
    if (t->tracer)
        add_check(r, "tracer", CT_DOCTOR_PROBLEM, "detach that tracer first", "process %d already traces it",
                  t->tracer);
    else
        add_check(r, "tracer", CT_DOCTOR_OK, "", "nobody traces it");
    snprintf(remedy, sizeof remedy, "`contrail detach %d` ends that recording", t->pid);
    if (t->recorded)
        add_check(r, "hooks", CT_DOCTOR_PROBLEM, remedy, "it is being recorded already");
    else if (t->hooks)
        add_check(r, "hooks", CT_DOCTOR_WARNING, "`contrail attach` removes them first",
                  "it has hooks of a recorder that was killed, or that another user runs");
    else
        add_check(r, "hooks", CT_DOCTOR_OK, "", "none");
    add_check(r, "namespaces", CT_DOCTOR_OK, "", "%s",
              t->other_pids && t->other_mounts
                  ? "pid and mount namespaces other than ours (a container): contrail follows both"
              : t->other_pids   ? "a pid namespace other than ours: contrail follows it"
              : t->other_mounts ? "a mount namespace other than ours: contrail follows it"
                                : "the same as ours");
    add_check(r, "size", CT_DOCTOR_OK, "", "%u thread%s, %u module%s", t->threads, t->threads == 1 ? "" : "s",
              t->modules, t->modules == 1 ? "" : "s");
}

void ct_doctor_judge(const struct ct_doctor_facts *facts, struct ct_doctor_report *report) {
    memset(report, 0, sizeof *report);
    judge_ptrace(facts, report);
    judge_yama(facts, report);
    judge_capabilities(facts, report);
    judge_seccomp(facts, report);
    judge_limits(facts, report);
    judge_overcommit(facts, report);
    judge_kernel(facts, report);
    judge_clock(facts, report);
    judge_switches(facts, report);
    judge_directories(facts, report);
    if (!facts->target.pid)
        return;
    judge_access(&facts->target, report);
    judge_program(&facts->target, report);
    if (facts->target.open_status && facts->target.open_status != CT_ERR_BUSY)
        return; /* nothing more can be known about it */
    judge_filter(facts, report);
    judge_room(&facts->target, report);
    judge_others(&facts->target, report);
}

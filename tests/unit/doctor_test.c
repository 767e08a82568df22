/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts of the doctor from given facts. */
#include "doctor/doctor.h"
#include "isa/machine.h"
#include <contrail/status.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define CAP(n) (1ull << (n))

static struct ct_doctor_facts facts;
static struct ct_doctor_report report;

/* Root on a good machine, and a plain process of its own. */
static int good(void **state) {
    (void)state;
    facts = (struct ct_doctor_facts){
        .yama = -1,
        .capabilities = CAP(CT_DOCTOR_SYS_PTRACE) | CAP(CT_DOCTOR_SYS_ADMIN) | CAP(CT_DOCTOR_CHECKPOINT_RESTORE),
        .address_space = CT_DOCTOR_UNLIMITED,
        .locked_memory = 65536,
        .open_files = 1024,
        .kernel = "6.1.0",
        .pidfd_open = true,
        .pidfd_getfd = true,
        .memfd = true,
        .wipe_on_fork = true,
        .processors = 2,
        .constant_tsc = true,
        .nonstop_tsc = true,
        .clock_source = "tsc",
        .cache = "/home/u/.cache/contrail",
        .output = "traces",
        .disk_free = 100ull << 30,
        .target = {.pid = 4711,
                   .program = "/bin/p",
                   .architecture = ct_machine_host()->name,
                   .libc = CT_DOCTOR_LIBC_GLIBC,
                   .threads = 1,
                   .memory_left = CT_DOCTOR_UNLIMITED,
                   .tasks_left = CT_DOCTOR_UNLIMITED,
                   .modules = 3},
    };
    return 0;
}

static const struct ct_doctor_check *check_of(const char *name) {
    ct_doctor_judge(&facts, &report);
    for (size_t i = 0; i < report.count; i++)
        if (!strcmp(report.checks[i].name, name))
            return &report.checks[i];
    fail_msg("no check %s", name);
    return NULL;
}

/* Exactly one check is not ok: this one, with this level; it has words and, if asked for, a remedy. */
static void expect(const char *name, enum ct_doctor_level level, int status, bool remedy) {
    const struct ct_doctor_check *check = check_of(name);
    assert_int_equal(check->level, level);
    assert_int_equal(report.status, status);
    assert_int_equal(report.warnings, level == CT_DOCTOR_WARNING);
    assert_int_equal(report.problems, level == CT_DOCTOR_PROBLEM);
    assert_int_equal(check->permission, status == CT_ERR_PERMISSION_DENIED);
    assert_true(check->text[0]);
    assert_int_equal(check->remedy[0] != 0, remedy);
    good(NULL);
}
static void warns(const char *name) {
    expect(name, CT_DOCTOR_WARNING, 0, true);
}
static void stops(const char *name, int status) {
    expect(name, CT_DOCTOR_PROBLEM, status, true);
}

static void test_all_is_well(void **state) {
    (void)state;
    expect("ptrace", CT_DOCTOR_OK, 0, false);
    facts.target.pid = 0;
    ct_doctor_judge(&facts, &report);
    for (size_t i = 0; i < report.count; i++)
        assert_string_not_equal(report.checks[i].name, "access");
    ct_doctor_judge(&facts, &report);
    assert_true(report.count < CT_DOCTOR_CHECKS);
}

static void test_rights(void **state) {
    (void)state;
    facts.ptrace_error = EPERM;
    stops("ptrace", CT_ERR_PERMISSION_DENIED);
    facts.yama = 0;
    expect("yama", CT_DOCTOR_OK, 0, false);
    facts.yama = 2; /* root overrides it */
    expect("yama", CT_DOCTOR_OK, 0, false);
    facts.yama = 3; /* but not this */
    stops("yama", CT_ERR_PERMISSION_DENIED);
    facts.capabilities = 0;
    warns("capabilities");
    facts.capabilities &= ~CAP(CT_DOCTOR_SYS_ADMIN);
    warns("capabilities");
    facts.capabilities = 0;
    facts.yama = 1;
    assert_int_equal(check_of("yama")->level, CT_DOCTOR_WARNING);
    assert_int_equal(report.status, 0);
    facts.yama = 2;
    assert_int_equal(check_of("yama")->level, CT_DOCTOR_PROBLEM);
    assert_int_equal(report.status, CT_ERR_PERMISSION_DENIED);
    good(NULL);
    facts.seccomp = 2;
    warns("seccomp");
}

static void test_memory(void **state) {
    (void)state;
    facts.address_space = 4ull << 30;
    warns("address space");
    facts.address_space = 100 << 20;
    stops("address space", CT_ERR_UNSUPPORTED);
    facts.open_files = 20;
    warns("open files");
    facts.overcommit = 2;
    facts.commit_left = 8ull << 30;
    warns("overcommit");
    facts.overcommit = 2;
    facts.commit_left = 1 << 20;
    stops("overcommit", CT_ERR_UNSUPPORTED);
    facts.overcommit = 1; /* what is left does not count then */
    expect("overcommit", CT_DOCTOR_OK, 0, false);
}

static void test_machine(void **state) {
    (void)state;
    facts.pidfd_open = false;
    stops("kernel", CT_ERR_UNSUPPORTED);
    facts.memfd = false;
    assert_non_null(strstr(check_of("kernel")->text, "memfd_create"));
    stops("kernel", CT_ERR_UNSUPPORTED);
    facts.wipe_on_fork = false;
    stops("kernel", CT_ERR_UNSUPPORTED);
    facts.pidfd_getfd = false;
    warns("kernel");
    facts.nonstop_tsc = false;
    assert_non_null(strstr(check_of("clock")->text, "(nonstop_tsc missing)"));
    warns("clock");
    facts.steady_counter = true; /* no word of another machine's counter */
    expect("clock", CT_DOCTOR_OK, 0, false);
    assert_null(strstr(check_of("clock")->text, "tsc"));
    facts.steady_counter = false;
    strcpy(facts.clock_source, "hpet");
    warns("clock");
    strcpy(facts.clock_source, "");
    expect("clock", CT_DOCTOR_OK, 0, false);
}

static void test_directories(void **state) {
    (void)state;
    facts.cache[0] = 0;
    warns("cache");
    facts.cache_error = EACCES;
    warns("cache");
    facts.output_error = EROFS;
    stops("output", CT_ERR_UNSUPPORTED);
    facts.disk_free = 500 << 20;
    warns("disk space");
    facts.disk_free = 1 << 20;
    stops("disk space", CT_ERR_UNSUPPORTED);
}

static void test_target(void **state) {
    (void)state;
    facts.target.open_status = CT_ERR_PERMISSION_DENIED; /* the sentence has the remedy itself */
    strcpy(facts.target.why, "process 4711 belongs to the user root");
    expect("access", CT_DOCTOR_PROBLEM, CT_ERR_PERMISSION_DENIED, false);
    facts.target.open_status = CT_ERR_NOT_FOUND;
    expect("access", CT_DOCTOR_PROBLEM, CT_ERR_UNSUPPORTED, false);
    facts.target.architecture = "a 32-bit architecture";
    stops("architecture", CT_ERR_UNSUPPORTED);
    facts.target.libc = CT_DOCTOR_LIBC_UNKNOWN;
    warns("libc");
    facts.target.libc = CT_DOCTOR_LIBC_MUSL;
    expect("libc", CT_DOCTOR_OK, 0, false);
    facts.target.tracer = 5;
    stops("tracer", CT_ERR_UNSUPPORTED);
    facts.target.hooks = true;
    warns("hooks");
    facts.target.hooks = facts.target.recorded = true;
    stops("hooks", CT_ERR_UNSUPPORTED);
    facts.target.other_pids = facts.target.other_mounts = true;
    expect("namespaces", CT_DOCTOR_OK, 0, false);
}

static void test_filters_of_the_target(void **state) {
    (void)state;
    facts.target.seccomp = 2;
    warns("its seccomp");
    facts.target.seccomp = 2;
    facts.target.all_filtered = true;
    warns("its seccomp"); /* we may lift it */
    facts.target.seccomp = 2;
    facts.target.all_filtered = true;
    facts.capabilities &= ~CAP(CT_DOCTOR_SYS_ADMIN);
    assert_int_equal(check_of("its seccomp")->level, CT_DOCTOR_PROBLEM);
    assert_int_equal(report.status, CT_ERR_PERMISSION_DENIED);
    good(NULL);
    facts.target.seccomp = facts.seccomp = 2; /* a filter of our own forbids it even to root */
    facts.target.all_filtered = true;
    assert_int_equal(check_of("its seccomp")->level, CT_DOCTOR_PROBLEM);
    facts.target.same_filters = true; /* which need not be lifted then */
    assert_int_equal(check_of("its seccomp")->level, CT_DOCTOR_OK);
    assert_int_equal(report.status, 0);
}

static void test_room_of_the_target(void **state) {
    (void)state;
    facts.target.memory_left = 1ull << 30;
    expect("its memory", CT_DOCTOR_OK, 0, false);
    facts.target.memory_left = 64 << 20;
    warns("its memory");
    facts.target.tasks_left = 1000;
    expect("its processes", CT_DOCTOR_OK, 0, false);
    facts.target.tasks_left = 3;
    warns("its processes");
}

/* Rights are reported, wherever they are in the list. */
static void test_rights_come_first(void **state) {
    (void)state;
    facts.output_error = EROFS;
    facts.target.open_status = CT_ERR_PERMISSION_DENIED;
    ct_doctor_judge(&facts, &report);
    assert_int_equal(report.status, CT_ERR_PERMISSION_DENIED);
    good(NULL);
    facts.ptrace_error = EPERM;
    facts.output_error = EROFS;
    ct_doctor_judge(&facts, &report);
    assert_int_equal(report.status, CT_ERR_PERMISSION_DENIED);
    assert_int_equal(report.problems, 2);
}

/* What --cpu needs: everything else works without it. */
static void test_time_on_processors(void **state) {
    (void)state;
    static const struct {
        int error;
        const char *cause, *remedy;
    } refusals[] = {
        {EACCES, "the kernel refuses it to this user", "perf_event_paranoid to 2 or less"},
        {EPERM, "the kernel refuses it to this user", "run contrail as root"},
        {ENOSYS, "not available here", "CONFIG_PERF_EVENTS"},
        {ENOMEM, "no memory can be locked", "ulimit -l"},
        {EINVAL, "Invalid argument", "leave out --cpu"},
    };
    expect("time on CPUs", CT_DOCTOR_OK, 0, false);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        facts.switches_error = refusals[i].error;
        const struct ct_doctor_check *check = check_of("time on CPUs");
        assert_non_null(strstr(check->text, "--cpu has no effect: "));
        assert_non_null(strstr(check->text, refusals[i].cause));
        assert_non_null(strstr(check->remedy, refusals[i].remedy));
        warns("time on CPUs");
    }
    /* A descriptor for each thread and processor, unless whole processors may be looked at. */
    facts.target.threads = 4096;
    expect("time on CPUs", CT_DOCTOR_OK, 0, false);
    facts.target.threads = 4096;
    facts.switches_whole_error = EACCES;
    assert_non_null(strstr(check_of("time on CPUs")->text, "8256 open files for the 4096 threads"));
    warns("time on CPUs");
    facts.target.threads = 4096;
    facts.switches_whole_error = EACCES;
    facts.open_files = 8256;
    expect("time on CPUs", CT_DOCTOR_OK, 0, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_all_is_well, good),
        cmocka_unit_test_setup(test_rights, good),
        cmocka_unit_test_setup(test_memory, good),
        cmocka_unit_test_setup(test_machine, good),
        cmocka_unit_test_setup(test_time_on_processors, good),
        cmocka_unit_test_setup(test_directories, good),
        cmocka_unit_test_setup(test_target, good),
        cmocka_unit_test_setup(test_filters_of_the_target, good),
        cmocka_unit_test_setup(test_room_of_the_target, good),
        cmocka_unit_test_setup(test_rights_come_first, good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

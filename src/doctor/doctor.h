/* SPDX-License-Identifier: Apache-2.0 */
/* Will recording work on this machine, and of this process? Facts are collected in one step and judged in another, so
 * that judgements can be tested without the machines they are about. Nothing is changed, and only a child of our own is
 * stopped. */
#ifndef CT_DOCTOR_DOCTOR_H
#define CT_DOCTOR_DOCTOR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bits of CapEff in /proc/PID/status. */
enum { CT_DOCTOR_SYS_PTRACE = 19, CT_DOCTOR_SYS_ADMIN = 21, CT_DOCTOR_CHECKPOINT_RESTORE = 40 };

#define CT_DOCTOR_UNLIMITED UINT64_MAX

enum ct_doctor_libc { CT_DOCTOR_LIBC_UNKNOWN, CT_DOCTOR_LIBC_STATIC, CT_DOCTOR_LIBC_GLIBC, CT_DOCTOR_LIBC_MUSL };

struct ct_doctor_target {
    int pid;         /* 0: only the machine is checked */
    int open_status; /* of ct_remote_open, which has no side effects */
    char why[512];   /* the reason that ct_remote_open gives */
    char program[256];
    const char *architecture; /* name of struct ct_machine, "another architecture", ...; "": unknown */
    enum ct_doctor_libc libc;
    int seccomp;       /* 0 none, 1 strict, 2 filter; the highest of all threads; -1: unknown */
    bool all_filtered; /* every thread has a filter */
    bool same_filters; /* its filters are ours too, and allow the calls that recording makes */
    int tracer;        /* process that traces it; 0: none */
    bool other_user;   /* it belongs to another user than we do */
    bool more_rights;  /* setuid (real and effective user differ), or has capabilities that we lack */
    bool other_pids;   /* another pid namespace */
    bool other_mounts; /* another mount namespace */
    unsigned threads, modules;
    uint64_t memory_left; /* bytes that its cgroup can still be charged with */
    uint64_t tasks_left;  /* that it may still start, our own included; both: or CT_DOCTOR_UNLIMITED */
    bool hooks;           /* it has mapped a recorder's memory */
    bool recorded;        /* a recorder answers */
};

struct ct_doctor_facts {
    int ptrace_error; /* errno of tracing a child of ours; 0: it works */
    int yama;         /* kernel.yama.ptrace_scope; -1: no yama */
    unsigned user;
    uint64_t capabilities; /* effective capabilities */
    int seccomp;           /* our own; -1: unknown */

    uint64_t address_space, locked_memory, open_files; /* soft limits */
    int overcommit;                                    /* vm.overcommit_memory; -1: unknown */
    uint64_t commit_left;                              /* bytes; matters if overcommit is 2 */

    char kernel[65];
    unsigned kernel_major, kernel_minor;
    bool pidfd_open, pidfd_getfd, memfd, wipe_on_fork;
    bool no_gs; /* this machine has none, so that the next does not matter */
    bool fsgsbase;
    bool steady_counter;      /* by the architecture's rules */
    int switches_error;       /* errno of asking the kernel for switches of a process of ours, for --cpu; 0: it works */
    int switches_whole_error; /* ... for those of whole processors */
    unsigned processors;
    bool constant_tsc, nonstop_tsc;
    char clock_source[32]; /* "": unknown */

    char cache[PATH_MAX]; /* "": the environment names none */
    int cache_error;      /* errno of using it */
    char output[PATH_MAX];
    int output_error;
    uint64_t disk_free;

    struct ct_doctor_target target;
};

/* `output`: directory for traces. `pid` 0: only this machine. What cannot be found out stays unknown. */
void ct_doctor_collect(struct ct_doctor_facts *facts, const char *output, int pid);
/* The facts about the process; part of ct_doctor_collect. */
void ct_doctor_collect_target(struct ct_doctor_target *target, int pid);

enum ct_doctor_level { CT_DOCTOR_OK, CT_DOCTOR_WARNING, CT_DOCTOR_PROBLEM };

struct ct_doctor_check {
    const char *name;
    enum ct_doctor_level level;
    bool permission; /* the problem is a missing right */
    char text[640];
    char remedy[256]; /* "": there is none, or none is needed */
};

enum { CT_DOCTOR_CHECKS = 32 };
struct ct_doctor_report {
    struct ct_doctor_check checks[CT_DOCTOR_CHECKS];
    size_t count;
    unsigned warnings, problems;
    int status; /* 0: recording will work; CT_ERR_PERMISSION_DENIED; CT_ERR_UNSUPPORTED: any other problem */
};

void ct_doctor_judge(const struct ct_doctor_facts *facts, struct ct_doctor_report *report);

#endif

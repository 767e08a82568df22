/* SPDX-License-Identifier: Apache-2.0 */
/* How the controller starts the agent: structures that it writes into the target and hands to the agent's entry
 * point by a remote call. Addresses are the target's. */
#ifndef CT_ABI_BOOT_H
#define CT_ABI_BOOT_H

#include <stdint.h>

#define CT_BOOT_MAGIC   0x544f4f42u /* "BOOT" */
#define CT_BOOT_VERSION 7u

struct ct_boot_thread {
    int32_t tid; /* as the thread sees it */
    uint32_t reserved;
    uint64_t thread_pointer; /* what fs:0 holds */
    uint64_t block;          /* result: the value for its GS, unless blocks are found by the table */
};

struct ct_boot_stub {
    uint64_t address, word_off;
};

/* What was changed in the program's code: enough for anyone to undo it. */
struct ct_boot_patch {
    uint64_t at;
    uint64_t forward;        /* where a thread that is at `at` goes when the patch is removed; 0: it may stay */
    uint64_t forward_second; /* as `forward`, for the second half of a double patch */
    uint8_t size, service;   /* services are installed first and removed last */
    uint8_t bytes[11], original[11];
};
_Static_assert(sizeof(struct ct_boot_patch) == 48, "patch");

struct ct_boot_region {
    uint64_t start, size;
};

/* Code that was installed in one step: one at the start, then one for each library that is loaded later. */
struct ct_boot_code {
    uint64_t next;                  /* the next of these; 0: none */
    uint64_t map, map_size;         /* the mapping that holds it, if it has its own; 0: it is part of the image's */
    uint64_t stubs, stub_count;     /* struct ct_boot_stub: stubs that may be switched off */
    uint64_t regions, region_count; /* struct ct_boot_region: where the stubs are */
    uint64_t patches, patch_count;  /* struct ct_boot_patch */
};

#define CT_BOOT_SIGNALS 32

/* Fault handlers that are called through the agent (hook/fault.h). */
struct ct_boot_faults {
    uint64_t entry;                     /* what the kernel has in place of them */
    uint64_t handlers[CT_BOOT_SIGNALS]; /* the program's handlers, by signal; 0: the kernel's own action */
    uint32_t changed[CT_BOOT_SIGNALS];  /* flags in which the kernel's action differs from the program's */
    uint64_t room[4];                   /* for an action that goes to the kernel or comes from it */
};

struct ct_boot {
    uint32_t magic, version;
    uint32_t reserved0[2];
    int32_t status; /* result: 0 or a code of contrail/status.h */
    int32_t pid;    /* as the process sees it */
    uint64_t shm;
    uint64_t hooks, hook_room; /* struct ct_hook_entry [hook_room], by hook number */
    struct ct_boot_code code;
    uint64_t threads, thread_count; /* struct ct_boot_thread */
    uint64_t max_depth;
    uint64_t get_cfa;
    uint32_t silent;      /* the process already forbids our system calls */
    uint32_t take_faults; /* its sigaction is watched, so its fault handlers may be taken over */
    /* Everything that is mapped, except the regions: image, stack and tables; shared memory. */
    uint64_t image, image_size, text_size, entry, stack;
    uint64_t shm_map, shm_map_size;
    uint64_t runtime;              /* result: struct ct_runtime */
    uint64_t early_thread_pointer; /* result: for threads that have no thread pointer yet */
    uint64_t faults;               /* result: struct ct_boot_faults; 0: none were taken over */
    uint64_t table, stray;         /* result: what the shared code must know (hook/layout.h) */
    uint32_t by_table;             /* in and out: the program uses GS itself */
    uint32_t reserved1;
    uint64_t stalk; /* result: struct ct_script_stalk; 0: it is not the agent of a script */
};

/* scripts/gdb/contrail.py knows this offset. */
_Static_assert(__builtin_offsetof(struct ct_boot, runtime) == 216, "BOOT_RUNTIME");

#endif

/* How the controller starts and ends the agent: structures that it writes into the target and hands to the agent's entry
 * point by a remote call. Addresses are the target's. */
#ifndef CT_ABI_BOOT_H
#define CT_ABI_BOOT_H

#include <stdint.h>

#define CT_BOOT_VERSION 1u

enum ct_boot_command { CT_BOOT_START = 1, CT_BOOT_END = 2 };

struct ct_boot_thread {
    int32_t tid; /* as the thread itself sees it */
    uint32_t reserved;
    uint64_t thread_pointer; /* what fs:0 holds */
    uint64_t block;          /* result: what its GS is to be */
};

struct ct_boot_stub {
    uint64_t address, word_off;
};

struct ct_boot_region {
    uint64_t start, size;
};

struct ct_boot {
    uint32_t version, command; /* enum ct_boot_command */
    int32_t status;            /* result: 0 or a code of contrail/status.h */
    int32_t pid;               /* as the process itself sees it */
    uint64_t shm;
    uint64_t hooks; /* struct ct_hook_entry [hook_count] */
    uint64_t stubs; /* struct ct_boot_stub [stub_count]: those that may be switched off */
    uint64_t hook_count, stub_count;
    uint64_t regions, region_count; /* struct ct_boot_region: where the stubs are */
    uint64_t threads, thread_count; /* struct ct_boot_thread */
    uint64_t max_depth;
    uint64_t get_cfa;
    uint32_t silent; /* the process forbids our system calls already */
    uint32_t reserved;
    uint64_t runtime;              /* result: struct ct_runtime */
    uint64_t early_thread_pointer; /* result: for threads that have none yet */
};

#endif

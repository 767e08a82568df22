/* SPDX-License-Identifier: Apache-2.0 */
/* A process that was never recorded, with tables in its memory as a recorder that was killed leaves them, crafted to do
 * harm to the command that cleans up after that recorder: evilboot MODE FILE OTHER. FILE gets a number that grows as
 * long as the process runs, and after it what is in the slot of a return address; OTHER is a file that some modes map.
 *
 * The shared memory, found by its name, leads to boot, that to the runtime, that to a block, to which a thread's GS
 * leads too. The thread's stack is the lowest part of a large mapping, and what lies above it may look like frames of
 * handlers. */
#include "abi/boot_abi.h"
#include "abi/shm_abi.h"
#include "abi/stalk_abi.h"
#include "hook/runtime.h"
#include <asm/prctl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROOM          (1ul << 30)
#define SHARED        (8ul << 20)
#define STACK_ROOM    (17ul << 20)
#define STACK_SIZE    (256ul << 10)
#define ENTRIES       100000u
#define MOST_ENTRIES  2000000u
#define PATCHES       2000000u
#define USER_SEGMENTS 0x002b000000000033ull
#define FRAME_WORDS   24 /* from a signal frame's restorer to its segments */
#define NOBODY        0x3ffffffe

static struct ct_block *block;
static struct ct_runtime *runtime;
static struct ct_boot *boot;
static struct ct_shadow *entries;
static struct ct_boot_patch *patches;
static struct ct_shm_control *shared;
static uint8_t *code; /* anonymous and executable */
static uint64_t *stack;
static volatile uint64_t *counter;
static const char *other;
static bool takes_register = true, runs_code;
static volatile uint64_t slot; /* of a return address */

/* ---- a process as a recorder leaves it ---- */

static void *memory(size_t size, int prot) {
    void *at = mmap(NULL, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        exit(2);
    return at;
}

static void make_tables(void) {
    uint8_t *at = memory(ROOM, PROT_READ | PROT_WRITE);
    int fd = memfd_create("contrail", 0);
    if (fd < 0 || ftruncate(fd, SHARED))
        exit(2);
    shared = mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    block = (struct ct_block *)at;
    runtime = (struct ct_runtime *)(at + (1 << 20));
    boot = (struct ct_boot *)(at + (2 << 20));
    entries = (struct ct_shadow *)(at + (64 << 20));
    patches = (struct ct_boot_patch *)(at + (512 << 20));
    *block = (struct ct_block){.self = block, .runtime = runtime, .in_use = 1};
    *runtime = (struct ct_runtime){.boot = (uint64_t)boot, .blocks = block};
    *boot = (struct ct_boot){.magic = CT_BOOT_MAGIC,
                             .version = CT_BOOT_VERSION,
                             .pid = getpid(),
                             .shm = (uint64_t)shared,
                             .runtime = (uint64_t)runtime};
}

static void use_entries(size_t count) {
    block->base = entries;
    block->top = entries + count;
    block->limit = block->top;
}

/* ---- modes ---- */

static void endless_blocks(void) {
    block->next = block;
}

static void growing_blocks(void) {
    block->next = block;
    use_entries(ENTRIES);
    for (unsigned i = 0; i < ENTRIES; i++)
        entries[i].slot = 0x10000 + 8ull * i;
}

/* All of one slot, each leading to the next. */
static void long_chain(void) {
    use_entries(MOST_ENTRIES);
    for (uint64_t i = 0; i < MOST_ENTRIES; i++)
        entries[i] = (struct ct_shadow){
            .slot = (uint64_t)&slot, .stub = 0x1000 + i * 16, .ret = 0x1000 + (i + 1) * 16 + CT_AFTER_TO_RESUME};
    slot = 0x1000 + CT_AFTER_TO_RESUME;
}

/* Two that lead to each other. */
static void endless_chain(void) {
    use_entries(2);
    for (uint64_t i = 0; i < 2; i++)
        entries[i] = (struct ct_shadow){
            .slot = (uint64_t)&slot, .stub = 0x1000 + i * 16, .ret = 0x1000 + (1 - i) * 16 + CT_AFTER_TO_RESUME};
    slot = 0x1000 + CT_AFTER_TO_RESUME;
}

/* Two functions that have called each other in their last act: the slot is to hold 4711 when all is put right. */
static void true_chain(void) {
    static const uint64_t stubs[] = {0x1000, 0x2000, 0x1000};
    uint64_t ret = 4711;
    use_entries(3);
    for (int i = 0; i < 3; i++) {
        entries[i] = (struct ct_shadow){.slot = (uint64_t)&slot, .stub = stubs[i], .ret = ret};
        ret = stubs[i] + CT_AFTER_TO_RESUME;
    }
    slot = ret;
}

/* A file that we may only read, and that is to be written by a command that takes this patch back. */
static void patches_file(void) {
    int fd = open(other, O_RDONLY);
    uint8_t *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (fd < 0 || at == MAP_FAILED)
        exit(2);
    patches[0] = (struct ct_boot_patch){.at = (uint64_t)at, .size = 4};
    memcpy(patches[0].bytes, at, 4);
    memcpy(patches[0].original, "evil", 4);
    boot->code.patches = (uint64_t)patches;
    boot->code.patch_count = 1;
}

/* A program, mapped more often than any loader would. */
static void maps_file(void) {
    int fd = open(other, O_RDONLY);
    for (int i = 0; i < 2000; i++)
        if (mmap(NULL, 64 << 10, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, (off_t)i % 8 * 4096) == MAP_FAILED)
            exit(2);
    takes_register = false;
}

static void maps_library(void) {
    if (!dlopen(other, RTLD_NOW))
        exit(2);
    takes_register = false;
}

/* Each on another page than the last one, and frames of handlers one after the other. */
static void many_patches(void) {
    void *restorer = code;
    memcpy(restorer, "\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9);
    for (uint64_t i = 0; i < PATCHES; i++)
        patches[i] = (struct ct_boot_patch){
            .at = (uint64_t)entries + i * 4099 % (256 << 20), .forward = (uint64_t)code, .size = 1, .bytes = {0}};
    boot->code.patches = (uint64_t)patches;
    boot->code.patch_count = PATCHES;
    for (size_t i = STACK_SIZE / 8; i < STACK_ROOM / 8; i++)
        stack[i] = i / FRAME_WORDS % 2 ? USER_SEGMENTS : (uint64_t)restorer;
}

static void endless_codes(void) {
    struct ct_boot_code *next = (struct ct_boot_code *)patches;
    boot->code.next = next->next = (uint64_t)next;
    next->map_size = 4096;
}

static void endless_regions(void) {
    struct ct_boot_region *regions = (struct ct_boot_region *)patches;
    for (size_t i = 0; i < 65536; i++)
        regions[i] = (struct ct_boot_region){UINT64_MAX - i, UINT64_MAX};
    boot->code.regions = (uint64_t)regions;
    boot->code.region_count = 65536;
}

static void claim(int tid) {
    shared->liveness = (uint32_t)tid;
}

static void claims_nobody(void) {
    claim(NOBODY);
}

static void claims_itself(void) {
    claim(getpid());
}

static void claims_init(void) {
    claim(1);
}

/* For a command that walks the stacks: return addresses that are looked for in a list without an end. */
static void long_search(void) {
    memcpy(code, "\xf3\x90\xeb\xfc", 4); /* pause; jmp */
    growing_blocks();
    block->fn_enter = (uint64_t)code;
    for (size_t i = STACK_SIZE / 8; i < STACK_ROOM / 8; i++)
        stack[i] = (uint64_t)code + i % 4096;
    runs_code = true;
}

static void spin(void) {
    for (;;)
        __asm__ volatile("pause");
}

/* Makes system calls, so that a tracer hears of it all the time. */
static void chatter(void) {
    for (;;)
        (void)syscall(SYS_getppid);
}

/* What the filter forbids, in case the caller has lifted it. */
static void escape(void) {
    static const char name[] = "escaped";
    (void)syscall(SYS_prctl, PR_SET_NAME, name);
    for (;;)
        (void)syscall(SYS_getppid);
}

/* Threads are to be let go by calling this. */
static void follow(void (*entry)(void)) {
    struct ct_stalk_tables *tables = (struct ct_stalk_tables *)((uint8_t *)shared + (1 << 20));
    shared->magic = CT_SHM_MAGIC;
    shared->version = CT_SHM_VERSION;
    shared->extra_offset = 1 << 20;
    tables->pid = getpid();
    tables->entry = (uint64_t)entry;
    tables->stack = (uint64_t)block + (16 << 20);
    tables->boot = (uint64_t)entries;
    tables->image = (uint64_t)code;
    tables->image_size = 4096;
    takes_register = false;
}

static void endless_call(void) {
    follow(spin);
}

static void chatting_call(void) {
    follow(chatter);
}

static void filtered_call(void) {
    static struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    follow(escape);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        exit(2);
}

static const struct {
    const char *name;
    void (*make)(void);
} modes[] = {
    {"endless-blocks", endless_blocks},   {"growing-blocks", growing_blocks}, {"long-chain", long_chain},
    {"endless-chain", endless_chain},     {"many-patches", many_patches},     {"endless-codes", endless_codes},
    {"endless-regions", endless_regions}, {"claims-nobody", claims_nobody},   {"claims-itself", claims_itself},
    {"claims-init", claims_init},         {"long-search", long_search},       {"endless-call", endless_call},
    {"chatting-call", chatting_call},     {"filtered-call", filtered_call},   {"true-chain", true_chain},
    {"patches-file", patches_file},       {"maps-file", maps_file},           {"maps-library", maps_library},
};

static void lead_there(void) {
    shared->magic = CT_SHM_MAGIC;
    shared->version = CT_SHM_VERSION;
    shared->boot = (uint64_t)boot;
}

/* ---- running ---- */

static void *be_victim(void *arg) {
    (void)arg;
    if (takes_register)
        (void)syscall(SYS_arch_prctl, ARCH_SET_GS, block);
    if (runs_code)
        ((void (*)(void))code)();
    for (;;)
        (void)pause();
    return NULL;
}

static void *count_up(void *arg) {
    (void)arg;
    for (;; ++counter[0]) {
        counter[1] = slot;
        usleep(1000);
    }
    return NULL;
}

static void start_threads(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK_SIZE);
    if (pthread_create(&thread, &attributes, be_victim, NULL) || pthread_create(&thread, NULL, count_up, NULL))
        exit(2);
}

int main(int count, char **words) {
    int fd = count == 4 ? open(words[2], O_RDWR) : -1;
    counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || counter == MAP_FAILED)
        return 2;
    other = words[3];
    code = memory(1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC);
    stack = memory(STACK_ROOM, PROT_READ | PROT_WRITE);
    make_tables();
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(words[1], modes[i].name))
            modes[i].make();
    if (takes_register)
        lead_there();
    start_threads();
    usleep(100000);
    puts("ready");
    fflush(stdout);
    for (;;) /* a call that is made here is made with this thread */
        (void)pause();
}

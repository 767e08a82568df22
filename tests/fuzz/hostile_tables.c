/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile target against what is read from its own memory: the tables by which hooks and agent are taken out again
 * (inject/eject.c, follow/stalk_leave.c), and the shadow stacks by which its stacks are walked
 * (inspect/process_shadow.c). It has never been recorded: everything there is made up, and there may be as much of it
 * as there are addresses. Nothing may crash, and the work is limited.
 *
 * The input says what lies in the memory of a process that does not exist (enum operation), then that is taken for a
 * recorded one. As a libFuzzer target (scripts/fuzz-hostile.sh), or alone: replays the files and directories given as
 * arguments. */
#include "abi/boot_abi.h"
#include "abi/shm_abi.h"
#include "abi/stalk_abi.h"
#include "inspect/process.h"
#include "session/recording.h"
#include "session/recording_leave.h"
#include "follow/stalk.h"
#include "hook/runtime.h"
#include "hostile.h"
#include "remote/cpu_x64.h"
#include "remote/remote_internal.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum mode { EJECT, BEHIND, WALK, STALK, MODES };
enum operation { POKE, BOOT, RUNTIME, BLOCK, SHADOW, THREAD, PATCH, PATTERN, LANE, CODE, OPERATIONS };

/* Memory that is there, and memory without end that is made when it is read. */
enum { HEAP = 1 << 16, STACK = 1 << 16, PATTERN_SIZE = 256, THREADS = 4, BLOCK_STEP = 1 << 14, CODE_STEP = 128 };
#define HEAP_AT    0x10000ull
#define STACK_AT   0x200000ull
#define CONTROL_AT 0x500000ull /* shared memory that leads to the tables */
#define BLOCKS_AT  0x100000000000ull
#define SHADOW_AT  0x200000000000ull
#define CODES_AT   0x300000000000ull
#define PATTERN_AT 0x400000000000ull
#define ENDLESS    (1ull << 40)
_Static_assert(sizeof(struct ct_block) <= BLOCK_STEP, "a block");

/* In the heap, where BOOT puts it. */
enum { BOOT_PLACE = 0, RUNTIME_PLACE = 4096, PATCH_PLACE = 8192, REGION_PLACE = 16384, TABLES_PLACE = 1 << 15 };

/* Time here is what the work would take: so much for each read, and for each KiB. */
enum { CALL_NS = 20000, KIB_NS = 16000 };
#define MOST_NS 90000000000ull /* leaving takes less, whatever lies there */

static struct {
    struct hostile_input in;
    uint8_t heap[HEAP], stack[STACK], pattern[PATTERN_SIZE];
    struct ct_block block; /* all of them, but for their addresses */
    uint64_t block_count;  /* 0: endless; next of the last one is 0, or the first */
    bool cyclic;
    uint64_t shadow_slot, shadow_step, shadow_resume;
    bool shadow_chain;
    struct ct_boot_code code;
    struct ct_registers regs[THREADS];
    size_t threads;
    struct ct_remote remote;
    uint64_t worked_ns;
} w;

/* ---- the memory ---- */

static void make_block(uint64_t number, struct ct_block *out) {
    uint64_t at = BLOCKS_AT + number * BLOCK_STEP;
    bool last = w.block_count && number + 1 >= w.block_count;
    *out = w.block;
    out->self = (struct ct_block *)at;
    out->next = (struct ct_block *)(!last ? at + BLOCK_STEP : w.cyclic ? BLOCKS_AT : 0);
}

static void make_entry(uint64_t number, struct ct_shadow *out) {
    uint64_t resume = w.shadow_resume + 8 * number;
    *out = (struct ct_shadow){.slot = w.shadow_slot + number * w.shadow_step,
                              .ret = w.shadow_chain ? resume + 8 : 0x1234,
                              .stub = resume - CT_AFTER_TO_RESUME};
}

static void make_code(uint64_t number, struct ct_boot_code *out) {
    *out = w.code;
    out->next = CODES_AT + (number + 1) * CODE_STEP;
}

/* Of a thing of `size` bytes, after which there is nothing. */
static void copy_made(uint64_t offset, uint8_t *to, size_t count, size_t size, const void *one) {
    size_t there = offset < size ? size - (size_t)offset : 0;
    there = there < count ? there : count;
    memcpy(to, (const uint8_t *)one + (there ? offset : 0), there);
    memset(to + there, 0, count - there);
}

/* At most to the end of the thing that lies there; 0: nothing does. */
static size_t read_some(uint64_t at, uint8_t *to, size_t size) {
    static struct ct_block block;
    struct ct_shadow entry;
    struct ct_boot_code code;
    const struct ct_shm_control control = {
        .magic = CT_SHM_MAGIC, .version = CT_SHM_VERSION, .boot = HEAP_AT + BOOT_PLACE};
    size_t step = PATTERN_SIZE;
    uint64_t offset = at % PATTERN_SIZE;
    if (at - CONTROL_AT < sizeof control) {
        size_t count = size < CONTROL_AT + sizeof control - at ? size : (size_t)(CONTROL_AT + sizeof control - at);
        memcpy(to, (const uint8_t *)&control + (at - CONTROL_AT), count);
        return count;
    }
    if (at - HEAP_AT < HEAP || at - STACK_AT < STACK) {
        bool heap = at - HEAP_AT < HEAP;
        uint64_t place = heap ? at - HEAP_AT : at - STACK_AT;
        size_t count = size < HEAP - place ? size : (size_t)(HEAP - place);
        memcpy(to, (heap ? w.heap : w.stack) + place, count);
        return count;
    }
    if (at - BLOCKS_AT < ENDLESS)
        step = BLOCK_STEP;
    else if (at - SHADOW_AT < ENDLESS)
        step = sizeof entry;
    else if (at - CODES_AT < ENDLESS)
        step = CODE_STEP;
    else if (at - PATTERN_AT >= ENDLESS)
        return 0;
    offset = at % step;
    size_t count = size < step - offset ? size : (size_t)(step - offset);
    if (step == BLOCK_STEP) {
        make_block((at - BLOCKS_AT) / step, &block);
        copy_made(offset, to, count, sizeof block, &block);
    } else if (step == sizeof entry) {
        make_entry((at - SHADOW_AT) / step, &entry);
        memcpy(to, (uint8_t *)&entry + offset, count);
    } else if (step == CODE_STEP) {
        make_code((at - CODES_AT) / step, &code);
        copy_made(offset, to, count, sizeof code, &code);
    } else {
        memcpy(to, w.pattern + offset, count);
    }
    return count;
}

/* ---- the process ---- */

static void work(uint64_t bytes) {
    uint64_t ns = CALL_NS + bytes / 1024 * KIB_NS;
    hostile_advance(ns);
    if ((w.worked_ns += ns) > MOST_NS)
        hostile_fail("the work that the target makes has no end");
}

uint64_t __wrap_ct_seize_now_ms(void);
uint64_t __wrap_ct_seize_now_ms(void) {
    return w.worked_ns / 1000000;
}

/* Patience (remote/patience.c) asks the C library. */
int __wrap_clock_gettime(clockid_t id, struct timespec *time);
int __wrap_clock_gettime(clockid_t id, struct timespec *time) {
    (void)id;
    time->tv_sec = (time_t)(w.worked_ns / 1000000000);
    time->tv_nsec = (long)(w.worked_ns % 1000000000);
    return 0;
}

int __wrap_ct_remote_read(const struct ct_remote *remote, uint64_t address, void *bytes, size_t size);
int __wrap_ct_remote_read(const struct ct_remote *remote, uint64_t address, void *bytes, size_t size) {
    uint8_t *to = bytes;
    work(size);
    if (ct_remote_is_over(remote))
        return CT_ERR_TIMEOUT;
    while (size) {
        size_t done = read_some(address, to, size);
        if (!done)
            return CT_ERR_SYSTEM;
        address += done;
        to += done;
        size -= done;
    }
    return 0;
}

int __wrap_ct_remote_write(const struct ct_remote *remote, uint64_t address, const void *bytes, size_t size);
int __wrap_ct_remote_write(const struct ct_remote *remote, uint64_t address, const void *bytes, size_t size) {
    (void)remote;
    work(size);
    if (address - HEAP_AT < HEAP && size <= HEAP - (address - HEAP_AT))
        memcpy(w.heap + (address - HEAP_AT), bytes, size);
    else if (address - STACK_AT < STACK && size <= STACK - (address - STACK_AT))
        memcpy(w.stack + (address - STACK_AT), bytes, size);
    return 0;
}

int __wrap_ct_remote_each_map(struct ct_remote *remote, int (*each)(void *arg, const struct ct_os_map *map), void *arg);
int __wrap_ct_remote_each_map(struct ct_remote *remote, int (*each)(void *arg, const struct ct_os_map *map),
                              void *arg) {
    const struct ct_os_map maps[] = {
        {HEAP_AT, HEAP_AT + HEAP, .prot = CT_OS_READ | CT_OS_WRITE, .shared = true,
         .path = "/memfd:contrail (deleted)"},
        {STACK_AT, STACK_AT + STACK, .prot = CT_OS_READ | CT_OS_WRITE, .path = "[stack]"},
        {CONTROL_AT, CONTROL_AT + 4096, .prot = CT_OS_READ | CT_OS_WRITE, .shared = true, .inode = 1,
         .path = "/memfd:contrail (deleted)"},
        {BLOCKS_AT, BLOCKS_AT + ENDLESS, .prot = CT_OS_READ, .path = ""},
        {SHADOW_AT, SHADOW_AT + ENDLESS, .prot = CT_OS_READ | CT_OS_EXEC, .path = ""},
        {CODES_AT, CODES_AT + ENDLESS, .prot = CT_OS_READ, .path = ""},
        {PATTERN_AT, PATTERN_AT + ENDLESS, .prot = CT_OS_READ | CT_OS_EXEC, .path = ""},
    };
    int result = 0;
    (void)remote;
    for (size_t i = 0; !result && i < sizeof maps / sizeof maps[0]; i++)
        result = each(arg, &maps[i]);
    return result;
}

size_t __wrap_ct_remote_thread_count(const struct ct_remote *remote);
size_t __wrap_ct_remote_thread_count(const struct ct_remote *remote) {
    (void)remote;
    return w.threads;
}

int __wrap_ct_remote_get_regs(struct ct_remote *remote, size_t i, struct ct_registers *regs);
int __wrap_ct_remote_get_regs(struct ct_remote *remote, size_t i, struct ct_registers *regs) {
    (void)remote;
    *regs = w.regs[i];
    return 0;
}

int __wrap_ct_remote_set_regs(struct ct_remote *remote, size_t i, const struct ct_registers *regs);
int __wrap_ct_remote_set_regs(struct ct_remote *remote, size_t i, const struct ct_registers *regs) {
    (void)remote;
    w.regs[i] = *regs;
    return 0;
}

int __wrap_ct_remote_thread_inner_tid(const struct ct_remote *remote, size_t i);
int __wrap_ct_remote_thread_inner_tid(const struct ct_remote *remote, size_t i) {
    (void)remote;
    return 100 + (int)i;
}

int __wrap_ct_remote_inner_pid(const struct ct_remote *remote);
int __wrap_ct_remote_inner_pid(const struct ct_remote *remote) {
    (void)remote;
    return 100;
}

int __wrap_ct_remote_syscall(struct ct_remote *remote, long number, const uint64_t arguments[6], int64_t *result);
int __wrap_ct_remote_syscall(struct ct_remote *remote, long number, const uint64_t arguments[6], int64_t *result) {
    (void)remote;
    (void)number;
    (void)arguments;
    work(0);
    *result = 0;
    return 0;
}

int __wrap_ct_remote_call(struct ct_remote *remote, uint64_t function, uint64_t stack, const uint64_t arguments[6],
                          uint64_t *result);
int __wrap_ct_remote_call(struct ct_remote *remote, uint64_t function, uint64_t stack, const uint64_t arguments[6],
                          uint64_t *result) {
    (void)remote;
    (void)function;
    (void)stack;
    (void)arguments;
    work(0);
    *result = 0;
    return 0;
}

int __wrap_ct_remote_stop(struct ct_remote *remote, unsigned limit_ms, struct ct_remote_error *error);
int __wrap_ct_remote_stop(struct ct_remote *remote, unsigned limit_ms, struct ct_remote_error *error) {
    (void)limit_ms;
    (void)error;
    free(remote->ranges);
    remote->ranges = NULL;
    remote->range_count = remote->range_room = 0;
    remote->stopped = true;
    ct_patience_begin(remote);
    return 0;
}

int __wrap_ct_remote_resume(struct ct_remote *remote);
int __wrap_ct_remote_resume(struct ct_remote *remote) {
    remote->stopped = false;
    ct_patience_end(remote);
    return 0;
}

int __wrap_usleep(unsigned us);
int __wrap_usleep(unsigned us) {
    hostile_advance(us * 1000ull);
    return 0;
}

/* ---- what is put into the memory ---- */

/* An address of something, or any number. */
static uint64_t read_address(void) {
    static const uint64_t places[] = {HEAP_AT, STACK_AT, BLOCKS_AT, SHADOW_AT, CODES_AT, PATTERN_AT};
    uint8_t which = hostile_u8(&w.in);
    return which % 8 < 6 ? places[which % 8] + hostile_u16(&w.in) : hostile_value(&w.in);
}

static void do_poke(void) {
    uint16_t place = hostile_u16(&w.in);
    uint64_t value = read_address();
    memcpy((place & 1 ? w.stack : w.heap) + (place & 0xfff8), &value, sizeof value);
}

static struct ct_boot_code read_code(void) {
    return (struct ct_boot_code){
        .map = read_address(),
        .map_size = hostile_value(&w.in),
        .regions = read_address(),
        .region_count = hostile_value(&w.in),
        .patches = read_address(),
        .patch_count = hostile_value(&w.in),
    };
}

static void do_boot(void) {
    struct ct_boot boot = {
        .magic = CT_BOOT_MAGIC,
        .version = CT_BOOT_VERSION,
        .pid = 100 + hostile_u8(&w.in) % 2,
        .shm = read_address(),
        .code = read_code(),
        .image = 0x700000,
        .image_size = 4096,
        .text_size = hostile_value(&w.in),
        .runtime = HEAP_AT + RUNTIME_PLACE,
        .table = HEAP_AT,
        .stray = BLOCKS_AT,
    };
    boot.code.next = read_address();
    memcpy(w.heap + BOOT_PLACE, &boot, sizeof boot);
}

static void do_runtime(void) {
    struct ct_runtime runtime = {.boot = HEAP_AT + BOOT_PLACE};
    runtime.blocks = (struct ct_block *)read_address();
    runtime.parked = (struct ct_shadow *)read_address();
    runtime.parked_count = hostile_value(&w.in);
    memcpy(w.heap + RUNTIME_PLACE, &runtime, sizeof runtime);
}

static void do_block(void) {
    uint8_t how = hostile_u8(&w.in);
    w.block_count = hostile_u8(&w.in);
    w.cyclic = how & 1;
    w.block.in_use = how >> 1 & 1;
    w.block.attention = how & 4 ? hostile_u8(&w.in) : 0;
    w.block.runtime = (struct ct_runtime *)(HEAP_AT + RUNTIME_PLACE);
    w.block.base = (struct ct_shadow *)read_address();
    w.block.top = (struct ct_shadow *)((uint64_t)w.block.base + 32 * hostile_value(&w.in));
    w.block.limit = (struct ct_shadow *)UINT64_MAX;
}

static void do_shadow(void) {
    w.shadow_chain = hostile_u8(&w.in) & 1;
    w.shadow_slot = read_address();
    w.shadow_step = hostile_u8(&w.in) * 8u;
    w.shadow_resume = read_address();
}

static void do_thread(void) {
    struct ct_registers regs = {0};
    ct_registers_set_pc(&regs, read_address());
    ct_registers_set_sp(&regs, read_address());
    ct_registers_set_block(&regs, read_address());
    ct_registers_set_thread_base(&regs, ct_registers_sp(&regs));
    if (w.threads < THREADS)
        w.regs[w.threads++] = regs;
}

static void do_patch(void) {
    unsigned index = hostile_u8(&w.in) % 16;
    struct ct_boot_patch patch = {.at = read_address(),
                                  .forward = read_address(),
                                  .forward_second = read_address(),
                                  .size = hostile_u8(&w.in),
                                  .service = hostile_u8(&w.in)};
    memcpy(w.heap + PATCH_PLACE + index * sizeof patch, &patch, sizeof patch);
}

static void do_pattern(void) {
    unsigned place = hostile_u8(&w.in) & 0xf8;
    uint64_t value = read_address();
    memcpy(w.pattern + place, &value, sizeof value);
}

/* The lane of a recorder that followed threads. */
static void do_lane(void) {
    struct ct_shm_control control = {
        .magic = CT_SHM_MAGIC, .version = CT_SHM_VERSION, .extra_offset = hostile_u8(&w.in) % 4 ? TABLES_PLACE : 0};
    if (!control.extra_offset)
        control.extra_offset = hostile_value(&w.in);
    memcpy(w.heap, &control, sizeof control);
    struct ct_stalk_tables *tables = (struct ct_stalk_tables *)(w.heap + TABLES_PLACE);
    tables->pid = 100;
    tables->entry = read_address();
    tables->stack = read_address();
    tables->boot = read_address();
    tables->shm = read_address();
    tables->shm_size = hostile_value(&w.in);
    tables->image = read_address();
    tables->image_size = hostile_value(&w.in);
}

static void step(void) {
    switch ((enum operation)(hostile_u8(&w.in) % OPERATIONS)) {
    case BOOT:
        do_boot();
        break;
    case RUNTIME:
        do_runtime();
        break;
    case BLOCK:
        do_block();
        break;
    case SHADOW:
        do_shadow();
        break;
    case THREAD:
        do_thread();
        break;
    case PATCH:
        do_patch();
        break;
    case PATTERN:
        do_pattern();
        break;
    case LANE:
        do_lane();
        break;
    case CODE:
        w.code = read_code();
        break;
    default:
        do_poke();
    }
}

/* ---- what the recorder does with it ---- */

static void walk(void) {
    enum { FRAMES = 100, STILL_MS = 2000 };
    static struct ct_walk_cache cache;
    static struct ct_walk_frame frames[FRAMES];
    struct ct_process_code code[] = {{SHADOW_AT, SHADOW_AT + ENDLESS, true, false},
                                     {PATTERN_AT, PATTERN_AT + ENDLESS, true, true}};
    struct ct_process process = {.remote = &w.remote, .pid = 100, .code = code, .code_count = 2, .lane = CONTROL_AT};
    ct_remote_limit(&w.remote, STILL_MS, NULL, NULL);
    for (size_t i = 0; i < w.threads; i++) {
        struct ct_remote_cpu cpu = {0};
        ct_remote_cpu_as_x64(&cpu)->pc = ct_registers_pc(&w.regs[i]);
        for (size_t k = 0; k < 16; k++)
            ct_remote_cpu_as_x64(&cpu)->gpr[k] = ct_registers_sp(&w.regs[i]);
        if (ct_walk_thread(&process, i, &cpu, &cache, frames, FRAMES) > FRAMES)
            hostile_fail("more frames than there is room for");
    }
}

/* Out of a target of our own; after a recorder that was killed; and after one that followed threads. */
static void leave(enum mode mode) {
    static struct ct_session session;
    struct ct_recording *r = ct_recording_create(&session, CT_ORIGIN_ATTACH);
    bool clean;
    if (!r)
        hostile_fail("no memory");
    r->remote = &w.remote;
    r->pid = 100;
    r->injection.boot = HEAP_AT + BOOT_PLACE;
    if (mode == EJECT)
        (void)ct_recording_clean(r, &clean);
    else
        (void)(mode == STALK ? ct_stalk_clean_after(r) : ct_recording_clean_after_others(r));
    r->remote = NULL;
    ct_recording_destroy(r);
}

const unsigned hostile_operations = OPERATIONS, hostile_cases = 300;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    memset(&w, 0, sizeof w);
    w.in = (struct hostile_input){data, data + size};
    w.remote.stopped = true;
    enum mode mode = hostile_u8(&w.in) % MODES;
    while (w.in.at < w.in.end)
        step();
    hostile_reset_time();
    if (mode == WALK)
        walk();
    else
        leave(mode);
    free(w.remote.ranges);
    return 0;
}

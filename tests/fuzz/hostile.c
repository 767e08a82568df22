/* SPDX-License-Identifier: Apache-2.0 */
/* See hostile.h. */
#include "hostile.h"
#include "drain/clock.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

/* ---- the input ---- */

uint64_t hostile_bytes(struct hostile_input *in, unsigned count) {
    uint64_t value = 0;
    for (unsigned i = 0; i < count && in->at < in->end; i++)
        value |= (uint64_t)*in->at++ << 8 * i;
    return value;
}

uint64_t hostile_value(struct hostile_input *in) {
    static const uint64_t special[] = {
        0,
        1,
        2,
        3,
        7,
        16,
        63,
        64,
        255,
        256,
        4095,
        4096,
        8192,
        16383,
        16384,
        65535,
        65536,
        1u << 20,
        (1u << 20) + 1,
        1u << 24,
        0x7fffffff,
        0x80000000,
        0xffffffff,
        1ull << 32,
        1ull << 40,
        0x7fffffffffff,
        0x7fffffffffffffff,
        1ull << 63,
        0xffffffff00000001,
        0xfffffffffffffff8,
        UINT64_MAX,
    };
    uint8_t which = hostile_u8(in);
    return which & 0x80 ? hostile_bytes(in, 8) : special[which % (sizeof special / sizeof special[0])];
}

void hostile_fail(const char *what) {
    fprintf(stderr, "hostile target: %s\n", what);
    abort();
}

/* ---- time ---- */

static uint64_t ahead;

void hostile_advance(uint64_t ns) {
    __atomic_fetch_add(&ahead, ns, __ATOMIC_RELAXED);
}

void hostile_reset_time(void) {
    __atomic_store_n(&ahead, 0, __ATOMIC_RELAXED);
}

/* The linker puts these before the functions of these names (--wrap). */
uint64_t __real_ct_clock_now(void);
uint64_t __wrap_ct_clock_now(void);
uint64_t __wrap_ct_clock_now(void) {
    return __real_ct_clock_now() + __atomic_load_n(&ahead, __ATOMIC_RELAXED);
}

/* ---- loads ---- */

static uintptr_t watched_start;
static size_t watched_size;
static void (*on_load)(uint64_t offset);

void hostile_watch(const void *start, size_t size, void (*loaded)(uint64_t offset)) {
    watched_start = (uintptr_t)start;
    watched_size = size;
    on_load = loaded;
}

#define LOADS(bits, type)                                                                                              \
    void __sanitizer_cov_load##bits(const type *at);                                                                   \
    void __sanitizer_cov_load##bits(const type *at) {                                                                  \
        if ((uintptr_t)at - watched_start < watched_size)                                                              \
            on_load((uintptr_t)at - watched_start);                                                                    \
    }
LOADS(1, uint8_t)
LOADS(2, uint16_t)
LOADS(4, uint32_t)
LOADS(8, uint64_t)
LOADS(16, void)

/* ---- others ---- */

int hostile_bystander(void) {
    int parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) /* it has ended already */
            _exit(0);
        for (;;)
            pause();
    }
    return pid;
}

/* ---- without libFuzzer ---- */

#ifndef CT_LIBFUZZER
#include "alone.h"

static void random_case(void) {
    static uint8_t bytes[512];
    size_t size = pick(sizeof bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)pick(pick(2) ? hostile_operations : 256);
    LLVMFuzzerTestOneInput(bytes, size);
}

int main(int argc, char **argv) {
    return run_alone(argc, argv, hostile_cases, random_case);
}
#endif

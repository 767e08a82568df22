/* SPDX-License-Identifier: Apache-2.0 */
/* What a hooked call costs: the recorder's call and return against two bare timestamp reads, against a stub that
 * overwrites the return address (which exists only here), disabled, and with an empty listener. All in one run, best of
 * several. */
#include <contrail/contrail.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "calls.h"
#include "hook/stub.h"

#define ROUNDS 9
#define CALLS  4000000u

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static volatile uint64_t result;

static double time_mode(const struct calls_mode *mode) {
    double start = now_ns();
    result = mode->run(CALLS);
    return (now_ns() - start) / CALLS;
}

static double time_timestamps(void) {
    uint64_t sum = 0;
    double start = now_ns();
    for (unsigned i = 0; i < CALLS; i++) {
        sum += __builtin_ia32_rdtsc();
        sum += __builtin_ia32_rdtsc();
    }
    result = sum;
    return (now_ns() - start) / CALLS;
}

static void keep_best(double *best, double value) {
    if (*best == 0 || value < *best)
        *best = value;
}

static void check(int status, const char *what) {
    if (status >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, ct_status_text(status));
    exit(1);
}

/* ---- the classic way: overwrite the return address, jump to the body ---- */

static void poke(uint64_t address, const void *bytes, size_t size) {
    int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (memory < 0 || pwrite(memory, bytes, size, (off_t)address) != (ssize_t)size) {
        perror("/proc/self/mem");
        exit(1);
    }
    close(memory);
}

/* The patch of a hooked function leads to its stub; a landing pad may precede it. */
static uint64_t stub_of(const void *function) {
    const uint8_t *p = function;
    int32_t displacement;
    if (*p != 0xe9)
        p += 4;
    memcpy(&displacement, p + 1, 4);
    return (uint64_t)(p + 5) + (uint64_t)(int64_t)displacement;
}

/* A page that a rel32 from the stub reaches; kept for all stubs and rounds. */
static uint8_t *near_page(uint64_t stub) {
    static uint8_t *page;
    static size_t used;
    for (uint64_t distance = 128u << 20; !page && distance < 2048ull << 20; distance += 64u << 20) {
        void *at = mmap((void *)((stub & ~0xfffull) - distance), 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        page = at == MAP_FAILED ? NULL : at;
    }
    if (!page) {
        perror("mmap");
        exit(1);
    }
    used = (used + 32) % 4096;
    return page + used;
}

/* Replaces `call body` with a jump to: push resume; jmp body. Everything else stays the same. */
static void make_classic(const void *function) {
    uint64_t stub = stub_of(function);
    uint8_t *thunk = near_page(stub);
    int32_t to_body, displacement;
    memcpy(&to_body, (const void *)(stub + CT_STUB_CALL_BODY + 1), 4);
    uint64_t body = stub + CT_STUB_RESUME + (uint64_t)(int64_t)to_body, resume = stub + CT_STUB_RESUME;
    uint8_t code[] = {0xff, 0x35, 5, 0, 0, 0, 0xe9, 0, 0, 0, 0};
    displacement = (int32_t)(body - ((uint64_t)thunk + sizeof code));
    memcpy(code + 7, &displacement, 4);
    memcpy(thunk, code, sizeof code);
    memcpy(thunk + sizeof code, &resume, 8);
    uint8_t jump[5] = {0xe9};
    displacement = (int32_t)((uint64_t)thunk - (stub + CT_STUB_RESUME));
    memcpy(jump + 1, &displacement, 4);
    poke(stub + CT_STUB_CALL_BODY, jump, sizeof jump);
}

static void make_balanced(const void *function, const uint8_t saved[5]) {
    poke(stub_of(function) + CT_STUB_CALL_BODY, saved, 5);
}

/* ---- modes ---- */

static void nothing(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu;
    (void)call;
}

struct costs {
    double native, timestamps, pair, classic, disabled, listener;
};

static void measure_hooked(const struct calls_mode *mode, struct ct_hooks *hooks, struct costs *c, int *numbers) {
    static uint8_t saved[64][5];
    for (int round = 0; round < ROUNDS; round++) {
        keep_best(&c->timestamps, time_timestamps());
        keep_best(&c->pair, time_mode(mode));
        for (size_t i = 0; i < mode->function_count; i++) {
            memcpy(saved[i], (const void *)(stub_of(mode->functions[i]) + CT_STUB_CALL_BODY), 5);
            make_classic(mode->functions[i]);
        }
        keep_best(&c->classic, time_mode(mode));
        for (size_t i = 0; i < mode->function_count; i++) {
            make_balanced(mode->functions[i], saved[i]);
            check(ct_hooks_disable(hooks, numbers[i]), "disable");
        }
        keep_best(&c->disabled, time_mode(mode));
        for (size_t i = 0; i < mode->function_count; i++)
            check(ct_hooks_enable(hooks, numbers[i]), "enable");
    }
}

static void measure_native(const struct calls_mode *mode, struct costs *c) {
    for (int round = 0; round < ROUNDS; round++)
        keep_best(&c->native, time_mode(mode));
}

static void measure(const struct calls_mode *mode) {
    struct costs c = {0};
    struct ct_hooks *hooks;
    int numbers[64];
    struct ct_hook_listener listener = {.size = sizeof listener, .on_call = nothing, .on_return = nothing};
    measure_native(mode, &c);
    check(ct_hooks_create(&hooks, NULL), "create");
    check(ct_hooks_begin(hooks), "begin");
    for (size_t i = 0; i < mode->function_count; i++)
        check(numbers[i] = ct_hooks_record(hooks, mode->functions[i]), "record");
    check(ct_hooks_commit(hooks), "commit");
    measure_hooked(mode, hooks, &c, numbers);
    ct_hooks_destroy(hooks);
    measure_native(mode, &c);
    check(ct_hooks_create(&hooks, NULL), "create");
    for (size_t i = 0; i < mode->function_count; i++)
        check(ct_hooks_attach(hooks, mode->functions[i], &listener, NULL), "attach");
    keep_best(&c.listener, time_mode(mode));
    ct_hooks_destroy(hooks);
    double pair = c.pair - c.native, classic = c.classic - c.native;
    printf("%-7s native %.2f ns/call; two timestamps %.1f ns\n", mode->name, c.native, c.timestamps);
    printf("        recorded pair      +%.1f ns = two timestamps + %.1f ns, ratio to them %.2f\n", pair,
           pair - c.timestamps, pair / c.timestamps);
    printf("        overwritten return +%.1f ns: balanced saves %.1f ns, ratio %.2f\n", classic, classic - pair,
           classic / pair);
    printf("        disabled           +%.2f ns; empty listener +%.0f ns\n", c.disabled - c.native,
           c.listener - c.native);
}

int main(void) {
    for (size_t i = 0; calls_modes[i]; i++)
        measure(calls_modes[i]);
    return 0;
}

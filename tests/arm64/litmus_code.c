/* SPDX-License-Identifier: Apache-2.0 */
/* Litmus tests of code that changes while others run it. */
#include "litmus.h"
#include "os/os.h"
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

#define RET_X17 0xd65f0220u
#define RET     0xd65f03c0u
#define MOVZ_W0 0x52800000u

static uint32_t *code;
static uint64_t turn, end, wrong, rounds;
static bool synced;

static uint32_t load_number(uint32_t number) {
    return MOVZ_W0 | (number & 0xffff) << 5;
}

static int call(const uint32_t *function) {
    int (*f)(void) = (int (*)(void))(uintptr_t)function;
    return f();
}

static bool with_runner(void *(*run)(void *), pthread_t *thread) {
    turn = end = wrong = rounds = 0;
    code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return code != MAP_FAILED && pthread_create(thread, NULL, run, NULL) == 0;
}

static void finish(struct litmus *result, pthread_t thread) {
    store_release(&end, 1);
    pthread_join(thread, NULL);
    munmap(code, 4096);
    *result = (struct litmus){.rounds = rounds, .wrong = wrong};
}

/* A stub's first instruction: `bl` or `b`, by one store of eight bytes, while a thread runs through it. It runs the one
 * or the other; once it has synchronized, the new one. */
enum { FIRST = 2, WHEN_ON = 8, WHEN_OFF = 12 };

static uint64_t first_words(bool on) {
    uint32_t word = on ? 0x94000000u | (WHEN_ON - FIRST) : 0x14000000u | (WHEN_OFF - FIRST);
    return (uint64_t)RET_X17 << 32 | word;
}

static void *run_switched(void *arg) {
    while (!load_acquire(&end)) {
        if (!load_acquire(&turn))
            continue;
        for (unsigned i = 0; i < 64; i++) {
            int now = call(code);
            wrong += now != 1 && now != 2;
            rounds++;
        }
        uint64_t before = load_acquire(&turn);
        __asm__ volatile("isb" : : : "memory");
        int now = call(code);
        if (load_acquire(&turn) == before && before % 2 == 0) /* even: no change is under way */
            wrong += now != (before % 4 == 0 ? 1 : 2);
    }
    return arg;
}

void litmus_switch(struct litmus *result, bool ordered) {
    (void)ordered;
    pthread_t runner;
    if (!with_runner(run_switched, &runner))
        return;
    code[0] = 0xaa1e03f1u; /* mov x17, x30 */
    code[1] = 0xd503201fu; /* nop */
    *(uint64_t *)&code[FIRST] = first_words(true);
    code[WHEN_ON] = load_number(1);
    code[WHEN_ON + 1] = RET_X17;
    code[WHEN_OFF] = load_number(2);
    code[WHEN_OFF + 1] = RET_X17;
    ct_os_sync_code((uint64_t)(uintptr_t)code, 4096);
    for (uint64_t now = 4; !litmus_over(); now += 2) {
        store_release(&turn, now);
        for (unsigned i = 0; i < 200; i++)
            __asm__ volatile("yield");
        store_release(&turn, now + 1);
        __atomic_store_n((uint64_t *)&code[FIRST], first_words((now + 2) % 4 == 0), __ATOMIC_RELEASE);
        ct_os_sync_code((uint64_t)(uintptr_t)&code[FIRST], 8);
    }
    finish(result, runner);
}

/* New code: written, made visible to instruction fetches, published; a thread that has synchronized runs it. Stopping
 * and resuming a thread is such a synchronization. */
static void *run_new(void *arg) {
    uint64_t done = 0;
    while (!load_acquire(&end)) {
        uint64_t now = load_acquire(&turn);
        if (now == done)
            continue;
        __asm__ volatile("isb" : : : "memory");
        wrong += call(code) != (int)(now & 0xffff);
        done = now;
        store_release(&rounds, rounds + 1);
    }
    return arg;
}

void litmus_new_code(struct litmus *result, bool ordered) {
    synced = ordered;
    pthread_t runner;
    if (!with_runner(run_new, &runner))
        return;
    for (uint64_t now = 1; !litmus_over(); now++) {
        PLAIN(code[0]) = load_number((uint32_t)now);
        PLAIN(code[1]) = RET;
        if (synced || now == 1)
            ct_os_sync_code((uint64_t)(uintptr_t)code, 8);
        store_release(&turn, now);
        while (load_acquire(&rounds) < now && !litmus_over())
            __asm__ volatile("yield");
    }
    finish(result, runner);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A hooked function called by a signal handler on a small signal stack.
 *
 * What went wrong here: the signal stack lay inside a frame of the interrupted thread, so the handler's call was out of
 * order and took the slow path, which used more stack than the whole signal stack had and wrote below it. */
#include "harness.h"
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

enum { GUARD = 32 * 1024, ROOM = 4096, LARGEST = 64 * 1024 };
static volatile int handled;

static E2E_FN void inside(void) {
    handled++;
    E2E_BARRIER();
}

static void handler(int number) {
    (void)number;
    inside();
}

static E2E_FN void outside(void) {
    raise(SIGUSR1);
    E2E_BARRIER();
}

/* Below everything in main's frame, where the signal stack is */
static E2E_FN void deeper(void) {
    volatile char pad[4096];
    pad[0] = 1;
    outside();
    E2E_BARRIER();
    (void)pad[0];
}

static size_t changed(const unsigned char *bytes, size_t size) {
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += bytes[i] != 0xaa;
    return count;
}

int main(int argc, char **argv) {
    unsigned char area[GUARD + LARGEST] __attribute__((aligned(64)));
    size_t frame = getauxval(AT_MINSIGSTKSZ);
    size_t size = (frame ? frame : 4096) + ROOM; /* what the kernel puts there, and a little */
    if (size < 8192)
        size = 8192;
    if (size > LARGEST)
        e2e_skip("signal frames are larger than expected");
    alarm(240);
    memset(area, 0xaa, sizeof area);
    stack_t small = {.ss_sp = area + GUARD, .ss_size = size};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    E2E_EQUAL(sigaltstack(&small, NULL), 0);
    sigaction(SIGUSR1, &action, NULL);
    deeper();
    E2E_EQUAL(changed(area, GUARD), 0);
    e2e_begin(argc, argv);
    e2e_allow_unnested(); /* the signal stack is above the frame that was interrupted */
    E2E_RECORD(inside);
    E2E_RECORD(outside);
    for (int i = 0; i < 100; i++)
        deeper();
    E2E_EQUAL(changed(area, GUARD), 0);
    E2E_EQUAL(handled, 101);
    if (!e2e_plain()) {
        struct e2e_summary s = e2e_summarize(0);
        E2E_EQUAL(s.calls, 200);
        E2E_EQUAL(s.returns, 200);
        e2e_forget();
    }
    small.ss_flags = SS_DISABLE;
    sigaltstack(&small, NULL);
    return e2e_end();
}

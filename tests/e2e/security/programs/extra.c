/* SPDX-License-Identifier: Apache-2.0 */
/* extra: moves the tables of a process that is about to be followed, before contrail fills them.
 *
 * A helper that shares the memory without being a thread is not stopped. It writes as soon as there is a lane. */
#include "hostile.h"
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#define FAR    0x414141410000ull
#define ROUNDS 200000

static char stack[1 << 18] __attribute__((aligned(16)));

static int help(void *unused) {
    struct hostile_lane lane;
    (void)unused;
    while (!hostile_find_lane(&lane))
        ;
    uint64_t offset = lane.start + offsetof(struct ct_shm_control, extra_offset);
    for (int i = 0; i < ROUNDS && hostile_write8(offset, FAR); i++)
        if (i == 0)
            hostile_say("attacked");
    _exit(0);
}

int main(void) {
    hostile_begin();
    if (clone(help, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL) < 0)
        hostile_end("no helper");
    hostile_beat_on();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* stops flapping|held: is stopped and continued by a friend all the time, or stopped for good once it is recorded. */
#include "hostile.h"
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

static _Noreturn void flap(int parent) {
    for (;;) {
        kill(parent, SIGSTOP);
        hostile_sleep(1000);
        kill(parent, SIGCONT);
        hostile_sleep(1000);
    }
}

int main(int argc, char **argv) {
    struct hostile_lane lane;
    if (argc != 2)
        hostile_end("usage: stops flapping|held");
    hostile_begin();
    bool flapping = !strcmp(argv[1], "flapping");
    int parent = getpid();
    if (flapping && fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        flap(parent);
    }
    hostile_wait_for_lane(&lane);
    hostile_say("attacked");
    if (!flapping)
        raise(SIGSTOP);
    hostile_beat_on();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* request forked|exec PID [PROGRAM]: asks contrail, in the name of process PID (0: itself), to follow it.
 * request flood 0: asks again and again, for itself, to be followed into a program, and executes none.
 *
 * The request says that PID is a child that was just forked, or that it is about to execute PROGRAM. */
#include "hostile.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define LETTERS 3000 /* each may be a thread of contrail's */

static _Noreturn void flood(const struct hostile_lane *lane, const struct ct_shm_request *request) {
    for (int i = 0; i < LETTERS; i++) {
        hostile_requests(lane, request);
        if (i == 0)
            hostile_say("attacked");
        if (i % 10)
            hostile_sleep(500);
        else
            hostile_beat();
    }
    hostile_beat_on();
}

int main(int argc, char **argv) {
    struct hostile_lane lane;
    if (argc < 3)
        hostile_end("usage: request forked|exec|flood PID [PROGRAM]");
    hostile_begin();
    hostile_wait_for_lane(&lane);
    int pid = atoi(argv[2]) ? atoi(argv[2]) : getpid();
    struct ct_shm_request request = {
        .kind = !strcmp(argv[1], "forked") ? CT_REQUEST_FORKED : CT_REQUEST_EXEC,
        .pid = pid,
        .tid = pid,
        .argument = (uintptr_t)(argc > 3 ? argv[3] : "/bin/true"),
        .directory = AT_FDCWD,
    };
    if (!strcmp(argv[1], "flood"))
        flood(&lane, &request);
    hostile_requests(&lane, &request);
    hostile_say("attacked");
    hostile_say("answer %d", hostile_answer(&lane));
    hostile_beat_on();
}

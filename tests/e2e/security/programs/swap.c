/* SPDX-License-Identifier: Apache-2.0 */
/* swap other|short|nothing: a child puts something else in the place of the lane, then its parent says that it was
 * forked.
 *
 * other: memory of its own with the same name. short: the same, one page of it. nothing: there is no mapping any more.
 * The child calls nothing that is hooked. */
#include "hostile.h"
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

static int file;

HOSTILE_INLINE _Noreturn void live_as_child(const struct hostile_lane *lane, bool mapped, bool whole) {
    long start = (long)lane->start, size = (long)(lane->end - lane->start);
    hostile_call(SYS_munmap, start, size, 0, 0, 0, 0);
    if (mapped)
        hostile_call(SYS_mmap, start, whole ? size : 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    for (;;)
        hostile_sleep(HOSTILE_BEAT_US);
}

int main(int argc, char **argv) {
    struct hostile_lane lane;
    if (argc != 2)
        hostile_end("usage: swap other|short|nothing");
    hostile_begin();
    bool mapped = strcmp(argv[1], "nothing") != 0, whole = !strcmp(argv[1], "other");
    hostile_wait_for_lane(&lane);
    struct ct_shm_control control = hostile_control(&lane);
    file = memfd_create("contrail", MFD_CLOEXEC);
    if (ftruncate(file, (off_t)(lane.end - lane.start)) || pwrite(file, &control, sizeof control, 0) < 0)
        hostile_end("no memory");
    long child = hostile_call(SYS_fork, 0, 0, 0, 0, 0, 0);
    if (child == 0) {
        hostile_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
        live_as_child(&lane, mapped, whole);
    }
    hostile_say("child %ld", child);
    hostile_beat_for(50);
    struct ct_shm_request request = {.kind = CT_REQUEST_FORKED, .pid = (int)child, .tid = (int)child};
    hostile_requests(&lane, &request);
    hostile_say("attacked");
    hostile_say("answer %d", hostile_answer(&lane));
    hostile_beat_on();
}

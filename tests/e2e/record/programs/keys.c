/* SPDX-License-Identifier: Apache-2.0 */
/* Let go while a thread has functions open whose return addresses it has signed with keys of its own. Afterwards they
 * return. On machines without such keys it is a thread as any other. */
#include "zoo.h"
#include <pthread.h>
#include <sys/prctl.h>

#ifndef PR_PAC_RESET_KEYS
#define PR_PAC_RESET_KEYS 54
#endif

ZOO_GATES

static int open_pipe[2], ready_pipe[2];

static FN char wait_byte(int file) {
    char byte = 0;
    CHECK(read(file, &byte, 1) == 1);
    return byte;
}

static FN long own(int depth) {
    long below = depth ? own(depth - 1) : wait_byte(open_pipe[0]);
    BARRIER();
    return below + 1;
}

/* It may have signed its own return address with the keys that it had before: so it does not return. */
static void *thread(void *arg) {
    (void)prctl(PR_PAC_RESET_KEYS, 0, 0, 0, 0);
    CHECK(write(ready_pipe[1], "r", 1) == 1);
    CHECK(own(9) == 'b' + 10);
    CHECK(write(ready_pipe[1], "d", 1) == 1);
    for (;;)
        pause();
    return arg;
}

int main(void) {
    pthread_t id;
    wait_for_start();
    CHECK(!pipe(open_pipe) && !pipe(ready_pipe));
    CHECK(!pthread_create(&id, NULL, thread, NULL));
    CHECK(wait_byte(ready_pipe[0]) == 'r');
    usleep(20000); /* it is in its call by now */
    wait_for_end();
    CHECK(write(open_pipe[1], "b", 1) == 1);
    CHECK(wait_byte(ready_pipe[0]) == 'd');
    puts("done");
    return zoo_failures;
}

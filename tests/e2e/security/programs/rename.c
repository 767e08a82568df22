/* SPDX-License-Identifier: Apache-2.0 */
/* rename: its names, command line and thread names are commands for the terminal where they are printed. */
#include "hostile.h"
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>

static const char bad[] = "\033]0;owned\a\033[2J";

static void *live(void *unused) {
    prctl(PR_SET_NAME, "\033[31m\n\r\x9b"
                       "2J");
    for (;;)
        hostile_beat();
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    struct hostile_lane lane;
    hostile_begin();
    prctl(PR_SET_NAME, bad);
    for (int i = 0; i < argc; i++)
        for (size_t k = 0, size = strlen(argv[i]); k < size; k++)
            argv[i][k] = bad[k % (sizeof bad - 1)];
    if (pthread_create(&thread, NULL, live, NULL))
        hostile_end("no thread");
    hostile_wait_for_lane(&lane);
    hostile_say("attacked");
    hostile_beat_on();
}

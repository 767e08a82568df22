/* SPDX-License-Identifier: Apache-2.0 */
/* Gives up root, goes into a directory without programs as its root, and forbids being looked at. */
#include "zoo.h"
#include <grp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static FN long leaf(long x) {
    BARRIER();
    return x + 1;
}

static FN void *work(void *arg) {
    long x = 0;
    for (int i = 0; i < 5000; i++)
        x = leaf(x);
    CHECK(x == 5000);
    return arg;
}

static FN void drop(void) {
    if (chroot("/usr/share") != 0 || chdir("/") != 0)
        exit(77);
    if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0)
        exit(77);
    prctl(PR_SET_DUMPABLE, 0);
}

int main(void) {
    pthread_t thread;
    if (getuid() != 0) {
        puts("not root");
        return 77;
    }
    drop();
    work(NULL);
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    puts("done");
    return zoo_failures;
}

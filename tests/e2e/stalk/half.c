/* SPDX-License-Identifier: Apache-2.0 */
/* Has the shared memory of a recorder that was killed just when it had made it. Prints its pid first; ends at
 * SIGTERM. */
#define _GNU_SOURCE
#include "abi/shm_abi.h"
#include "abi/stalk_abi.h"
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile sig_atomic_t stop;

static void on_term(int signal) {
    (void)signal;
    stop = 1;
}

int main(void) {
    enum { EXTRA = 1 << 16, SIZE = 1 << 20 };
    int fd = memfd_create("contrail", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, SIZE))
        return 1;
    struct ct_shm_control *control = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED)
        return 1;
    control->version = CT_SHM_VERSION;
    control->extra_offset = EXTRA;
    control->magic = CT_SHM_MAGIC;
    close(fd);
    signal(SIGTERM, on_term);
    printf("%d\n", getpid());
    fflush(stdout);
    while (!stop)
        usleep(1000);
    printf("1\n");
    return 5;
}

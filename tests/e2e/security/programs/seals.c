/* SPDX-License-Identifier: Apache-2.0 */
/* seals map_files|descriptor: gets at the file of the shared memory and makes it shorter, longer, or maps it once more.
 *
 * map_files: opens it by its mapping in /proc, as a process with enough rights can. descriptor: a helper that shares
 * the table of descriptors without being a thread is not stopped, and copies the descriptor while contrail has it open
 * there. Says what succeeded: "shrunk", "grown", "mapped". Contrail reads memory that is gone when one does. */
#include "hostile.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEXT 40 /* lower numbers are taken, so the next descriptor that is made has this one */
#define COPY 80

static char stack[1 << 18] __attribute__((aligned(16)));

static void try_all(int fd, off_t size) {
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    hostile_say(at == MAP_FAILED ? "not mapped: %s" : "mapped", strerror(errno));
    hostile_say(ftruncate(fd, size + (1 << 20)) ? "not longer: %s" : "grown", strerror(errno));
    hostile_say(ftruncate(fd, 0) ? "not shorter: %s" : "shrunk", strerror(errno));
}

static void by_mapping(const struct hostile_lane *lane) {
    char path[128];
    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", lane->start, lane->end);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        hostile_say("not opened: %s", strerror(errno));
    else
        try_all(fd, (off_t)(lane->end - lane->start));
}

static bool is_lane(int fd) {
    char path[64], name[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(path, name, sizeof name - 1);
    return size > 0 && (name[size] = 0, strstr(name, "memfd:contrail") != NULL);
}

static int help(void *unused) {
    (void)unused;
    while (dup2(NEXT, COPY) < 0 || !is_lane(COPY))
        ;
    hostile_say("copied");
    return 0;
}

static void take_lower_descriptors(void) {
    for (int fd = 0; fd >= 0 && fd < NEXT - 1;)
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void by_descriptor(const struct hostile_lane *lane) {
    if (is_lane(COPY))
        try_all(COPY, (off_t)(lane->end - lane->start));
    else
        hostile_say("not copied");
}

int main(int argc, char **argv) {
    struct hostile_lane lane;
    bool descriptor = argc == 2 && !strcmp(argv[1], "descriptor");
    if (argc != 2)
        hostile_end("usage: seals map_files|descriptor");
    hostile_begin();
    if (descriptor)
        take_lower_descriptors();
    if (descriptor && clone(help, stack + sizeof stack, CLONE_VM | CLONE_FILES | SIGCHLD, NULL) < 0)
        hostile_end("no helper");
    hostile_wait_for_lane(&lane);
    if (descriptor)
        by_descriptor(&lane);
    else
        by_mapping(&lane);
    hostile_say("attacked");
    hostile_beat_on();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* goheap PID|PROGRAM START SIZE (hexadecimal): leaves free memory only where process PID has its heap, as all Go
 * programs have theirs at one address, so that contrail's memory comes to lie there; then says that PID was just
 * forked.
 *
 * A recorder that believes it writes to that address in PID, and maps a new lane over its heap. PROGRAM: it is a child
 * indeed, but executes a program with more rights. */
#include "hostile.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LOWEST   0x10000ull
#define HIGHEST  0x7ffffffff000ull
#define GIB      (1ull << 30)
#define ROOM     (3ull << 20) /* for stubs: these must be near their modules */
#define MOST     256
#define RESERVED (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE)

struct range {
    uint64_t start, end;
};

static size_t read_maps(struct range maps[MOST]) {
    char line[512];
    size_t count = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    if (!file)
        hostile_end("no maps");
    while (count < MOST && fgets(line, sizeof line, file))
        if (sscanf(line, "%lx-%lx", &maps[count].start, &maps[count].end) == 2 && maps[count].start < HIGHEST)
            count++;
    fclose(file);
    return count;
}

/* Everything from start to end that is not in the hole. */
static void fill(uint64_t start, uint64_t end, struct range hole) {
    const struct range parts[2] = {{start, end < hole.start ? end : hole.start},
                                   {start > hole.end ? start : hole.end, end}};
    for (int i = 0; i < 2; i++)
        if (parts[i].start < parts[i].end)
            mmap((void *)(uintptr_t)parts[i].start, parts[i].end - parts[i].start, PROT_NONE, RESERVED, -1, 0);
}

static void leave_room(uint64_t at) {
    munmap((void *)(uintptr_t)at, ROOM);
}

static void fill_all(struct range hole) {
    static struct range maps[MOST];
    size_t count = read_maps(maps);
    uint64_t at = LOWEST;
    for (size_t i = 0; i < count; i++) {
        fill(at, maps[i].start, hole);
        at = maps[i].end;
    }
    fill(at, HIGHEST, hole);
    leave_room(maps[0].start - GIB);
    leave_room(maps[0].end + GIB);
    for (size_t i = 0; i < count; i++)
        if (maps[i].start > 0x7f0000000000ull) {
            leave_room(maps[i].start - GIB);
            break;
        }
}

/* By system calls alone: contrail does not hear of it. */
static int start(char *program) {
    char *arguments[] = {program, NULL}, *environment[] = {NULL};
    long child = hostile_call(SYS_fork, 0, 0, 0, 0, 0, 0);
    if (child == 0) {
        hostile_call(SYS_execve, (long)program, (long)arguments, (long)environment, 0, 0, 0);
        hostile_call(SYS_exit_group, 1, 0, 0, 0, 0, 0);
    }
    hostile_say("child %ld", child);
    hostile_beat_for(200);
    return (int)child;
}

int main(int argc, char **argv) {
    struct hostile_lane lane;
    if (argc != 4)
        hostile_end("usage: goheap PID|PROGRAM START SIZE");
    hostile_begin();
    uint64_t heap = strtoull(argv[2], NULL, 16);
    fill_all((struct range){heap, heap + strtoull(argv[3], NULL, 16)});
    hostile_wait_for_lane(&lane);
    int pid = argv[1][0] == '/' ? start(argv[1]) : atoi(argv[1]);
    struct ct_shm_request request = {.kind = CT_REQUEST_FORKED, .pid = pid, .tid = pid};
    hostile_requests(&lane, &request);
    hostile_say("attacked: the lane is at %lx", lane.start);
    hostile_say("answer %d", hostile_answer(&lane));
    hostile_beat_on();
}

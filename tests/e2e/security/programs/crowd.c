/* SPDX-License-Identifier: Apache-2.0 */
/* crowd plain|code|modules: as many mappings as the system allows: of data, of executable memory of no file, of
 * libraries. */
#include "hostile.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096ull
#define MOST 1000000ull

/* Neighbours differ, or they would be one mapping. */
static uint64_t map_memory(int other) {
    uint8_t *at = mmap(NULL, MOST * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint64_t count = 0;
    while (count < MOST / 2 && !mprotect(at + 2 * count * PAGE, PAGE, other))
        count++;
    munmap(at + (2 * count - 200) * PAGE, 200 * PAGE); /* some must be left for the program itself, and for contrail */
    return count;
}

static uint64_t map_program(void) {
    static void *last[100];
    uint64_t count = 0;
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    for (void *at; count < MOST; count++) {
        if ((at = mmap(NULL, 4 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0)) == MAP_FAILED)
            break;
        last[count % 100] = at;
        if (count % 2)
            mprotect(at, PAGE, PROT_READ);
    }
    for (int i = 0; i < 100; i++)
        munmap(last[i], 4 * PAGE);
    return count;
}

int main(int argc, char **argv) {
    if (argc != 2)
        hostile_end("usage: crowd plain|code|modules");
    hostile_begin();
    uint64_t count = !strcmp(argv[1], "plain")  ? map_memory(PROT_READ)
                     : !strcmp(argv[1], "code") ? map_memory(PROT_READ | PROT_EXEC)
                                                : map_program();
    hostile_say("attacked: %lu mappings", count);
    hostile_beat_on();
}

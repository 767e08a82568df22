/* SPDX-License-Identifier: Apache-2.0 */
/* A fuzzer without libFuzzer: replays the files given as arguments, or those in directories, then tries `--cases N`
 * deterministic cases. Included where CT_LIBFUZZER is not defined; one file of a program. */
#ifndef CT_TESTS_FUZZ_ALONE_H
#define CT_TESTS_FUZZ_ALONE_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t state = 0x9e3779b97f4a7c15u;
static unsigned pick(unsigned limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % limit;
}

/* Changes, cuts off or doubles pieces of `size` bytes, of which there may be `room`. `special`: eight bytes that mean
 * something there. Returns how many there are then. */
__attribute__((unused)) static size_t spoil(uint8_t *bytes, size_t size, size_t room, const char *special) {
    for (unsigned n = 1 + pick(4); n && size; n--) {
        size_t at = pick((unsigned)size), length = 1 + pick((unsigned)(size - at));
        switch (pick(5)) {
        case 0:
            bytes[at] ^= (uint8_t)(1u << pick(8));
            break;
        case 1:
            bytes[at] = (uint8_t)special[pick(8)];
            break;
        case 2:
            size = at;
            break;
        case 3: /* a piece goes */
            memmove(bytes + at, bytes + at + length, size - at - length);
            size -= length;
            break;
        default: /* a piece comes twice */
            if (size + length < room) {
                memmove(bytes + at + length, bytes + at, size - at);
                size += length;
            }
        }
    }
    return size;
}

enum { LIMIT_S = 120 }; /* an input that takes longer has no end: SIGALRM */

static void replay_file(const char *path) {
    static uint8_t bytes[1 << 20];
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        abort();
    }
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    fprintf(stderr, "%s\n", path);
    alarm(LIMIT_S);
    LLVMFuzzerTestOneInput(bytes, size);
    alarm(0);
}

static void replay(const char *path) {
    char file[1024];
    DIR *folder = opendir(path);
    if (!folder)
        replay_file(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.') {
            snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
            replay_file(file);
        }
    if (folder)
        closedir(folder);
}

static int run_alone(int argc, char **argv, unsigned long cases, void (*random_case)(void)) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--cases") == 0 && i + 1 < argc)
            cases = strtoul(argv[++i], NULL, 0);
        else
            replay(argv[i]);
    while (cases--) {
        alarm(LIMIT_S);
        random_case();
    }
    alarm(0);
    return 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what it sees of its descriptors and mappings: as untraced. */
#include "zoo.h"
#include <dirent.h>
#include <string.h>
#include <sys/mman.h>

ZOO_GATES

static FN void list_descriptors(void) {
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    int count = 0, highest = -1;
    while ((entry = readdir(directory))) {
        if (entry->d_name[0] == '.')
            continue;
        int number = atoi(entry->d_name);
        count++;
        if (number > highest)
            highest = number;
    }
    closedir(directory);
    int next = open("/dev/null", O_RDONLY), copy = dup(0);
    printf("%d descriptors, the highest %d, new ones %d %d\n", count, highest, next, copy);
    close(next);
    close(copy);
}

/* Files that are mapped, with their permissions: contrail adds none but its shared memory, and makes no text
 * writable. */
static FN void list_files(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[8192], permissions[8], path[4096];
    int files = 0, stacks = 0;
    while (fgets(line, sizeof line, maps)) {
        path[0] = 0;
        if (sscanf(line, "%*s %7s %*s %*s %*s %4095s", permissions, path) < 1)
            continue;
        if (path[0] == '/' && strcmp(path, "/memfd:contrail") != 0) {
            files++;
            CHECK(!(strchr(permissions, 'w') && strchr(permissions, 'x')));
            CHECK(!strstr(line, "(deleted)"));
            printf("%s %s\n", permissions, strrchr(path, '/'));
        }
        stacks += strcmp(path, "[stack]") == 0;
    }
    fclose(maps);
    printf("%d mapped files, %d stacks\n", files, stacks);
}

int main(void) {
    wait_for_start();
    list_descriptors();
    list_files();
    wait_for_end();
    return zoo_failures;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* gone unmapped|moved|protected: takes the lane away from contrail's agent while it is recorded, and calls nothing any
 * more. */
#include "hostile.h"
#include <string.h>
#include <sys/mman.h>

static char said[] = "attacked\n";

int main(int argc, char **argv) {
    struct hostile_lane lane;
    if (argc != 2)
        hostile_end("usage: gone unmapped|moved|protected");
    hostile_begin();
    void *there = mmap(NULL, 1ull << 32, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool unmapped = !strcmp(argv[1], "unmapped"), moved = !strcmp(argv[1], "moved");
    hostile_wait_for_lane(&lane);
    long start = (long)lane.start, size = (long)(lane.end - lane.start);
    if (unmapped)
        hostile_call(SYS_munmap, start, size, 0, 0, 0, 0);
    else if (moved)
        hostile_call(SYS_mremap, start, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (long)there, 0);
    else
        hostile_call(SYS_mprotect, start, size, PROT_NONE, 0, 0, 0);
    hostile_call(SYS_write, STDERR_FILENO, (long)said, sizeof said - 1, 0, 0, 0);
    hostile_beat_silently();
}

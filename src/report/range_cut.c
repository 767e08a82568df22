/* SPDX-License-Identifier: Apache-2.0 */
/* Divides the events of a thread into ranges: see range.h. */
#include "report/range.h"
#include "base/grow.h"
#include <stdlib.h>

/* Where a range ends that begins at `first`: blocks are unpacked as a whole. */
static uint64_t end_of(const struct ct_index *index, uint64_t first, uint64_t end, uint64_t size) {
    uint64_t at = first;
    while (at < end && at - first < size) {
        uint64_t next = ct_index_block_end(index, at, size);
        if (next <= at || next - first > size)
            return at > first ? at : first + size < end ? first + size : end;
        at = next;
    }
    return at < end ? at : end;
}

/* The event after a gap is a piece of its own: only the owner of the frames knows what a gap does. */
bool ct_range_cut(struct ct_range_piece **pieces, size_t *count, const struct ct_range_source *source, uint64_t first,
                  uint64_t end, uint64_t size) {
    const struct ct_thread_facts *facts = &source->facts->threads[source->thread];
    const struct ct_index *index = &source->trace->threads[source->thread].index;
    size_t gap = 0, room = 0;
    *pieces = NULL;
    *count = 0;
    while (first < end) {
        while (gap < facts->gap_count && facts->gaps[gap].at < first)
            gap++;
        bool here = gap < facts->gap_count && facts->gaps[gap].at == first;
        uint64_t stop = here ? first + 1 : end_of(index, first, end, size);
        if (!here && gap < facts->gap_count && facts->gaps[gap].at < stop)
            stop = facts->gaps[gap].at;
        if (!ct_grow(pieces, &room, *count, sizeof **pieces, 64)) {
            free(*pieces);
            *pieces = NULL;
            return false;
        }
        (*pieces)[(*count)++] = (struct ct_range_piece){first, stop, here};
        first = stop;
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One viewport of one thread: for each depth, what fills the time from left to right, with at most a few cells for each
 * pixel. A call that is at least a pixel wide is a cell of its own; narrower ones are merged into the function that
 * covers most of them. */
#ifndef CT_VIEW_CELLS_H
#define CT_VIEW_CELLS_H

#include "view/store.h"

enum { CT_CELLS_WIDTH = 4096, CT_CELLS_DEPTHS = 512 };

struct ct_cell_box {
    uint64_t start_ns, end_ns; /* CLOCK_BOOTTIME */
    uint64_t function;         /* of the process */
    uint64_t calls;            /* that begin in it */
    uint64_t call;             /* its position in the thread; UINT64_MAX: several, or not known */
    uint8_t share;             /* of 255: how much of the time the function covers */
};

struct ct_cells {
    /* what is asked */
    size_t thread;
    uint64_t from_ns, to_ns;
    uint32_t width, low, high; /* pixels; depths, both included */
    uint64_t most_events;      /* that are read instead of levels; 0: as usual */
    /* the answer */
    struct ct_cell_row {
        struct ct_cell_box *boxes;
        size_t count, room;
    } * rows;     /* from `low` on */
    bool sampled; /* there are more events than can be read at once: some places were looked at */
    bool failed;  /* out of memory */
    /* private */
    struct ct_cell_mix *mixes; /* what is being merged, by row */
};

int ct_cells_make(struct ct_cells *cells, struct ct_view_reader *reader);
void ct_cells_free(struct ct_cells *cells);
/* For a part of the viewport that others have drawn (levels.h): adds a box. Boxes of a row come in order. */
void ct_cells_add(struct ct_cells *cells, uint32_t depth, const struct ct_cell_box *box);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Values of an event that have a record of their own in the lane (CT_EVENT_VALUES): texts that arguments point to, and
 * floating-point numbers. See detail.h. Owner: the drain thread.
 *
 * Nothing in the pieces is believed: sizes are cut to the record, what does not fit is left out. */
#include "drain/detail.h"
#include <stdlib.h>
#include <string.h>

_Static_assert(CT_PIECE_REALS == ATF_PIECE_REALS, "pieces keep their address");

void ct_detail_keep_values(const struct ct_detail *d, struct ct_detail_thread *t, size_t place) {
    const struct ct_shm_detail *in = ct_detail_record(d, place);
    uint32_t size = CT_VALUES_SIZE(in->hook);
    if (!t->values && !(t->values = malloc(sizeof *t->values)))
        return;
    t->values->number = d->places[place].number;
    t->values->size = size;
    memcpy(t->values->bytes, in, size);
}

/* Appends one piece; returns its size in the file, 0: none is left. `*at` moves on. */
static uint32_t put_piece(const struct ct_detail_values *v, uint32_t *at, uint8_t *to) {
    struct ct_shm_piece in;
    while (*at + sizeof in <= v->size) {
        memcpy(&in, v->bytes + *at, sizeof in);
        uint32_t from = *at + (uint32_t)sizeof in, padded = (in.size + 7u) & ~7u;
        if (!in.room || in.room % 8 || in.room > v->size - from)
            return 0;
        *at = from + in.room;
        if (!in.size || in.size > in.room)
            continue;
        const struct atf_detail_piece out = {.address = in.address, .size = in.size};
        memcpy(to, &out, sizeof out);
        memset(to + sizeof out, 0, padded);
        memcpy(to + sizeof out, v->bytes + from, in.size);
        return (uint32_t)sizeof out + padded;
    }
    return 0;
}

uint32_t ct_detail_put_values(struct ct_detail_thread *t, uint64_t number, struct atf_detail_event *event,
                              uint8_t *to) {
    struct ct_detail_values *v = t->values;
    uint32_t used = 0, at = CT_VALUES_HEAD, piece;
    if (!v || v->number != number)
        return 0;
    while ((piece = put_piece(v, &at, to + used)))
        used += piece;
    v->number = 0;
    if (used)
        event->flags |= ATF_DETAIL_STRINGS;
    return used;
}

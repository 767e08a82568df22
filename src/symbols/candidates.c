/* SPDX-License-Identifier: Apache-2.0 */
/* A growing list of candidates, and its radix sort, which is most of the work of opening a table. */
#include "base/grow.h"
#include "symbols/table.h"
#include <contrail/status.h>
#include <stdlib.h>

#define DIGIT_BITS 11
#define DIGITS     (1u << DIGIT_BITS)

int ct_candidates_add(struct ct_candidates *list, const struct ct_candidate *item) {
    if (!ct_grow(&list->items, &list->capacity, list->count, sizeof *list->items, 4096))
        return CT_ERR_NO_MEMORY;
    list->items[list->count++] = *item;
    return 0;
}

static void sort_by_digit(const struct ct_candidate *from, struct ct_candidate *to, size_t count, unsigned shift) {
    size_t places[DIGITS] = {0};
    for (size_t i = 0; i < count; i++)
        places[from[i].offset >> shift & (DIGITS - 1)]++;
    size_t next = 0;
    for (size_t digit = 0; digit < DIGITS; digit++) {
        size_t n = places[digit];
        places[digit] = next;
        next += n;
    }
    for (size_t i = 0; i < count; i++)
        to[places[from[i].offset >> shift & (DIGITS - 1)]++] = from[i];
}

int ct_candidates_sort(struct ct_candidates *list) {
    uint64_t all = 0;
    if (list->count < 2)
        return 0;
    struct ct_candidate *other = malloc(list->count * sizeof *other);
    if (!other)
        return CT_ERR_NO_MEMORY;
    for (size_t i = 0; i < list->count; i++)
        all |= list->items[i].offset;
    for (unsigned shift = 0; shift < 64 && all >> shift; shift += DIGIT_BITS) {
        sort_by_digit(list->items, other, list->count, shift);
        struct ct_candidate *items = list->items;
        list->items = other;
        other = items;
        list->capacity = list->count;
    }
    free(other);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow. */
#ifndef CT_BASE_GROW_H
#define CT_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>

/* The slow paths of ct_grow and ct_grow_zeroed. */
bool ct_grow_more(void *array, size_t *room, size_t index, size_t size, size_t first, bool zeroed);

/* Makes room for the item with this index. `array` is the address of the array's pointer, *room how many items fit,
 * `size` that of an item. Room doubles, from `first` on. False: out of memory; nothing has changed. */
static inline bool ct_grow(void *array, size_t *room, size_t index, size_t size, size_t first) {
    return index < *room || ct_grow_more(array, room, index, size, first, false);
}

/* Items that are new are zero. */
static inline bool ct_grow_zeroed(void *array, size_t *room, size_t index, size_t size, size_t first) {
    return index < *room || ct_grow_more(array, room, index, size, first, true);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow by doubling. */
#include "base/grow.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool ct_grow_more(void *array, size_t *room, size_t index, size_t size, size_t first, bool zeroed) {
    size_t more = *room ? *room : first, bytes;
    while (more <= index || more == *room) {
        if (more > SIZE_MAX / 2)
            return false;
        more *= 2;
    }
    if (__builtin_mul_overflow(more, size, &bytes))
        return false;
    char *items; /* memcpy: the caller's pointer has another type */
    memcpy(&items, array, sizeof items);
    items = realloc(items, bytes);
    if (!items)
        return false;
    if (zeroed)
        memset(items + *room * size, 0, (more - *room) * size);
    memcpy(array, &items, sizeof items);
    *room = more;
    return true;
}

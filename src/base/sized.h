/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of the public headers that begin with `size_t size`: how they cross the boundary between a program and a
 * library of different versions. The rule for callers is in contrail/contrail.h. The functions at the boundary copy
 * such a struct once, and everything inside works with complete ones. Freestanding: nothing is called. */
#ifndef CT_BASE_SIZED_H
#define CT_BASE_SIZED_H

#include <contrail/status.h>
#include <stdbool.h>
#include <stddef.h>

/* No struct is larger in any version. A size that was never set is mostly larger, and must not be followed. */
#define CT_SIZED_MAX 16384

static inline bool ct_sized_is_valid(const void *callers) {
    size_t size = callers ? *(const size_t *)callers : 0;
    return size >= sizeof size && size <= CT_SIZED_MAX;
}

/* Copies the struct of a caller into ours of `size` bytes. Fields that the caller does not have are 0; NULL: all of
 * them. CT_ERR_INVALID_ARGUMENT: its size was not set; CT_ERR_UNKNOWN_FIELD: it sets a field that ours does not
 * have. */
static inline int ct_sized_copy_in(void *ours, size_t size, const void *callers) {
    if (callers && !ct_sized_is_valid(callers))
        return CT_ERR_INVALID_ARGUMENT;
    unsigned char *to = (unsigned char *)ours;
    const unsigned char *from = (const unsigned char *)callers;
    size_t given = callers ? *(const size_t *)callers : 0;
    for (size_t i = size; i < given; i++)
        if (from[i])
            return CT_ERR_UNKNOWN_FIELD;
    size_t common = given < size ? given : size;
    for (size_t i = 0; i < common; i++)
        to[i] = from[i];
    for (size_t i = common; i < size; i++)
        to[i] = 0;
    *(size_t *)ours = size;
    return 0;
}

/* Copies ours of `size` bytes into the struct of a caller, as far as its size goes, which stays as it is. Fields that
 * we do not have become 0. CT_ERR_INVALID_ARGUMENT: the size was not set, or there is no struct. */
static inline int ct_sized_copy_out(void *callers, const void *ours, size_t size) {
    if (!ct_sized_is_valid(callers))
        return CT_ERR_INVALID_ARGUMENT;
    unsigned char *to = (unsigned char *)callers;
    const unsigned char *from = (const unsigned char *)ours;
    size_t room = *(const size_t *)callers, common = room < size ? room : size;
    for (size_t i = sizeof size; i < common; i++)
        to[i] = from[i];
    for (size_t i = common; i < room; i++)
        to[i] = 0;
    return 0;
}

#endif

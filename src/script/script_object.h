/* SPDX-License-Identifier: Apache-2.0 */
/* Relocations of an object file, per machine (script_object_<isa>.c). */
#ifndef CT_SCRIPT_SCRIPT_OBJECT_H
#define CT_SCRIPT_SCRIPT_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#define CT_OBJECT_JUMP 16u /* bytes of a jump to anywhere */

/* What goes to `address`. Offsets count from its beginning. */
struct ct_object_image {
    uint8_t *bytes;
    uint64_t address, size;
    uint64_t jumps, words; /* where they begin */
    uint32_t jump_count, word_count;
    uint32_t *jump_of, *word_of; /* by symbol: number from 1; 0: none so far */
};

struct ct_object_fix {
    uint32_t type;
    uint64_t at, end; /* offsets; `end` of its section */
    size_t symbol;
    uint64_t value;
    int64_t addend;
};

/* CT_ERR_UNSUPPORTED, CT_ERR_OUT_OF_RANGE */
int ct_object_fix(struct ct_object_image *image, const struct ct_object_fix *fix);

#endif

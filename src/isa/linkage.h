/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of linkage tables (.plt) of this machine. */
#ifndef CT_ISA_LINKAGE_H
#define CT_ISA_LINKAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The word that the entry at `address` jumps through. 0: it is none. */
uint64_t ct_linkage_word(const uint8_t *code, size_t size, uint64_t address);
/* Is this where that word leads before it is bound? */
bool ct_linkage_is_unbound(const uint8_t *code, size_t size);

#endif

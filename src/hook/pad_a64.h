/* SPDX-License-Identifier: Apache-2.0 */
/* How functions begin on arm64: with a landing pad, which stays where it is. No state. */
#ifndef CT_HOOK_PAD_A64_H
#define CT_HOOK_PAD_A64_H

#include "hook/scan.h"
#include "isa/a64/decode.h"

enum {
    CT_PACIASP = 0xd503233fu,
    CT_PACIBSP = 0xd503237fu,
    CT_AUTIASP = 0xd50323bfu,
    CT_AUTIBSP = 0xd50323ffu,
};

static inline uint32_t ct_pad_word(const struct ct_scan *s, uint64_t at) {
    return ct_a64_word(ct_scan_bytes(s, at));
}

static inline bool ct_pad_signs(uint32_t word) {
    return word == CT_PACIASP || word == CT_PACIBSP;
}

/* bti, bti c, bti j, bti jc; the two that sign are pads too. */
static inline bool ct_pad_is(uint32_t word) {
    return (word & 0xffffff3fu) == 0xd503241fu || ct_pad_signs(word);
}

/* The first instruction after the pad. */
static inline uint64_t ct_pad_place(const struct ct_scan *s, uint64_t function, uint64_t end) {
    return function + 4 <= end && ct_pad_is(ct_pad_word(s, function)) ? function + 4 : function;
}

#endif

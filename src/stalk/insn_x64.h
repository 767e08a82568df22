/* SPDX-License-Identifier: Apache-2.0 */
/* An instruction of x86_64 that is translated. */
#ifndef CT_STALK_INSN_X64_H
#define CT_STALK_INSN_X64_H

#include "isa/x64/decode.h"

struct stalk_insn {
    uint64_t address;
    const uint8_t *bytes;
    struct ct_x64_insn x64;
};

static inline uint8_t ct_insn_length(const struct stalk_insn *insn) {
    return insn->x64.length;
}

static inline enum ct_insn_kind ct_insn_kind(const struct stalk_insn *insn) {
    return insn->x64.kind;
}

/* Of a direct branch. */
static inline uint64_t ct_insn_target(const struct stalk_insn *insn) {
    return ct_x64_target(&insn->x64, insn->address);
}

#endif

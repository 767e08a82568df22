/* SPDX-License-Identifier: Apache-2.0 */
/* An instruction of arm64 that is translated. */
#ifndef CT_STALK_INSN_A64_H
#define CT_STALK_INSN_A64_H

#include "isa/a64/decode.h"

struct stalk_insn {
    uint64_t address;
    const uint8_t *bytes;
    struct ct_a64_insn a64;
    bool unknown; /* to the decoder; it is not a branch */
};

static inline uint8_t ct_insn_length(const struct stalk_insn *insn) {
    (void)insn;
    return 4;
}

static inline enum ct_insn_kind ct_insn_kind(const struct stalk_insn *insn) {
    return insn->a64.kind;
}

static inline uint64_t ct_insn_target(const struct stalk_insn *insn) {
    return ct_a64_target(&insn->a64, insn->address);
}

#endif

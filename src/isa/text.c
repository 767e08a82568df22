/* SPDX-License-Identifier: Apache-2.0 */
/* See isa/text.h. */
#include "isa/text.h"

#include "isa/a64/text.h"

bool ct_insn_has_text(const struct ct_machine *machine) {
    return machine == &ct_machine_a64;
}

size_t ct_insn_text(const struct ct_machine *machine, const uint8_t *bytes, size_t size, uint64_t address,
                    char text[CT_INSN_TEXT_MAX]) {
    struct ct_a64_insn insn;
    if (!ct_insn_has_text(machine) || size < CT_A64_LENGTH || ct_a64_decode(ct_a64_word(bytes), &insn))
        return 0;
    ct_a64_text(&insn, address, text, CT_INSN_TEXT_MAX);
    return CT_A64_LENGTH;
}

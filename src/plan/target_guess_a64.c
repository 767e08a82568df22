/* SPDX-License-Identifier: Apache-2.0 */
/* arm64 programs are not recorded yet, so nothing is guessed in them: see target_guess.h. */
#include "plan/target_guess.h"

bool ct_guess_decode(const uint8_t *bytes, size_t size, uint64_t address, struct ct_guess_insn *out) {
    (void)bytes, (void)size, (void)address, (void)out;
    return false;
}

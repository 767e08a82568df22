/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions that compute with floating-point numbers, x86_64. Private to scan_x64.c. */
#ifndef CT_HOOK_SCAN_REALS_X64_H
#define CT_HOOK_SCAN_REALS_X64_H

#include "isa/x64/decode.h"

/* Does the instruction work on floating-point numbers in vector registers? Instructions that only copy or clear memory
 * do not count: integer code has them too. */
bool ct_scan_is_real(const struct ct_x64_insn *insn);
/* Does the instruction make the register of floating-point results 0? */
bool ct_scan_clears_result(const struct ct_x64_insn *insn);

#endif

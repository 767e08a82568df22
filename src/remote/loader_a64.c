/* SPDX-License-Identifier: Apache-2.0 */
/* arm64 code of loader.c. */
#include "remote/loader.h"

#include <string.h>

/* Not written yet: no function is taken for the loader's notification. */
bool ct_loader_patch(const uint8_t original[CT_LOADER_PATCH], uint8_t patch[CT_LOADER_PATCH]) {
    (void)original, (void)patch;
    return false;
}

void ct_loader_jump(uint64_t to, uint8_t code[CT_LOADER_JUMP]) {
    static const uint32_t jump[4] = {0x52801588, 0xd4000001, 0x58000050,
                                     0xd61f0200}; /* getpid(); ldr x16, to; br x16 */
    memcpy(code, jump, sizeof jump);
    memcpy(code + sizeof jump, &to, sizeof to);
}

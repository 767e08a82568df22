/* SPDX-License-Identifier: Apache-2.0 */
/* bti c; ldr w17, NUMBER; ldr x16, address; br x16; NUMBER; address. It begins with a landing pad for indirect
 * calls. */
#include "script/script_thunk.h"
#include <string.h>

void ct_script_write_thunk(uint8_t bytes[CT_SCRIPT_THUNK], uint32_t number, uint64_t entry) {
    static const uint32_t code[] = {0xd503245f, 0x18000071, 0x58000090, 0xd61f0200};
    memset(bytes, 0, CT_SCRIPT_THUNK);
    memcpy(bytes, code, sizeof code);
    memcpy(bytes + 16, &number, sizeof number);
    memcpy(bytes + 24, &entry, sizeof entry);
}

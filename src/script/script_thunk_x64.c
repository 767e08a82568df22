/* SPDX-License-Identifier: Apache-2.0 */
/* push NUMBER; jmp *[rip]; address. It begins with a landing pad for indirect calls. */
#include "script/script_thunk.h"
#include <string.h>

void ct_script_write_thunk(uint8_t bytes[CT_SCRIPT_THUNK], uint32_t number, uint64_t entry) {
    static const uint8_t code[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x68, 0, 0, 0, 0, 0xff, 0x25, 0, 0, 0, 0};
    memset(bytes, 0xcc, CT_SCRIPT_THUNK);
    memcpy(bytes, code, sizeof code);
    memcpy(bytes + 5, &number, sizeof number);
    memcpy(bytes + sizeof code, &entry, sizeof entry);
}

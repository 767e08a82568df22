/* SPDX-License-Identifier: Apache-2.0 */
/* What a stub looks like on x86_64. See stub.h. No state. */
#include "hook/stub.h"

static bool is_branch(uint8_t opcode) {
    return opcode == 0xe8 || opcode == 0xe9;
}

bool ct_stub_is_at(ct_stub_read *read, void *arg, uint64_t stub) {
    uint8_t b[CT_STUB_BODY];
    if ((stub & 7) || !read(arg, stub, b, sizeof b))
        return false;
    bool enters = is_branch(b[0]) && b[5] == 0x0f && b[6] == 0x1f && b[7] == 0;
    const uint8_t *call = b + CT_STUB_CALL_BODY;
    bool goes_on = is_branch(call[0]) && call[1] == CT_STUB_BODY - CT_STUB_RESUME && !call[2] && !call[3] && !call[4];
    return enters && goes_on && b[CT_STUB_RESUME] == 0xe9;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What a stub looks like on arm64. See stub.h. No state. */
#include "hook/stub.h"

enum { ADR_ID = 0x10fffff0u, BODY_WORDS = (CT_STUB_BODY - CT_STUB_CALL_BODY) / 4 };

/* b or bl */
static bool is_branch(uint32_t word) {
    return (word & 0x7c000000u) == 0x14000000u;
}

bool ct_stub_is_at(ct_stub_read *read, void *arg, uint64_t stub) {
    uint32_t w[CT_STUB_MOVES / 4];
    if ((stub & 7) || !read(arg, stub, w, sizeof w))
        return false;
    bool goes_on = is_branch(w[1]) && (w[1] & 0x03ffffffu) == BODY_WORDS;
    return is_branch(w[0]) && goes_on && w[2] == ADR_ID && (w[3] & 0xfc000000u) == 0x14000000u;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of signal handlers on x86_64: the restorer's address, then a ucontext (flags, link, stack, registers). */
#include "remote/remote_internal.h"
#include <string.h>

#define FRAME_RSP      (8 + 40 + 15 * 8)
#define FRAME_RIP      (8 + 40 + 16 * 8)
#define FRAME_SEGMENTS (8 + 40 + 18 * 8)
#define USER_SEGMENTS  0x002b000000000033ull /* cs and ss of 64-bit programs; gs and fs are zero */

static uint64_t word_at(const uint8_t *bytes) {
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* mov $15, %rax or %eax; syscall: rt_sigreturn */
static bool is_restorer(struct ct_remote *remote, uint64_t address) {
    static const uint8_t wide[9] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    static const uint8_t narrow[7] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
    uint8_t code[sizeof wide];
    if (ct_remote_read(remote, address, code, sizeof code))
        return false;
    return !memcmp(code, wide, sizeof wide) || !memcmp(code, narrow, sizeof narrow);
}

bool ct_remote_next_frame(struct ct_remote *remote, const uint8_t *bytes, size_t size,
                          struct ct_remote_frame_at *found) {
    for (size_t at = found->next; size >= FRAME_SEGMENTS + 8 && at <= size - (FRAME_SEGMENTS + 8); at += 8)
        if (word_at(bytes + at + FRAME_SEGMENTS) == USER_SEGMENTS && is_restorer(remote, word_at(bytes + at))) {
            *found = (struct ct_remote_frame_at){.pc = at + FRAME_RIP, .sp = at + FRAME_RSP, .next = at + 8};
            return true;
        }
    return false;
}

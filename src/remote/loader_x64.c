/* SPDX-License-Identifier: Apache-2.0 */
/* x86_64 code of loader.c. */
#include "remote/loader.h"

#include <string.h>

#define CALL_GETPID "\xb8\x27\x00\x00\x00\x0f\x05" /* mov $39,%eax; syscall */

bool ct_loader_patch(const uint8_t original[CT_LOADER_PATCH], uint64_t notify, uint64_t far,
                     uint8_t patch[CT_LOADER_PATCH]) {
    (void)notify, (void)far;
    static const uint8_t endbr[4] = {0xf3, 0x0f, 0x1e, 0xfa};
    const uint8_t *at = original;
    if (memcmp(at, endbr, sizeof endbr) == 0)
        at += sizeof endbr;
    if (*at++ != 0xc3)
        return false;
    /* the padding after it begins with one of the forms that assemblers use */
    if (*at != 0x90 && *at != 0x0f && *at != 0x66 && *at != 0x2e && *at != 0xcc && *at != 0)
        return false;
    memcpy(patch, CALL_GETPID "\xc3", CT_LOADER_PATCH);
    return true;
}

void ct_loader_far(uint8_t code[CT_LOADER_JUMP]) {
    (void)code; /* the room in the function is enough */
}

/* Only registers change that nobody expects to be kept. */
void ct_loader_restore(uint64_t code, struct ct_registers *regs) {
    (void)code, (void)regs;
}

void ct_loader_jump(uint64_t to, uint8_t code[CT_LOADER_JUMP]) {
    static const uint8_t jump[6] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *0(%rip) */
    memset(code, 0, CT_LOADER_JUMP);
    memcpy(code, CALL_GETPID, CT_LOADER_MARK);
    memcpy(code + CT_LOADER_MARK, jump, sizeof jump);
    memcpy(code + CT_LOADER_MARK + sizeof jump, &to, sizeof to);
}

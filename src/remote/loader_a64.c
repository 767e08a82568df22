/* SPDX-License-Identifier: Apache-2.0 */
/* arm64 code of loader.c. The loader's function is a single `ret`, with the next function right after it: it becomes a
 * branch to code elsewhere. That code keeps x0 and x8, because compilers may know that the function changes nothing,
 * and because a loader passes an argument to the entry point. */
#include "remote/loader.h"
#include "os/linux/registers_a64.h"

#include <string.h>

#define RET   UINT32_C(0xd65f03c0)
#define B     UINT32_C(0x14000000)
#define REACH (INT64_C(1) << 27)

enum { SAVED = 8 /* bytes of code after which x16 and x17 hold x0 and x8 */, WORDS = 6 };

static const uint32_t call[WORDS] = {
    0xaa0003f0, 0xaa0803f1, /* mov x16, x0; mov x17, x8 */
    0xd2801588, 0xd4000001, /* getpid() */
    0xaa1003e0, 0xaa1103e8, /* mov x0, x16; mov x8, x17 */
};

bool ct_loader_patch(const uint8_t original[CT_LOADER_PATCH], uint64_t notify, uint64_t far,
                     uint8_t patch[CT_LOADER_PATCH]) {
    int64_t distance = (int64_t)(far - notify);
    uint32_t word;
    memcpy(&word, original, sizeof word);
    if (word != RET || distance < -REACH || distance >= REACH)
        return false;
    word = B | ((uint32_t)(distance >> 2) & 0x3ffffff);
    memcpy(patch, &word, sizeof word);
    return true;
}

void ct_loader_far(uint8_t code[CT_LOADER_JUMP]) {
    const uint32_t ret = RET;
    memcpy(code, call, sizeof call);
    memcpy(code + sizeof call, &ret, sizeof ret);
}

void ct_loader_jump(uint64_t to, uint8_t code[CT_LOADER_JUMP]) {
    static const uint32_t jump[2] = {0x58000050, 0xd61f0200}; /* ldr x16, to; br x16 */
    memcpy(code, call, sizeof call);
    memcpy(code + sizeof call, jump, sizeof jump);
    memcpy(code + sizeof call + sizeof jump, &to, sizeof to);
}

void ct_loader_restore(uint64_t code, struct ct_registers *regs) {
    struct ct_registers_a64 *a = ct_registers_as_a64(regs);
    if (a->pc - code < SAVED || a->pc - code > sizeof call)
        return;
    a->x[0] = a->x[16];
    a->x[8] = a->x[17];
}

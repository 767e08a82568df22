/* SPDX-License-Identifier: Apache-2.0 */
/* Callers that know what their callee leaves alone (-fipa-ra, hand-written assembly): every general register, every
 * flag, every vector, mask and x87 register must come through a hook as it would without, in both directions; and a
 * caller's stack may be misaligned.
 *
 * An engine can go wrong here by using a register as scratch, by arithmetic in the stub that changes flags, by popping
 * flags too early, and by aligned stores on an unaligned stack. */
#include "harness.h"
#include <string.h>

struct state {
    uint64_t gpr[16];
    uint64_t flags;
    uint64_t unused[7];
    uint8_t vector[32][64];
    uint64_t mask[8];
    uint8_t x87[4][16];
};

extern int state_level;
void call_with_state(void (*callee)(void), const struct state *in, struct state *out, long misalign);
void touch_nothing(void);
void touch_nothing_twice(void);
void set_carry(void);
void clear_carry(void);
void set_flags(void);
uint64_t add_carry(uint64_t);
uint64_t read_flags(void);
int jump_on_carry(void);
long chained_carry(long);

#define ARITHMETIC_FLAGS 0x8d5 /* OF SF ZF AF PF CF */
#define ALWAYS_ON        0x202

static const char *const names[16] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                      "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};

static void fill(struct state *s, uint64_t seed) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    memset(s, 0, sizeof *s);
    for (int i = 0; i < 16; i++)
        s->gpr[i] = x = x * 6364136223846793005u + 1442695040888963407u;
    for (int i = 0; i < 32; i++)
        for (int k = 0; k < 64; k++)
            s->vector[i][k] = (uint8_t)((x = x * 6364136223846793005u + 1) >> 56);
    for (int i = 0; i < 8; i++)
        s->mask[i] = (x = x * 6364136223846793005u + 1) >> 48;
    for (int i = 0; i < 4; i++) {
        long double value = (long double)(i + 1) / 3;
        memcpy(s->x87[i], &value, 10);
    }
    s->gpr[4] = 0;
    s->flags = ALWAYS_ON | ((x >> 20) & ARITHMETIC_FLAGS);
}

static void compare(const struct state *in, const struct state *out, const char *what) {
    for (int i = 0; i < 16; i++)
        if (in->gpr[i] != out->gpr[i])
            e2e_fail(__FILE__, __LINE__, "%s: %s was %#lx and became %#lx", what, names[i], (unsigned long)in->gpr[i],
                     (unsigned long)out->gpr[i]);
    if ((in->flags & (ARITHMETIC_FLAGS | 0x400)) != (out->flags & (ARITHMETIC_FLAGS | 0x400)))
        e2e_fail(__FILE__, __LINE__, "%s: flags were %#lx and became %#lx", what, (unsigned long)in->flags,
                 (unsigned long)out->flags);
    static const int sizes[] = {16, 32, 64};
    for (int i = 0; i < (state_level == 2 ? 32 : 16); i++)
        if (memcmp(in->vector[i], out->vector[i], (size_t)sizes[state_level]) != 0)
            e2e_fail(__FILE__, __LINE__, "%s: vector register %d changed", what, i);
    for (int i = 0; i < (state_level == 2 ? 8 : 0); i++)
        if (in->mask[i] != out->mask[i])
            e2e_fail(__FILE__, __LINE__, "%s: mask register %d changed", what, i);
    for (int i = 0; i < 4; i++)
        if (memcmp(in->x87[i], out->x87[i], 10) != 0)
            e2e_fail(__FILE__, __LINE__, "%s: x87 register %d changed", what, i);
}

static void check_preserved(void) {
    struct state in, out;
    for (uint64_t seed = 0; seed < 64; seed++) {
        fill(&in, seed);
        memset(&out, 0, sizeof out);
        call_with_state(touch_nothing, &in, &out, 0);
        compare(&in, &out, "touch_nothing");
    }
    fill(&in, 1000);
    call_with_state(touch_nothing_twice, &in, &out, 0);
    compare(&in, &out, "touch_nothing_twice");
    E2E_EXPECT("touch_nothing()*64 touch_nothing_twice(touch_nothing()*2)");

    fill(&in, 2000);
    for (long misalign = 0; misalign < 16; misalign++) /* aligned to one byte only: allowed by the CPU */
        call_with_state(touch_nothing, &in, &out, misalign);
    compare(&in, &out, "touch_nothing on an unaligned stack");
    E2E_EXPECT("touch_nothing()*16");
}

static void check_flags(void) {
    struct state in, out = {0};
    for (uint64_t i = 0; i < 64; i++) {
        uint64_t flags = (i & 1) | (i & 2) << 1 | (i & 4) << 2 | (i & 8) << 3 | (i & 16) << 3 | (i & 32) << 6;
        fill(&in, i);
        in.gpr[7] = ALWAYS_ON | flags;
        in.flags = ALWAYS_ON | (~flags & ARITHMETIC_FLAGS);
        call_with_state(set_flags, &in, &out, 0); /* flags out */
        in.flags = ALWAYS_ON | flags;
        compare(&in, &out, "set_flags");
        call_with_state((void (*)(void))read_flags, &in, &out, 0); /* flags in */
        E2E_EQUAL(out.gpr[0] & ARITHMETIC_FLAGS, flags);
        out.gpr[0] = in.gpr[0];
        compare(&in, &out, "read_flags");
    }
    E2E_EQUAL(e2e_plain() ? 256 : e2e_summarize(0).calls * 2, 256);
    e2e_forget();
    E2E_EQUAL(jump_on_carry(), 3);
    E2E_EXPECT("jump_on_carry(set_carry() clear_carry())");
    E2E_EQUAL(chained_carry(40), 42);
    E2E_EXPECT("chained_carry(add_carry()*3)");
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    state_level = __builtin_cpu_supports("avx512f") ? 2 : __builtin_cpu_supports("avx") ? 1 : 0;
    E2E_RECORD(touch_nothing);
    E2E_RECORD(touch_nothing_twice);
    E2E_RECORD(set_carry);
    E2E_RECORD(clear_carry);
    E2E_RECORD(set_flags);
    E2E_RECORD(add_carry);
    E2E_RECORD(read_flags);
    E2E_RECORD(jump_on_carry);
    E2E_RECORD(chained_carry);
    check_preserved();
    check_flags();
    return e2e_end();
}

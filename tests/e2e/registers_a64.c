/* SPDX-License-Identifier: Apache-2.0 */
/* registers.c for arm64: every general register but x16, x17 and x30, every flag and every vector register comes
 * through a hook as it would without, in both directions: gcc's -fipa-ra and hand-written assembly count on it. */
#include "harness.h"
#include <string.h>

enum { GENERAL = 31, VECTORS = 32, NZCV = 0xf, NZCV_SHIFT = 28 };

struct state {
    uint64_t gpr[GENERAL];
    uint64_t nzcv;
    uint8_t vector[VECTORS][16];
};

void call_with_state(void (*callee)(void), const struct state *in, struct state *out);
void touch_nothing(void);
void touch_nothing_twice(void);
void set_carry(void);
void clear_carry(void);
void set_flags(void);
uint64_t add_carry(uint64_t);
uint64_t read_flags(void);
int jump_on_carry(void);
long chained_carry(long);

static void fill(struct state *s, uint64_t seed) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < GENERAL; i++)
        s->gpr[i] = x = x * 6364136223846793005u + 1442695040888963407u;
    for (int i = 0; i < VECTORS; i++)
        for (int k = 0; k < 16; k++)
            s->vector[i][k] = (uint8_t)((x = x * 6364136223846793005u + 1) >> 56);
    s->nzcv = (seed & NZCV) << NZCV_SHIFT;
}

static void compare(const struct state *in, const struct state *out, const char *what) {
    for (int i = 0; i < GENERAL; i++)
        if (in->gpr[i] != out->gpr[i] && i != 16 && i != 17 && i != 30)
            e2e_fail(__FILE__, __LINE__, "%s: x%d was %#lx and became %#lx", what, i, (unsigned long)in->gpr[i],
                     (unsigned long)out->gpr[i]);
    if (in->nzcv != out->nzcv)
        e2e_fail(__FILE__, __LINE__, "%s: flags were %#lx and became %#lx", what, (unsigned long)in->nzcv,
                 (unsigned long)out->nzcv);
    for (int i = 0; i < VECTORS; i++)
        if (memcmp(in->vector[i], out->vector[i], 16) != 0)
            e2e_fail(__FILE__, __LINE__, "%s: vector register %d changed", what, i);
}

static void check_preserved(void) {
    struct state in, out;
    for (uint64_t seed = 0; seed < 64; seed++) {
        fill(&in, seed);
        memset(&out, 0, sizeof out);
        call_with_state(touch_nothing, &in, &out);
        compare(&in, &out, "touch_nothing");
    }
    fill(&in, 1000);
    call_with_state(touch_nothing_twice, &in, &out);
    compare(&in, &out, "touch_nothing_twice");
    E2E_EXPECT("touch_nothing()*64 touch_nothing_twice(touch_nothing()*2)");
}

static void check_flags(void) {
    struct state in, out = {0};
    for (uint64_t flags = 0; flags <= NZCV; flags++) {
        fill(&in, ~flags);
        in.gpr[0] = flags << NZCV_SHIFT;
        call_with_state(set_flags, &in, &out); /* flags out */
        in.nzcv = flags << NZCV_SHIFT;
        compare(&in, &out, "set_flags");
        call_with_state((void (*)(void))(void *)read_flags, &in, &out); /* flags in */
        E2E_EQUAL(out.gpr[0], flags << NZCV_SHIFT);
        out.gpr[0] = in.gpr[0];
        compare(&in, &out, "read_flags");
    }
    E2E_EXPECT("set_flags() read_flags() set_flags() read_flags() set_flags() read_flags() set_flags() read_flags() "
               "set_flags() read_flags() set_flags() read_flags() set_flags() read_flags() set_flags() read_flags() "
               "set_flags() read_flags() set_flags() read_flags() set_flags() read_flags() set_flags() read_flags() "
               "set_flags() read_flags() set_flags() read_flags() set_flags() read_flags() set_flags() read_flags()");
    E2E_EQUAL(jump_on_carry(), 3);
    E2E_EXPECT("jump_on_carry(set_carry() clear_carry())");
    E2E_EQUAL(chained_carry(40), 42);
    E2E_EXPECT("chained_carry(add_carry()*3)");
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
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

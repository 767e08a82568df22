/* SPDX-License-Identifier: Apache-2.0 */
/* The A64 relocator: copies are run by a small machine that knows the instructions that copies consist of. What they do
 * must be what the original does. relocate_exec_a64 runs copies on a processor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "contrail/status.h"
#include "isa/a64/encode.h"
#include "isa/a64/relocate.h"

#define FROM 0x500000000000ull
#define NEXT (FROM + 4)

struct machine {
    uint64_t x[32], pc; /* 31 is sp */
    bool z;             /* the flag; the test uses eq and ne only */
    uint64_t saved, loaded;
    uint32_t load; /* the instruction that loaded */
};

static int64_t field(uint32_t word, unsigned shift, unsigned bits) {
    return (int64_t)((uint64_t)word << (64 - bits - shift)) >> (64 - bits);
}

static void branch(struct machine *m, bool taken, int64_t words) {
    m->pc += taken ? (uint64_t)words * 4 : 4;
}

static bool run_branch(struct machine *m, uint32_t w) {
    unsigned reg = w & 31, bit = (w >> 19 & 31) | (w >> 31) << 5;
    if (w >> 26 == 5)
        branch(m, true, field(w, 0, 26));
    else if ((w & 0xff00000e) == 0x54000000) /* b.eq, b.ne, bc.eq, bc.ne */
        branch(m, m->z != (w & 1), field(w, 5, 19));
    else if (w >> 25 == 0x5a) /* cbz x, cbnz x */
        branch(m, (m->x[reg] == 0) != (w >> 24 & 1), field(w, 5, 19));
    else if ((w & 0x7e000000) == 0x36000000)
        branch(m, (m->x[reg] >> bit & 1) == (w >> 24 & 1), field(w, 5, 14));
    else if ((w & 0xffbffc1f) == 0xd61f0000 && (w >> 21 & 3) != 1) /* br, ret */
        m->pc = m->x[w >> 5 & 31];
    else
        return false;
    return true;
}

static bool run_value(struct machine *m, uint32_t w) {
    unsigned rd = w & 31, rn = w >> 5 & 31, shift = (w >> 21 & 3) * 16;
    uint64_t imm = w >> 5 & 0xffff, page = m->pc & ~0xfffull;
    int64_t adr = field(w, 5, 19) * 4 + (w >> 29 & 3);
    if ((w & 0x9f000000) == 0x10000000)
        m->x[rd] = m->pc + (uint64_t)adr;
    else if ((w & 0x9f000000) == 0x90000000)
        m->x[rd] = page + (uint64_t)adr * 4096;
    else if ((w & 0xffc00000) == 0x91000000)
        m->x[rd] = m->x[rn] + (w >> 10 & 0xfff);
    else if (w >> 23 == 0x1a5)
        m->x[rd] = imm << shift;
    else if (w >> 23 == 0x125)
        m->x[rd] = ~(imm << shift);
    else if (w >> 23 == 0x1e5)
        m->x[rd] = (m->x[rd] & ~(0xffffull << shift)) | imm << shift;
    else if ((w & 0xffe0ffe0) == 0xaa0003e0)
        m->x[rd] = m->x[w >> 16 & 31];
    else
        return false;
    return true;
}

static bool run_memory(struct machine *m, uint32_t w) {
    unsigned rt = w & 31;
    if ((w & 0xffffffe0) == 0xf81f0fe0) {
        m->saved = m->x[rt];
        m->x[31] -= 16;
    } else if ((w & 0xffffffe0) == 0xf84107e0) {
        m->x[rt] = m->saved;
        m->x[31] += 16;
    } else if ((w & 0x3b000000) == 0x18000000 || (w & 0x3b3ffc00) == 0x39000000) {
        m->loaded = (w & 0x3b000000) == 0x18000000 ? m->pc + (uint64_t)(field(w, 5, 19) * 4) : m->x[w >> 5 & 31];
        m->load = w;
    } else {
        return w == CT_A64_NOP;
    }
    return true;
}

/* Runs the copy until it leaves its buffer. */
static void run(const struct ct_code_buf *out, struct machine *m) {
    for (unsigned steps = 0; m->pc - out->address < out->length; steps++) {
        uint32_t w = ct_a64_word(out->bytes + (m->pc - out->address));
        if (run_branch(m, w))
            continue;
        if (steps > 100 || !(run_value(m, w) || run_memory(m, w)))
            fail_msg("%08x is in a copy", w);
        m->pc += 4;
    }
}

static const uint64_t places[] = {FROM + 0x100, FROM - 0x7f0000, FROM + 0x7000000, FROM - 0x70000000, 0x400000};

struct copy {
    uint8_t bytes[64];
    struct ct_code_buf out;
    struct machine m;
};

static int move(struct copy *c, uint32_t word, uint64_t to, unsigned scratch) {
    struct ct_a64_insn insn;
    assert_int_equal(ct_a64_decode(word, &insn), 0);
    *c = (struct copy){.out = {.capacity = CT_A64_RELOCATED_MAX, .address = to}, .m = {.pc = to}};
    c->out.bytes = c->bytes;
    for (unsigned i = 0; i < 32; i++)
        c->m.x[i] = 0x1111111100000000ull * (i & 1) + i * 0x100ull;
    return ct_a64_relocate(&c->out, &insn, FROM, scratch);
}

/* All registers but those of the mask are what they were. */
static void expect_kept(const struct copy *c, uint32_t changed) {
    for (unsigned i = 0; i < 32; i++)
        if (!(changed >> i & 1) && c->m.x[i] != 0x1111111100000000ull * (i & 1) + i * 0x100ull)
            fail_msg("x%u changed", i);
}

static void test_addresses(void **state) {
    (void)state;
    struct copy c;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(move(&c, 0x10000025, places[i], CT_A64_NO_SCRATCH), 0); /* adr x5, .+4 */
        run(&c.out, &c.m);
        assert_int_equal(c.m.x[5], NEXT);
        expect_kept(&c, 1 << 5);
        assert_int_equal(move(&c, 0xf0fffff1, places[i], CT_A64_NO_SCRATCH), 0); /* adrp x17, .-4096 */
        run(&c.out, &c.m);
        assert_int_equal(c.m.x[17], FROM - 4096);
        expect_kept(&c, 1 << 17);
        assert_int_equal(c.m.pc, places[i] + c.out.length);
        assert_int_equal(move(&c, 0x1000003f, places[i], CT_A64_NO_SCRATCH), 0); /* adr xzr */
        run(&c.out, &c.m);
        expect_kept(&c, 0);
    }
}

static void test_literals(void **state) {
    (void)state;
    static const uint32_t words[] = {0x18000085, 0x58000085, 0x98000085, 0xd8000085,
                                     0x1c000085, 0x5c000085, 0x9c000085, 0x5800009f};
    struct copy c;
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        for (size_t i = 0; i < 5; i++)
            for (unsigned scratch = 16; scratch < 32; scratch += 15) {
                assert_int_equal(move(&c, words[w], places[i], scratch), 0);
                run(&c.out, &c.m);
                assert_int_equal(c.m.loaded, FROM + 16);
                assert_int_equal(c.m.load & 0xc400001f, /* size and kind are those of the literal load */
                                 (words[w] & 0x0400001f) | (c.m.load & 0xc0000000));
                bool itself = w < 3;
                expect_kept(&c, itself ? 1 << 5 : scratch == 16 ? 1 << 16 : 0);
            }
}

static void test_branches(void **state) {
    (void)state;
    static const struct {
        uint32_t word;
        bool taken;
    } cases[] = {
        {0x14000020, true}, {0x54000400, true},  {0x54000401, false}, {0x54000410, true},  {0x5400040e, true},
        {0xb4000400, true}, {0xb5000400, false}, {0xb4000401, false}, {0xb5000401, true},  {0x36000401, true},
        {0x37400401, true}, {0x36400401, false}, {0xb7e00401, true},  {0x37000401, false},
    };
    struct copy c;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (size_t i = 0; i < 5; i++) {
            assert_int_equal(move(&c, cases[k].word, places[i], 17), 0);
            c.m.z = true;
            if (cases[k].word == 0x5400040e) { /* b.al: the machine knows eq and ne only */
                assert_true(c.out.length);
                continue;
            }
            run(&c.out, &c.m);
            if (c.m.pc != (cases[k].taken ? FROM + 0x80 : places[i] + c.out.length))
                fail_msg("%08x at %lx goes to %lx", cases[k].word, (long)places[i], (long)c.m.pc);
            expect_kept(&c, i > 2 ? 1 << 17 : 0);
            bool reaches = i <= 2;
            assert_int_equal(move(&c, cases[k].word, places[i], CT_A64_NO_SCRATCH), reaches ? 0 : CT_ERR_UNSUPPORTED);
            assert_int_equal(c.out.length != 0, reaches);
        }
}

static void test_calls(void **state) {
    (void)state;
    struct copy c;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(move(&c, 0x94000020, places[i], CT_A64_NO_SCRATCH), 0);
        run(&c.out, &c.m);
        assert_int_equal(c.m.pc, FROM + 0x80);
        assert_int_equal(c.m.x[30], NEXT);
        expect_kept(&c, 1u << 30 | 1 << 17);
        assert_int_equal(move(&c, 0xd63f0100, places[i], CT_A64_NO_SCRATCH), 0); /* blr x8 */
        run(&c.out, &c.m);
        assert_int_equal(c.m.pc, 0x800);
        assert_int_equal(c.m.x[30], NEXT);
        expect_kept(&c, 1u << 30);
        assert_int_equal(move(&c, 0xd63f03c0, places[i], CT_A64_NO_SCRATCH), 0); /* blr x30 */
        run(&c.out, &c.m);
        assert_int_equal(c.m.pc, 0x1e00);
        assert_int_equal(c.m.x[30], NEXT);
        expect_kept(&c, 1u << 30 | 1 << 17);
    }
    assert_int_equal(move(&c, 0xd73f0801, places[0], CT_A64_NO_SCRATCH), 0); /* blraa x0, x1: braa */
    assert_int_equal(ct_a64_word(c.bytes + c.out.length - 4), 0xd71f0801);
    assert_int_equal(move(&c, 0xd73f0bde, places[0], CT_A64_NO_SCRATCH), CT_ERR_UNSUPPORTED); /* blraa x30, x30 */
    assert_int_equal(move(&c, 0xd73f0bd1, places[0], CT_A64_NO_SCRATCH), CT_ERR_UNSUPPORTED); /* blraa x30, x17 */
}

static void test_copied(void **state) {
    (void)state;
    static const uint32_t words[] = {0xd503245f, 0xd503233f, 0xa9bf7bfd, 0xd65f03c0, 0xd61f0200, 0xd4000001,
                                     0xd65f0bff, 0xc85ffc01, 0xc802fc01, 0xd53bd040, 0xd4200000, 0x00000000};
    struct copy c;
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        assert_int_equal(move(&c, words[w], 0x400000, CT_A64_NO_SCRATCH), 0);
        assert_int_equal(c.out.length, 4);
        assert_int_equal(ct_a64_word(c.bytes), words[w]);
    }
}

static void test_space(void **state) {
    (void)state;
    struct ct_a64_insn insn;
    uint8_t bytes[CT_A64_RELOCATED_MAX];
    ct_a64_decode(0x94000020, &insn);
    for (size_t capacity = 0; capacity < 36; capacity += 4) {
        struct ct_code_buf out = {.bytes = bytes, .capacity = capacity, .address = 0x123456789000};
        int rc = ct_a64_relocate(&out, &insn, FROM + 0x123456780000, CT_A64_NO_SCRATCH);
        assert_int_equal(rc, capacity >= out.length && out.length ? 0 : CT_ERR_NO_SPACE);
    }
}

static void put_words(uint8_t *bytes, const uint32_t *words, size_t count) {
    for (size_t i = 0; i < 4 * count; i++)
        bytes[i] = (uint8_t)(words[i / 4] >> (8 * (i % 4)));
}

static void test_range(void **state) {
    (void)state;
    uint8_t code[12], copy[64];
    struct ct_a64_moved moved;
    put_words(code, (uint32_t[]){0x10000025, 0xb4ffffe0, 0xd503201f}, 3); /* adr x5; cbz x0, .-4; nop */
    struct ct_code_buf out = {.bytes = copy, .capacity = sizeof copy, .address = FROM + 0x7000000};
    assert_int_equal(ct_a64_relocate_range(&out, code, 3, FROM, CT_A64_NO_SCRATCH, &moved), 0);
    assert_int_equal(moved.count, 3);
    assert_int_equal(moved.to[0], 0);
    assert_int_equal(moved.to[1], 8);
    assert_int_equal(ct_a64_word(copy + 8), 0xb4ffffc0); /* to the copy of adr */
    struct machine m = {.pc = out.address, .x = {[0] = 1}};
    run(&out, &m);
    assert_int_equal(m.pc, FROM + 12);
    assert_int_equal(m.x[5], NEXT);
    put_words(code, (uint32_t[]){0x94000020, 0xd503201f}, 2); /* a call that is not last */
    out.length = 0;
    assert_int_equal(ct_a64_relocate_range(&out, code, 2, FROM, CT_A64_NO_SCRATCH, NULL), CT_ERR_UNSUPPORTED);
    assert_int_equal(out.length, 0);
    put_words(code, (uint32_t[]){0xffffffff}, 1);
    assert_int_equal(ct_a64_relocate_range(&out, code, 1, FROM, 17, NULL), CT_ERR_BAD_INSTRUCTION);
    assert_int_equal(ct_a64_relocate_range(&out, code, CT_A64_RANGE_MAX + 1, FROM, 17, NULL), CT_ERR_NO_SPACE);
    put_words(code, (uint32_t[]){0xd65f03c0}, 1); /* nothing is appended to ret */
    assert_int_equal(ct_a64_relocate_range(&out, code, 1, FROM, 17, &moved), 0);
    assert_int_equal(out.length, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses), cmocka_unit_test(test_literals), cmocka_unit_test(test_branches),
        cmocka_unit_test(test_calls),     cmocka_unit_test(test_copied),   cmocka_unit_test(test_space),
        cmocka_unit_test(test_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

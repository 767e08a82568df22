/* SPDX-License-Identifier: Apache-2.0 */
/* Code to plan hooks in, and an independent judge of the plans: everything is read back with Zydis.
 *
 * A subject is a piece of text at an address of its own, with functions that the test puts into it. Nothing of it
 * runs. */
#ifndef PLAN_CHECK_H
#define PLAN_CHECK_H

#include "hook/plan.h"

#define TEXT_SIZE    0x2000u
#define TEXT_BASE    0x7f0012340000ull
#define STUBS_BASE   (TEXT_BASE + 0x2000000)
#define STUBS_SIZE   0x40000u
#define SHARED_BASE  (TEXT_BASE - 0x1000000)
#define FIRST_NUMBER 0x01020300u
#define MAX_FUNCS    256u

/* Bytes that shapes are made of. CODE is a filler that is no padding: push rax. */
#define INT3  0xcc
#define NOP   0x90
#define RET   0xc3
#define CODE  0x50
#define ENDBR 0xf3, 0x0f, 0x1e, 0xfa

struct hooked {
    struct ct_plan_request request;
    struct ct_plan plan;
    size_t stub_size;
    bool planned;
};

struct subject {
    uint8_t original[TEXT_SIZE]; /* what the scan reads */
    uint8_t patched[TEXT_SIZE];
    struct ct_scan_func funcs[MAX_FUNCS];
    struct ct_scan scan;
    struct ct_shared_code shared;
    uint8_t stubs[STUBS_SIZE];
    size_t stubs_used;
    struct hooked hooks[MAX_FUNCS]; /* parallel to funcs */
};

/* Text full of `filler`, no functions. */
void subject_start(struct subject *s, uint8_t filler);
/* A function at an offset after all others; its index. */
size_t subject_add(struct subject *s, size_t offset, const uint8_t *code, size_t size);
#define ADD(s, offset, ...)                                                                                            \
    subject_add(s, offset, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))
/* n - 1 one-byte instructions and a return. */
size_t subject_add_sized(struct subject *s, size_t offset, size_t n);
void subject_scan(struct subject *s);
void subject_end(struct subject *s);

/* The request of a recorder for the function; the test may change it. */
struct ct_plan_request subject_request(struct subject *s, size_t index);
/* Plans and, when there is a plan, checks it by itself and applies it to `patched`. */
enum ct_hook_skip_reason subject_plan_as(struct subject *s, size_t index, const struct ct_plan_request *request);
enum ct_hook_skip_reason subject_plan(struct subject *s, size_t index);
/* Takes the patches back: what was under them must be as it was. */
void subject_revert(struct subject *s, size_t index);
/* Everything that must hold with all the plans in place. */
void subject_check(struct subject *s);

/* How the entry was patched: a 5-byte jump; a 2-byte jump to a springboard; two 5-byte jumps, the second for loops; a
 * 5-byte jump to a copy of the whole function. */
enum form { LONG, SHORT, TWO_JUMPS, WHOLE };
enum form subject_form(const struct subject *s, size_t index);
/* Plans, and checks everything; or expects that nothing has been taken. */
const struct ct_plan *expect_form(struct subject *s, size_t index, enum form form);
void expect_skip(struct subject *s, size_t index, enum ct_hook_skip_reason reason);

/* Bytes of patched text and stubs by their address. */
const uint8_t *subject_bytes(const struct subject *s, uint64_t address, size_t *available);
/* The first place that is no jump, landing pad or nop of the text, or is outside of it. */
uint64_t subject_follow(const struct subject *s, uint64_t address);
/* Is a springboard of another function in its bytes? Then it is not reverted. */
bool subject_has_guest(const struct subject *s, size_t index);
bool subject_is_taken(const struct subject *s, uint64_t from, uint64_t to);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Code that the Stalker's tests write or contain, arm64. See stalk_code_x64.h. */
#ifndef STALK_CODE_A64_H
#define STALK_CODE_A64_H

#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

static inline void put_words(uint8_t *at, const uint32_t *words, unsigned count) {
    memcpy(at, words, count * sizeof *words);
    __builtin___clear_cache((char *)at, (char *)at + count * sizeof *words);
}

enum { LEAF_SIZE = 12 };

/* movz w0, #; movk w0, #, lsl #16; ret */
static inline void put_leaf(uint8_t *at, int value) {
    uint32_t bits = (uint32_t)value;
    put_words(at, (const uint32_t[]){0x52800000 | (bits & 0xffff) << 5, 0x72a00000 | bits >> 16 << 5, 0xd65f03c0}, 3);
}

static inline void put_value(uint8_t *at) {
    put_words(at, (const uint32_t[]){0x52800000, 0xd65f03c0}, 2); /* movz w0, #; ret */
}
static inline void change_value(uint8_t *at, int value) {
    *(volatile uint32_t *)(void *)at = 0x52800000 | (uint32_t)value << 5;
}

enum { ADD_SIZE = 4, ZERO_SIZE = 4, RETURN_SIZE = 4 };
static inline void put_add(uint8_t *at) {
    put_words(at, (const uint32_t[]){0x91000c00}, 1); /* add x0, x0, #3 */
}
static inline void put_zero(uint8_t *at) {
    put_words(at, (const uint32_t[]){0xd2800000}, 1); /* mov x0, #0 */
}
static inline void put_return(uint8_t *at) {
    put_words(at, (const uint32_t[]){0xd65f03c0}, 1);
}

enum { TICKS_OF_100_US = 100, SAME_TIME = 1 << 20 }; /* it may tick once a microsecond */
static inline uint64_t counter(void) {
    uint64_t value;
    __asm__ volatile("isb\n mrs %0, cntvct_el0" : "=r"(value));
    return value;
}

#define SLEEP_HERE(time)                                                                                               \
    do {                                                                                                               \
        register long number __asm__("x8") = SYS_nanosleep;                                                            \
        register const void *how_long __asm__("x0") = (time);                                                          \
        register void *left __asm__("x1") = NULL;                                                                      \
        __asm__ volatile("svc #0" : "+r"(how_long) : "r"(number), "r"(left) : "memory");                               \
    } while (0)

#define RELAX() __asm__ volatile("yield")

#define COPY_HERE(to, from, count)                                                                                     \
    do {                                                                                                               \
        uint64_t word;                                                                                                 \
        __asm__ volatile("1: ldrb %w3, [%1], #1\n strb %w3, [%0], #1\n sub %2, %2, #1\n cbnz %2, 1b"                   \
                         : "+r"(to), "+r"(from), "+r"(count), "=&r"(word)::"memory");                                  \
    } while (0)

#define TAIL_JUMP(name, target)                                                                                        \
    __asm__(".text\n"                                                                                                  \
            ".type " #name ", @function\n" #name ": adrp x16, " #target "\n ldr x16, [x16, :lo12:" #target             \
            "]\n br x16\n")

enum { CARRIES_ROUND = 8, CARRIES_REST = 2 };
#define CARRIES                                                                                                        \
    "  mov x2, #0\n"                                                                                                   \
    "1: mov x3, #-3\n"                                                                                                 \
    "  adds x2, x2, x3\n"                                                                                              \
    "  ldr x4, [x1]\n"                                                                                                 \
    "  adc x4, x4, xzr\n"                                                                                              \
    "  str x4, [x1]\n"                                                                                                 \
    "  add x2, x2, #1\n"                                                                                               \
    "  sub x0, x0, #1\n"                                                                                               \
    "  cbnz x0, 1b\n"                                                                                                  \
    "  ret\n"

/* ldr x16, target; bl 1f; <nothing>   and before it   1: br x16 */
enum { NO_RETURN_SIZE = 20, NO_RETURN_BEGIN = 12 };
static inline void put_no_return(uint8_t *at, uint64_t target) {
    uint32_t words[5] = {(uint32_t)target, (uint32_t)(target >> 32), 0xd61f0200, 0x58ffffb0, 0x97fffffe};
    words[3] = 0x58000000 | ((uint32_t)-3 & 0x7ffff) << 5 | 16; /* ldr x16, . - 12 */
    put_words(at, words, 5);
}
enum { NO_CODE = 0xff };

#define JUMP_TO_PAD(n)                                                                                                 \
    __asm__ volatile("adr x9, 1f\n br x9\n udf #0\n 1: hint #36\n add %0, %0, #1" : "+r"(n)::"x9") /* bti j */
#define CALL_PAD(n)                                                                                                    \
    __asm__ volatile("adr x9, 1f\n blr x9\n b 2f\n 1: hint #34\n add %0, %0, #1\n ret\n 2:" : "+r"(n)::"x9", "x30")

/* str x30, [sp, #-16]!; mov w16, #3; mov w17, #5; bl; add w0, w0, w16, lsl #3; add w0, w0, w17; ldr x30, [sp], #16;
 * ret: x16 and x17 live across the call */
enum { CALLER_CALL = 12, ALWAYS = 3 * 8 + 5 };
static inline void put_caller(uint8_t *at) {
    put_words(at,
              (const uint32_t[]){0xf81f0ffe, 0x52800070, 0x528000b1, 0x94000000, 0x0b100c00, 0x0b110000, 0xf84107fe,
                                 0xd65f03c0},
              8);
}
static inline void set_call(uint8_t *caller, const uint8_t *target) {
    uint32_t word = 0x94000000 | ((uint32_t)((target - (caller + CALLER_CALL)) >> 2) & 0x3ffffff);
    __atomic_store_n((uint32_t *)(void *)(caller + CALLER_CALL), word, __ATOMIC_RELEASE);
}
/* adr x30, elsewhere; ret */
enum { ELSEWHERE_SIZE = 4 };
static inline void put_return_to(uint8_t *at, uint8_t *elsewhere) {
    uint32_t distance = (uint32_t)((elsewhere - at) >> 2);
    put_words(at, (const uint32_t[]){0x1000001e | distance << 5, 0xd65f03c0}, 2);
    put_words(elsewhere, (const uint32_t[]){0xf84107fe}, 1); /* ldr x30, [sp], #16 */
}
static inline uint64_t jump_ahead(void) {
    return 0x14000040;
}
static inline void put_bad_load(uint8_t *at) {
    put_words(at, (const uint32_t[]){0x18000000 | 1024 << 5, 0xd65f03c0}, 2); /* ldr w0, . + 4096 */
}

#define STEPPED_PC(regs)            ((regs).pc)
#define STEPPED_RETURN(child, regs) ((regs).regs[30])

enum { TRAP_SIZE = 4 };
#define TRAP_AND_ADD(value, at)                                                                                        \
    __asm__ volatile("adr %1, 1f\n mov x0, #0\n 1: udf #0\n add %0, x0, #1" : "=r"(value), "=&r"(at)::"x0")
#define FAULTING_CALL(value, at)                                                                                       \
    __asm__ volatile("adr %1, 1f\n mov w16, #0x4567\n movk w16, #0x123, lsl #16\n mov x0, #24\n"                       \
                     "1: ldr x9, [x0]\n mov x0, #5\n blr x9\n mov %0, x0"                                              \
                     : "=r"(value), "=&r"(at)::"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10",      \
                       "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x30", "cc", "memory")

#define DIE_OF_WRITE(pc)                                                                                               \
    __asm__ volatile("adr x0, 1f\n str x0, %0\n mov x1, #16\n 1: str w1, [x1]" : "=m"(pc)::"x0", "x1", "memory")
#define DIE_OF_JUMP(pc) __asm__ volatile("mov x0, #16\n str x0, %0\n br x0" : "=m"(pc)::"x0", "memory")
#define DIE_OF_CALL(pc) __asm__ volatile("mov x0, #16\n str x0, %0\n blr x0" : "=m"(pc)::"x0", "x30", "memory")
#define DIE_OF_TRAP(pc) __asm__ volatile("adr x0, 1f\n str x0, %0\n 1: udf #0" : "=m"(pc)::"x0", "memory")
/* A division by zero is 0: nothing to die of but a word that is no instruction. */
#define DIE_OF_DIVISION(pc) __asm__ volatile("adr x0, 1f\n str x0, %0\n 1: .inst 0xffffffff" : "=m"(pc)::"x0", "memory")
enum { DEATH_OF_DIVISION = 4 }; /* SIGILL */
#define DIE_OF_BREAKPOINT(pc) __asm__ volatile("adr x0, 1f\n str x0, %0\n 1: brk #0" : "=m"(pc)::"x0", "memory")

#define TRAP_HERE(at)         __asm__ volatile("adr %0, 1f\n adr x8, 2f\n 1: udf #0\n 2:" : "=r"(at)::"x8", "memory")
#define AFTER_TRAP(c)         ((uint64_t)(c)->uc_mcontext.regs[8])

#define ADD_IN_SECTION(flag, area, place, processor)                                                                   \
    __asm__ volatile(".pushsection __rseq_cs, \"aw\"\n .balign 32\n"                                                   \
                     "3: .long 0, 0\n .quad 1f, 2f - 1f, 4f\n .popsection\n"                                           \
                     "adrp x15, 3b\n add x15, x15, :lo12:3b\n"                                                         \
                     "str x15, %[section]\n"                                                                           \
                     "1: ldr w14, %[now]\n"                                                                            \
                     "cmp w14, %w[cpu]\n"                                                                              \
                     "b.ne 5f\n"                                                                                       \
                     "ldr x14, [%[word]]\n"                                                                            \
                     "mov w13, #100\n"                                                                                 \
                     "6: subs w13, w13, #1\n"                                                                          \
                     "b.ne 6b\n"                                                                                       \
                     "add x14, x14, #1\n"                                                                              \
                     "str x14, [%[word]]\n"                                                                            \
                     "2: mov %w[done], #1\n"                                                                           \
                     "5:\n"                                                                                            \
                     ".pushsection __rseq_abort, \"ax\"\n .inst 0xd428bc00\n"                                          \
                     "4: adrp x15, given_up\n ldr x14, [x15, :lo12:given_up]\n add x14, x14, #1\n"                     \
                     "str x14, [x15, :lo12:given_up]\n b 5b\n .popsection\n"                                           \
                     : [done] "+r"(flag), [section] "=m"((area)->rseq_cs)                                              \
                     : [cpu] "r"(processor), [now] "m"((area)->cpu_id), [word] "r"(place)                              \
                     : "x13", "x14", "x15", "cc", "memory")

/* Natively the kernel has stepped back to the call that it would repeat; our signal comes after it. */
enum { DEATH_IN_CALL = 4 };

#endif

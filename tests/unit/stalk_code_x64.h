/* SPDX-License-Identifier: Apache-2.0 */
/* Code that the Stalker's tests write or contain, x86_64. */
#ifndef STALK_CODE_X64_H
#define STALK_CODE_X64_H

#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

enum { LEAF_SIZE = 6 };

/* mov eax, value; ret */
static inline void put_leaf(uint8_t *at, int value) {
    at[0] = 0xb8;
    memcpy(at + 1, &value, 4);
    at[5] = 0xc3;
}

/* A function that returns 0 to 65,535; one store changes the value. */
static inline void put_value(uint8_t *at) {
    memcpy(at, "\x90\x90\x90\xb8\0\0\0\0\xc3", 9);
}
static inline void change_value(uint8_t *at, int value) {
    *(volatile int *)(void *)(at + 4) = value;
}

/* Adds 3 to the result; sets it to 0. */
enum { ADD_SIZE = 4, ZERO_SIZE = 2, RETURN_SIZE = 1 };
static inline void put_add(uint8_t *at) {
    memcpy(at, "\x48\x83\xc0\x03", ADD_SIZE);
}
static inline void put_zero(uint8_t *at) {
    memcpy(at, "\x31\xc0", ZERO_SIZE);
}
static inline void put_return(uint8_t *at) {
    *at = 0xc3;
}

/* At least, at whatever rate it ticks. Two readings differ. */
enum { TICKS_OF_100_US = 10000, SAME_TIME = 16 };
static inline uint64_t counter(void) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

/* nanosleep, in the function that calls this */
#define SLEEP_HERE(time)                                                                                               \
    do {                                                                                                               \
        long result = SYS_nanosleep;                                                                                   \
        __asm__ volatile("syscall" : "+a"(result) : "D"(time), "S"(NULL) : "rcx", "r11", "memory");                    \
    } while (0)

#define RELAX() __asm__ volatile("pause")

/* One block of several instructions that copies `count` bytes. */
#define COPY_HERE(to, from, count) __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory")

/* A function that jumps to `target`, a pointer. */
#define TAIL_JUMP(name, target)                                                                                        \
    __asm__(".text\n"                                                                                                  \
            ".type " #name ", @function\n" #name ": jmp *" #target "(%rip)\n")

/* uint64_t carries(uint64_t rounds, uint64_t *high): sums of 128 bits, with the carry from one instruction to the next.
 * 5 instructions a round, 2 around them. */
enum { CARRIES_ROUND = 5, CARRIES_REST = 2 };
#define CARRIES                                                                                                        \
    "  xor %eax, %eax\n"                                                                                               \
    "1: add $-3, %rax\n"                                                                                               \
    "  adcq $0, (%rsi)\n"                                                                                              \
    "  lea 1(%rax), %rax\n"                                                                                            \
    "  dec %rdi\n"                                                                                                     \
    "  jne 1b\n"                                                                                                       \
    "  ret\n"

/* mov rax, target; sub rsp, 8; call 1f; <nothing>   and before it   1: jmp rax */
enum { NO_RETURN_SIZE = 21, NO_RETURN_BEGIN = 2 };
static inline void put_no_return(uint8_t *at, uint64_t target) {
    static const uint8_t code[NO_RETURN_SIZE] = {0xff, 0xe0, 0x48, 0xb8, 0,    0,    0,    0,    0,    0,   0,
                                                 0,    0x48, 0x83, 0xec, 0x08, 0xe8, 0xeb, 0xff, 0xff, 0xff};
    memcpy(at, code, sizeof code);
    memcpy(at + 4, &target, 8);
}
enum { NO_CODE = 0x06 }; /* bytes of this are no instructions */

/* Jumps to, or calls, a landing pad after which one is added to `n`. */
#define JUMP_TO_PAD(n)                                                                                                 \
    __asm__ volatile("lea 1f(%%rip), %%rcx\n notrack jmp *%%rcx\n ud2\n 1: endbr64\n inc %0" : "+r"(n)::"rcx", "cc")
#define CALL_PAD(n)                                                                                                    \
    __asm__ volatile("lea -128(%%rsp), %%rsp\n lea 1f(%%rip), %%rcx\n notrack call *%%rcx\n jmp 2f\n"                  \
                     "1: endbr64\n inc %0\n ret\n 2: lea 128(%%rsp), %%rsp"                                            \
                     : "+r"(n)::"rcx", "cc", "memory")

/* A function that calls what set_call has set last, and adds ALWAYS to its result; rcx and r11 live across the call.
 * One store changes the target. */
enum { CALLER_CALL = 19, ALWAYS = 3 * 8 + 5 };
static inline void put_caller(uint8_t *at) {
    static const uint8_t before[] = {0xb9, 3, 0, 0, 0, 0x41, 0xbb, 5, 0, 0, 0, 0x48, 0x83, 0xec, 8, 0x0f, 0x1f, 0x40, 0,
                                     /* mov ecx, 3; mov r11d, 5; sub rsp, 8; nop */
                                     0xe8};
    static const uint8_t after[] = {0x48, 0x83, 0xc4, 8,    0x8d,
                                    0x44, 0xc8, 0,                 /* add rsp, 8; lea eax, [rax + rcx * 8] */
                                    0x42, 0x8d, 0x04, 0x18, 0xc3}; /* lea eax, [rax + r11]; ret */
    memcpy(at, before, sizeof before);
    memcpy(at + sizeof before + 4, after, sizeof after);
}
static inline void set_call(uint8_t *caller, const uint8_t *target) {
    int32_t offset = (int32_t)(target - (caller + CALLER_CALL + 5));
    __atomic_store_n((int32_t *)(void *)(caller + CALLER_CALL + 1), offset, __ATOMIC_RELEASE);
}
/* A callee that returns elsewhere, in place of its caller: ELSEWHERE_SIZE bytes are there already. */
enum { ELSEWHERE_SIZE = 4 };
static inline void put_return_to(uint8_t *at, uint8_t *elsewhere) {
    /* lea rax, [rip + elsewhere]; mov [rsp], rax; ret */
    static const uint8_t leaf[] = {0x48, 0x8d, 0x05, 0, 0, 0, 0, 0x48, 0x89, 0x04, 0x24, 0xc3};
    int32_t offset = (int32_t)(elsewhere - (at + 7));
    memcpy(at, leaf, sizeof leaf);
    memcpy(at + 3, &offset, sizeof offset);
    memcpy(elsewhere, "\x48\x83\xc4\x08", ELSEWHERE_SIZE); /* add rsp, 8 */
}
/* The first bytes of a function that jumps 256 bytes ahead. */
static inline uint64_t jump_ahead(void) {
    return 0xfbe9;
}
/* Loads from an address that is not mapped, which is at + 4096 for some machines, and returns. */
static inline void put_bad_load(uint8_t *at) {
    memcpy(at, "\x8b\x04\x25\0\0\0\0\xc3", 8); /* mov eax, [0]; ret */
}

/* Of struct user_regs_struct: where a function returns to when it has just been entered. */
#define STEPPED_PC(regs)            ((regs).rip)
#define STEPPED_RETURN(child, regs) ((uint64_t)ptrace(PTRACE_PEEKDATA, child, (regs).rsp, 0))

/* Traps, with its address in `at`, and the address after it where AFTER_TRAP finds it. */
enum { TRAP_SIZE = 2 };
/* Sets `value` to 0, traps at `at`, then adds 1. The handler changes the value: context_result. */
#define TRAP_AND_ADD(value, at)                                                                                        \
    __asm__ volatile("lea 1f(%%rip), %1; xor %%eax, %%eax; 1: ud2; add $1, %%rax" : "=a"(value), "=r"(at)::"cc")
/* Calls what a pointer says that is at address 24, or wherever the handler sets context_result, with argument 5. */
#define FAULTING_CALL(value, at)                                                                                       \
    __asm__ volatile("lea 1f(%%rip), %1\n mov $0x1234567, %%ecx\n mov $24, %%eax\n mov $5, %%edi\n"                    \
                     "lea -256(%%rsp), %%rsp\n 1: call *(%%rax)\n lea 256(%%rsp), %%rsp\n"                             \
                     : "=a"(value), "=&b"(at)::"rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc", "memory")

/* Each writes the address of what it dies of first. */
#define DIE_OF_WRITE(pc)                                                                                               \
    __asm__ volatile("lea 1f(%%rip), %%rcx; mov %%rcx, %0; 1: movl $1, 16" : "=m"(pc)::"rcx", "memory")
#define DIE_OF_JUMP(pc) __asm__ volatile("movq $16, %0; mov $16, %%eax; jmp *%%rax" : "=m"(pc)::"rax", "memory")
#define DIE_OF_CALL(pc)                                                                                                \
    __asm__ volatile("lea 1f(%%rip), %%rcx; mov %%rcx, %0; mov $16, %%eax; 1: call *(%%rax)"                           \
                     : "=m"(pc)::"rax", "rcx", "memory")
#define DIE_OF_TRAP(pc) __asm__ volatile("lea 1f(%%rip), %%rcx; mov %%rcx, %0; 1: ud2" : "=m"(pc)::"rcx", "memory")
#define DIE_OF_DIVISION(pc)                                                                                            \
    __asm__ volatile("lea 1f(%%rip), %%rcx; mov %%rcx, %0; xor %%ecx, %%ecx; 1: div %%ecx"                             \
                     : "=m"(pc)::"rax", "rcx", "rdx", "memory", "cc")
enum { DEATH_OF_DIVISION = 8 }; /* SIGFPE */
#define DIE_OF_BREAKPOINT(pc)                                                                                          \
    __asm__ volatile("lea 1f(%%rip), %%rcx; mov %%rcx, %0; int3; 1: nop" : "=m"(pc)::"rcx", "memory")

#define TRAP_HERE(at)                                                                                                  \
    __asm__ volatile("lea 1f(%%rip), %0\n lea 2f(%%rip), %%r8\n 1: ud2\n 2:" : "=r"(at)::"r8", "memory")
#define AFTER_TRAP(c) ((uint64_t)(c)->uc_mcontext.gregs[REG_R8])

/* Adds one to *word in a critical section of rseq(2), unless the thread runs on another processor than `cpu`. */
#define ADD_IN_SECTION(flag, area, place, processor)                                                                   \
    __asm__ volatile(".pushsection __rseq_cs, \"aw\"\n .balign 32\n"                                                   \
                     "3: .long 0, 0\n .quad 1f, 2f - 1f, 4f\n .popsection\n"                                           \
                     "lea 3b(%%rip), %%rax\n"                                                                          \
                     "mov %%rax, %[section]\n"                                                                         \
                     "1: cmp %[cpu], %[now]\n"                                                                         \
                     "jne 5f\n"                                                                                        \
                     "mov (%[word]), %%rax\n"                                                                          \
                     "mov $100, %%ecx\n"                                                                               \
                     "6: dec %%ecx\n"                                                                                  \
                     "jnz 6b\n"                                                                                        \
                     "inc %%rax\n"                                                                                     \
                     "mov %%rax, (%[word])\n"                                                                          \
                     "2: mov $1, %[done]\n"                                                                            \
                     "5:\n"                                                                                            \
                     ".pushsection __rseq_abort, \"ax\"\n .byte 0x0f, 0xb9, 0x3d\n .long 0x53053053\n"                 \
                     "4: incq given_up(%%rip)\n jmp 5b\n .popsection\n"                                                \
                     : [done] "+r"(flag), [section] "=m"((area)->rseq_cs)                                              \
                     : [cpu] "r"(processor), [now] "m"((area)->cpu_id), [word] "r"(place)                              \
                     : "rax", "rcx", "cc", "memory")

enum { DEATH_IN_CALL = 0 };

#endif

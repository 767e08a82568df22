/* SPDX-License-Identifier: Apache-2.0 */
/* What it costs to move a function's first bytes, compared with decoding them, by us and by Zydis.
 *
 * The prologues are the C library's: a function may begin after a ret, at the next multiple of 16. */
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <Zydis/Zydis.h>

#include "isa/x64/relocate.h"

#define MAX_PROLOGUES 4096
#define MINIMUM       5
#define ROUNDS        7

static const uint8_t *prologues[MAX_PROLOGUES];
static size_t count;
static uint8_t copy[8192];

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void collect(const uint8_t *code, size_t size) {
    struct ct_x64_insn insn;
    for (size_t at = 0; at + 64 < size && count < MAX_PROLOGUES; at++)
        if (code[at] == 0xc3) {
            const uint8_t *start = (const uint8_t *)(((uintptr_t)(code + at) + 16) & ~(uintptr_t)15);
            if (!ct_x64_decode(start, 64, &insn) && (!count || prologues[count - 1] != start))
                prologues[count++] = start;
        }
}

static int visit(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    (void)arg;
    if (!strstr(info->dlpi_name, "libc.so"))
        return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X)
            collect((const uint8_t *)(uintptr_t)(info->dlpi_addr + segment->p_vaddr), segment->p_memsz);
    }
    return 1;
}

static size_t move_all(uint64_t to) {
    size_t moved = 0;
    for (size_t i = 0; i < count; i++) {
        struct ct_code_buf out = {.bytes = copy, .capacity = sizeof copy, .address = to};
        struct ct_x64_moved map;
        size_t covered;
        uint64_t from = (uint64_t)(uintptr_t)prologues[i];
        moved += !ct_x64_relocate_range(&out, prologues[i], 64, MINIMUM, from, &covered, &map);
    }
    return moved;
}

static size_t move_near(void) {
    return move_all((uint64_t)(uintptr_t)prologues[0] - 0x10000000);
}

static size_t move_far(void) {
    return move_all(0x100000000);
}

static size_t decode_all(void) {
    size_t bytes = 0;
    struct ct_x64_insn insn;
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0; at < MINIMUM && !ct_x64_decode(prologues[i] + at, 64, &insn); at += insn.length)
            bytes += insn.length;
    return bytes;
}

static size_t decode_zydis(void) {
    ZydisDecoder decoder;
    ZydisDecodedInstruction insn;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    size_t bytes = 0;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0; at < MINIMUM; at += insn.length) {
            if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, prologues[i] + at, 64, &insn, operands)))
                break;
            bytes += insn.length;
        }
    return bytes;
}

static double best(size_t (*work)(void), size_t *result) {
    double least = 1e18;
    for (unsigned round = 0; round < ROUNDS; round++) {
        double start = now_ns();
        *result = work();
        double spent = now_ns() - start;
        least = spent < least ? spent : least;
    }
    return least / (double)count;
}

int main(void) {
    dl_iterate_phdr(visit, NULL);
    if (!count)
        return 1;
    size_t moved, bytes;
    double near = best(move_near, &moved), far = best(move_far, &moved);
    double decode = best(decode_all, &bytes), zydis = best(decode_zydis, &bytes);
    printf("%zu prologues of %d bytes or more, %.1f on average, %zu movable\n", count, MINIMUM,
           (double)bytes / (double)count, moved);
    printf("move near %.0f ns, far %.0f ns; decode alone %.0f ns, Zydis %.0f ns: near/decode %.1f, near/Zydis %.2f\n",
           near, far, decode, zydis, near / decode, near / zydis);
    return 0;
}

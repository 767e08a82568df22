/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes one instruction with our decoder and with Zydis, the oracle: where do they disagree, and is the oracle known
 * to be wrong there? Used by the differential test over real programs and by the fuzzer. */
#ifndef CT_TESTS_DIFF_COMPARE_H
#define CT_TESTS_DIFF_COMPARE_H

#include <Zydis/Zydis.h>

#include "isa/x64/decode.h"

/* clang-format off */
#define DIFF_CLASSES(X) \
    X(VALIDITY,      "valid or not") \
    X(LENGTH,        "length") \
    X(KIND,          "kind") \
    X(TARGET,        "branch target") \
    X(RIP,           "RIP-relative operand") \
    X(DISPLACEMENT,  "displacement") \
    X(IMMEDIATE,     "immediates") \
    X(MEMORY,        "memory operand") \
    X(REGS_READ,     "registers read") \
    X(REGS_WRITTEN,  "registers written") \
    X(FLAGS_READ,    "flags read") \
    X(FLAGS_WRITTEN, "flags written") \
    X(FLAGS_KILLED,  "flags killed but maybe alive") \
    X(MEM_READ,      "memory read") \
    X(MEM_WRITTEN,   "memory written")
/* clang-format on */

enum diff_class {
#define DIFF_ENUM(name, text) DIFF_##name,
    DIFF_CLASSES(DIFF_ENUM)
#undef DIFF_ENUM
        DIFF_COUNT
};

extern const char *const diff_class_names[DIFF_COUNT];

struct compared {
    int status; /* of ct_x64_decode */
    struct ct_x64_insn ours;
    struct ct_x64_effects effects;
    bool zydis_valid;
    ZydisDecodedInstruction zydis;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    uint32_t unexplained;      /* bits of enum diff_class */
    uint32_t known;            /* disagreements that the table of oracle errors explains */
    uint32_t bits[DIFF_COUNT]; /* for masks: ours xor the oracle's */
};

void diff_init(void);

/* Returns how many bytes to skip: the oracle's length, or ours, or 1. */
size_t diff_compare(const uint8_t *bytes, size_t size, uint64_t address, struct compared *c);

/* Prints one disagreement on standard output. */
void diff_print(const uint8_t *bytes, size_t size, const struct compared *c);

/* Prints the oracle's errors, one line each: hits (NULL: only the list), what, why. */
size_t diff_known_count(void);
void diff_known_hits(uint64_t *hits); /* adds the hits of this process */
void diff_known_print(const uint64_t *hits);

#endif

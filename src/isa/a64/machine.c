/* SPDX-License-Identifier: Apache-2.0 */
/* arm64 in numbers, see machine.h. */
#include "isa/machine.h"
#include "abi/atf.h"
#include <linux/elf-em.h>

/* Relocations that hold an address. */
enum { R_ABS64 = 257, R_GLOB_DAT = 1025, R_RELATIVE = 1027 };

enum { X0, X1, X2, X3, X4, X5, X6, X7, X29 = 29, X30, SP, PC, PSTATE, COUNT };

const struct ct_machine ct_machine_a64 = {
    .name = "aarch64",
    .arch = ATF_ARCH_ARM64,
    .thread_pointer = "tpidr_el0",
    .steady_counter = true,
    .elf = EM_AARCH64,
    .program = "an arm64 program",
    .small_program = "an ILP32 program",
    .reloc_relative = R_RELATIVE,
    .reloc_symbol = {R_ABS64, R_GLOB_DAT},
    .branch_reach = 0x7f00000, /* of b and bl, with 1 MiB to spare */
    .address_limit = UINT64_C(1) << 48,
    .breakpoint = {0x00, 0x00, 0x20, 0xd4}, /* brk #0 */
    .breakpoint_size = 4,
    .nop = {0x1f, 0x20, 0x03, 0xd5},
    .nop_size = 4,
    .dwarf_sp = 31,
    .dwarf_ra = 30,
    .registers = {"x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",  "x8",  "x9",    "x10", "x11",
                  "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21",   "x22", "x23",
                  "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp",  "pc",  "pstate"},
    .register_count = COUNT,
    .sp = SP,
    .fp = X29,
    .pc = PC,
    .call = {X0, X1, X2, X3, X4, X5, X6, X7},
    .argument_count = 8,
    .result = {X0, X1},
    .vector_count = 32,
};
_Static_assert((int)COUNT == (int)ATF_DETAIL_SIGNAL_REGISTERS_A64 && (int)COUNT <= (int)CT_MACHINE_REGISTERS,
               "signal records");

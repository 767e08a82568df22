/* SPDX-License-Identifier: Apache-2.0 */
/* The call frame information of a module (.eh_frame): which code ranges it describes and how they are entered. */
#ifndef CT_SYMBOLS_EH_FRAME_H
#define CT_SYMBOLS_EH_FRAME_H

#include "symbols/elf_image.h"
#include "symbols/functions.h"

struct ct_cie;

/* Filled by the walk; freed with ct_eh_frame_close. */
struct ct_eh_frame {
    const struct ct_elf *elf;
    const struct ct_machine *machine;
    struct ct_span bytes;
    bool ends_at_zero;   /* the size is not known: a length of zero ends the section */
    struct ct_cie *cies; /* in file order */
    size_t cie_count, cie_capacity;
};

/* One described range. */
struct ct_fde {
    uint64_t start, size;
    uint32_t place; /* of its record in the section; never 0 */
    uint32_t flags; /* of enum ct_func_flag, as they apply to its first byte */
};

/* CT_ERR_NOT_FOUND when the file has none. */
int ct_eh_frame_open(struct ct_eh_frame *frame, const struct ct_elf *elf);
void ct_eh_frame_close(struct ct_eh_frame *frame);

/* Calls `each` for every FDE until it returns non-zero, which is then returned. Leaves out damaged records. */
int ct_eh_frame_each(struct ct_eh_frame *frame, int (*each)(void *arg, const struct ct_fde *fde), void *arg);

/* After walking: the flags for a function that begins inside an FDE, `offset` bytes after its start. */
uint32_t ct_eh_frame_flags_at(const struct ct_eh_frame *frame, uint32_t place, uint64_t offset);

/* After walking: everything that one FDE says, for unwinding. False: it cannot be read. */
struct ct_cfa_rules;
struct ct_fde_code {
    struct ct_fde fde;
    const struct ct_cfa_rules *rules; /* valid while the frame is open */
    struct ct_reader initial, code;   /* instructions of the CIE, then of the FDE */
    bool signal_frame;
};
bool ct_eh_frame_code_at(const struct ct_eh_frame *frame, uint32_t place, struct ct_fde_code *out);

/* After walking: the personality routine of the i-th CIE; offset 0 when it has none, false when there is no such
 * CIE. */
bool ct_eh_frame_personality(const struct ct_eh_frame *frame, size_t i, struct ct_personality *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Many small changes to code, in order of address: changes to one page are collected and written at once. The access
 * functions decide whether the memory is this process's or another's. */
#ifndef CT_HOOK_PAGE_WRITER_H
#define CT_HOOK_PAGE_WRITER_H

#include "hook/plan.h"

#define CT_PAGE 4096u /* the unit of reads and writes: page sizes of all machines are multiples of it */

struct ct_page_writer {
    int (*read)(void *arg, uint64_t address, void *bytes, size_t size);
    int (*write)(void *arg, uint64_t address, const void *bytes, size_t size);
    void *arg;
    /* private; all zero at first */
    uint64_t page;      /* 0: none */
    unsigned low, high; /* what has changed in it; low == high: nothing */
    uint8_t bytes[CT_PAGE];
};

int ct_page_writer_put(struct ct_page_writer *w, uint64_t at, const uint8_t *bytes, unsigned size);
bool ct_page_writer_holds(struct ct_page_writer *w, uint64_t at, const uint8_t *bytes, unsigned size);
int ct_page_writer_flush(struct ct_page_writer *w);
/* Writes a plan's patches, or the bytes that were there before. Only our own bytes are restored: the module may have
 * been unloaded, and another one loaded in its place. */
int ct_page_writer_patch(struct ct_page_writer *w, const struct ct_plan *plan, bool restore);

#endif

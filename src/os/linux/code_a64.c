/* SPDX-License-Identifier: Apache-2.0 */
/* Code that was just written, on arm64: instruction fetches see it when the data cache is cleaned and the instruction
 * cache invalidated, line by line. */
#include "os/os.h"

void ct_os_sync_code(uint64_t start, size_t size) {
    uint64_t type, end = start + size;
    __asm__ volatile("mrs %0, ctr_el0" : "=r"(type));
    uint64_t data = UINT64_C(4) << (type >> 16 & 15), code = UINT64_C(4) << (type & 15);
    for (uint64_t at = start & ~(data - 1); at < end; at += data)
        __asm__ volatile("dc cvau, %0" : : "r"(at) : "memory");
    __asm__ volatile("dsb ish" : : : "memory");
    for (uint64_t at = start & ~(code - 1); at < end; at += code)
        __asm__ volatile("ic ivau, %0" : : "r"(at) : "memory");
    __asm__ volatile("dsb ish\n\tisb" : : : "memory");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A fingerprint of all executable memory of all modules: equal when no byte of code changed. */
#ifndef E2E_TEXT_H
#define E2E_TEXT_H

#include <link.h>
#include <stdint.h>

static int text_add_module(struct dl_phdr_info *info, size_t size, void *arg) {
    uint64_t *hash = (uint64_t *)arg;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        const uint64_t *words = (const uint64_t *)((info->dlpi_addr + p->p_vaddr + 7) & ~(uintptr_t)7);
        for (size_t k = 0; k + 1 < p->p_memsz / 8; k++)
            *hash = (*hash ^ words[k]) * 0x100000001b3u;
    }
    return 0;
}

static inline uint64_t text_fingerprint(void) {
    uint64_t hash = 0xcbf29ce484222325u;
    dl_iterate_phdr(text_add_module, &hash);
    return hash;
}

#endif

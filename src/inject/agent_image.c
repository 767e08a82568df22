/* SPDX-License-Identifier: Apache-2.0 */
/* See agent_image.h. The images are part of this program, so they are trusted; tests/tools checks what they may
 * contain. */
#include "inject/agent_image.h"
#include "isa/machine.h"
#include "os/os.h"
#include <elf.h>
#include <string.h>

static const Elf64_Phdr *segments(const uint8_t *image, unsigned *count) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    *count = header->e_phnum;
    return (const Elf64_Phdr *)(image + header->e_phoff);
}

size_t ct_agent_memory_size(const uint8_t *image) {
    unsigned count;
    const Elf64_Phdr *s = segments(image, &count);
    size_t size = 0;
    for (unsigned i = 0; i < count; i++)
        if (s[i].p_type == PT_LOAD && s[i].p_vaddr + s[i].p_memsz > size)
            size = s[i].p_vaddr + s[i].p_memsz;
    return size;
}

size_t ct_agent_text_size(const uint8_t *image) {
    unsigned count;
    const Elf64_Phdr *s = segments(image, &count);
    for (unsigned i = 0; i < count; i++)
        if (s[i].p_type == PT_LOAD && (s[i].p_flags & PF_X))
            return (s[i].p_vaddr + s[i].p_memsz + ct_os_page_size() - 1) & ~(ct_os_page_size() - 1);
    return 0;
}

uint64_t ct_agent_entry(const uint8_t *image) {
    return ((const Elf64_Ehdr *)image)->e_entry;
}

static void relocate(uint8_t *bytes, uint64_t address, const Elf64_Dyn *dynamic) {
    uint64_t table = 0, size = 0;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_RELA)
            table = dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_RELASZ)
            size = dynamic->d_un.d_val;
    }
    const Elf64_Rela *r = (const Elf64_Rela *)(bytes + table);
    for (uint64_t i = 0; table && i < size / sizeof *r; i++) {
        uint64_t value = address + (uint64_t)r[i].r_addend;
        /* Other relocations are for weak symbols that do not exist. */
        if (ELF64_R_TYPE(r[i].r_info) == ct_machine_host()->reloc_relative)
            memcpy(bytes + r[i].r_offset, &value, sizeof value);
    }
}

void ct_agent_load(const uint8_t *image, uint8_t *bytes, uint64_t address) {
    unsigned count;
    const Elf64_Phdr *s = segments(image, &count);
    for (unsigned i = 0; i < count; i++)
        if (s[i].p_type == PT_LOAD)
            memcpy(bytes + s[i].p_vaddr, image + s[i].p_offset, s[i].p_filesz);
    for (unsigned i = 0; i < count; i++)
        if (s[i].p_type == PT_DYNAMIC)
            relocate(bytes, address, (const Elf64_Dyn *)(bytes + s[i].p_vaddr));
}

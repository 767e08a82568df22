/* See agent_image.h. The image is part of this program, so it is trusted; tests/tools checks what it may contain. */
#include "ctl/agent_image.h"
#include <elf.h>
#include <string.h>

extern const uint8_t ct_agent_image[];

static const Elf64_Phdr *segments(unsigned *count) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)ct_agent_image;
    *count = header->e_phnum;
    return (const Elf64_Phdr *)(ct_agent_image + header->e_phoff);
}

size_t ct_agent_memory_size(void) {
    unsigned count;
    const Elf64_Phdr *s = segments(&count);
    size_t size = 0;
    for (unsigned i = 0; i < count; i++)
        if (s[i].p_type == PT_LOAD && s[i].p_vaddr + s[i].p_memsz > size)
            size = s[i].p_vaddr + s[i].p_memsz;
    return size;
}

size_t ct_agent_text_size(void) {
    unsigned count;
    const Elf64_Phdr *s = segments(&count);
    for (unsigned i = 0; i < count; i++)
        if (s[i].p_type == PT_LOAD && (s[i].p_flags & PF_X))
            return (s[i].p_vaddr + s[i].p_memsz + 4095) & ~(size_t)4095;
    return 0;
}

uint64_t ct_agent_entry(void) {
    return ((const Elf64_Ehdr *)ct_agent_image)->e_entry;
}

void ct_agent_load(uint8_t *bytes) {
    unsigned count;
    const Elf64_Phdr *s = segments(&count);
    for (unsigned i = 0; i < count; i++)
        if (s[i].p_type == PT_LOAD)
            memcpy(bytes + s[i].p_vaddr, ct_agent_image + s[i].p_offset, s[i].p_filesz);
}

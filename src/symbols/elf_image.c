/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds-checked view of an ELF file, see elf_image.h. */
#include "symbols/elf_image.h"
#include <contrail/status.h>

#define MAX_SECTION_NAME 256
#define MAX_SEGMENTS     1024
#define MAX_NOTES        ((size_t)1 << 18) /* largest segment of notes */

/* Copies a structure, which need not be aligned, out of the file; false when it is not inside. */
static bool copy_from(const struct ct_elf *elf, uint64_t offset, void *out, size_t size) {
    if (offset > elf->size || size > elf->size - offset)
        return false;
    memcpy(out, elf->data + offset, size);
    return true;
}

static bool read_section(const struct ct_elf *elf, uint64_t index, Elf64_Shdr *out) {
    return index < UINT32_MAX && elf->shoff <= elf->size &&
           copy_from(elf, elf->shoff + index * sizeof *out, out, sizeof *out);
}

/* Counts that do not fit the header are in the first section header. */
static void read_counts(struct ct_elf *elf, const Elf64_Ehdr *header) {
    Elf64_Shdr first;
    elf->phoff = header->e_phoff;
    elf->phnum = header->e_phentsize == sizeof(Elf64_Phdr) ? header->e_phnum : 0;
    elf->shoff = header->e_shoff;
    if (!header->e_shoff || header->e_shentsize != sizeof(Elf64_Shdr) || !read_section(elf, 0, &first))
        return;
    elf->shnum = header->e_shnum ? header->e_shnum : (uint32_t)first.sh_size;
    elf->shstrndx = header->e_shstrndx == SHN_XINDEX ? first.sh_link : header->e_shstrndx;
    if (header->e_phnum == PN_XNUM && elf->phnum)
        elf->phnum = first.sh_info;
    if (elf->shnum > elf->size / sizeof(Elf64_Shdr))
        elf->shnum = 0;
}

int ct_elf_open(struct ct_elf *elf, const void *data, size_t size) {
    Elf64_Ehdr header;
    *elf = (struct ct_elf){.data = data, .size = size};
    if (!copy_from(elf, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return CT_ERR_BAD_FILE;
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
        return CT_ERR_UNSUPPORTED;
    elf->machine = ct_machine_by_elf(header.e_machine);
    if (!elf->machine)
        return CT_ERR_UNSUPPORTED;
    if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
        return CT_ERR_BAD_FILE;
    read_counts(elf, &header);
    /* No kernel loads a program with more segments; each address lookup goes through all of them. */
    if (elf->phnum > elf->size / sizeof(Elf64_Phdr) || elf->phnum > MAX_SEGMENTS)
        elf->phnum = 0;
    return 0;
}

int ct_elf_open_host(struct ct_elf *elf, const void *data, size_t size) {
    int status = ct_elf_open(elf, data, size);
    return !status && elf->machine != ct_machine_host() ? CT_ERR_UNSUPPORTED : status;
}

static struct ct_span file_bytes(const struct ct_elf *elf, uint64_t offset, uint64_t size, uint64_t address) {
    if (offset > elf->size || size > elf->size - offset)
        return (struct ct_span){.data = elf->data};
    return (struct ct_span){.data = elf->data + offset, .size = size, .address = address};
}

static const char *section_name(const struct ct_elf *elf, uint32_t offset) {
    Elf64_Shdr strings;
    if (elf->shstrndx >= elf->shnum || !read_section(elf, elf->shstrndx, &strings) || strings.sh_type != SHT_STRTAB)
        return "";
    struct ct_span bytes = file_bytes(elf, strings.sh_offset, strings.sh_size, 0);
    if (offset >= bytes.size)
        return "";
    /* Limited, so that many sections with endless names do not cost more than the size of the file. */
    size_t left = bytes.size - offset;
    if (!memchr(bytes.data + offset, 0, left < MAX_SECTION_NAME ? left : MAX_SECTION_NAME))
        return "";
    return (const char *)bytes.data + offset;
}

bool ct_elf_section(const struct ct_elf *elf, uint32_t index, struct ct_elf_section *out) {
    Elf64_Shdr header;
    if (index >= elf->shnum || !read_section(elf, index, &header))
        return false;
    *out = (struct ct_elf_section){
        .name = section_name(elf, header.sh_name),
        .type = header.sh_type,
        .link = header.sh_link,
        .flags = header.sh_flags,
        .size = header.sh_size,
        .entsize = header.sh_entsize,
        .bytes = {.data = elf->data, .address = header.sh_addr},
    };
    if (header.sh_type != SHT_NOBITS && header.sh_type != SHT_NULL && !(header.sh_flags & SHF_COMPRESSED))
        out->bytes = file_bytes(elf, header.sh_offset, header.sh_size, header.sh_addr);
    return true;
}

bool ct_elf_section_named(const struct ct_elf *elf, const char *name, struct ct_elf_section *out) {
    for (uint32_t i = 0; i < elf->shnum; i++)
        if (ct_elf_section(elf, i, out) && strcmp(out->name, name) == 0)
            return true;
    return false;
}

bool ct_elf_segment(const struct ct_elf *elf, uint32_t index, Elf64_Phdr *out) {
    return index < elf->phnum && elf->phoff <= elf->size &&
           copy_from(elf, elf->phoff + (uint64_t)index * sizeof *out, out, sizeof *out);
}

bool ct_elf_segment_of_type(const struct ct_elf *elf, uint32_t type, Elf64_Phdr *out) {
    for (uint32_t i = 0; ct_elf_segment(elf, i, out); i++)
        if (out->p_type == type)
            return true;
    return false;
}

struct ct_span ct_elf_segment_bytes(const struct ct_elf *elf, const Elf64_Phdr *segment) {
    return file_bytes(elf, segment->p_offset, segment->p_filesz, segment->p_vaddr);
}

struct ct_span ct_elf_at(const struct ct_elf *elf, uint64_t address) {
    Elf64_Phdr segment;
    for (uint32_t i = 0; ct_elf_segment(elf, i, &segment); i++) {
        if (segment.p_type != PT_LOAD || address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz)
            continue;
        struct ct_span bytes = ct_elf_segment_bytes(elf, &segment);
        uint64_t skip = address - segment.p_vaddr;
        if (skip < bytes.size)
            return (struct ct_span){.data = bytes.data + skip, .size = bytes.size - skip, .address = address};
    }
    return (struct ct_span){.data = elf->data};
}

bool ct_elf_dynamic(const struct ct_elf *elf, int64_t tag, uint64_t *value) {
    Elf64_Phdr segment;
    if (!ct_elf_segment_of_type(elf, PT_DYNAMIC, &segment))
        return false;
    struct ct_span bytes = ct_elf_segment_bytes(elf, &segment);
    struct ct_reader r = ct_reader_of(bytes.data, bytes.size);
    while (ct_reader_left(&r) >= sizeof(Elf64_Dyn)) {
        int64_t entry = (int64_t)ct_reader_u64(&r);
        *value = ct_reader_u64(&r);
        if (entry == tag)
            return true;
        if (entry == DT_NULL)
            break;
    }
    return false;
}

/* ---- build-id ---- */

static void write_hex(char *out, const uint8_t *bytes, size_t size) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = 0;
}

/* True when the notes contain it. */
static bool read_notes(struct ct_span bytes, char *out) {
    struct ct_reader r = ct_reader_of(bytes.data, bytes.size < MAX_NOTES ? bytes.size : MAX_NOTES);
    while (ct_reader_left(&r) >= sizeof(Elf64_Nhdr)) {
        uint32_t name_size = ct_reader_u32(&r), size = ct_reader_u32(&r), type = ct_reader_u32(&r);
        const uint8_t *name = r.at;
        ct_reader_skip(&r, ((uint64_t)name_size + 3) & ~UINT64_C(3));
        const uint8_t *description = r.at;
        if (r.bad || size > ct_reader_left(&r))
            return false;
        if (type == NT_GNU_BUILD_ID && name_size == 4 && memcmp(name, "GNU", 4) == 0 && size <= CT_MAX_BUILD_ID) {
            write_hex(out, description, size);
            return true;
        }
        ct_reader_skip(&r, ((uint64_t)size + 3) & ~UINT64_C(3));
    }
    return false;
}

void ct_elf_build_id(const struct ct_elf *elf, char out[CT_BUILD_ID_TEXT]) {
    Elf64_Phdr segment;
    struct ct_elf_section section;
    *out = 0;
    for (uint32_t i = 0; ct_elf_segment(elf, i, &segment); i++)
        if (segment.p_type == PT_NOTE && read_notes(ct_elf_segment_bytes(elf, &segment), out))
            return;
    if (ct_elf_section_named(elf, ".note.gnu.build-id", &section))
        read_notes(section.bytes, out);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds-checked view of an ELF file: headers, sections, segments, dynamic entries.
 *
 * Nothing in the file is trusted: an offset or size that leaves the file hides the piece and never causes a read
 * outside. The view only refers to the caller's bytes, so there is nothing to free. */
#ifndef CT_SYMBOLS_ELF_IMAGE_H
#define CT_SYMBOLS_ELF_IMAGE_H

#include "isa/machine.h"
#include "symbols/reader.h"
#include <elf.h>

struct ct_elf {
    const uint8_t *data;
    size_t size;
    const struct ct_machine *machine;
    uint64_t phoff, shoff;
    uint32_t phnum, shnum, shstrndx;
};

struct ct_elf_section {
    const char *name; /* "" when it cannot be read; always terminated */
    uint32_t type, link;
    uint64_t flags, size, entsize;
    struct ct_span bytes; /* empty when the file has none */
};

/* CT_ERR_BAD_FILE: not a linked ELF file; CT_ERR_UNSUPPORTED: for another kind of machine. */
int ct_elf_open(struct ct_elf *elf, const void *data, size_t size);

/* As ct_elf_open, for code that is to run here: CT_ERR_UNSUPPORTED also of a machine that is not this one. */
int ct_elf_open_host(struct ct_elf *elf, const void *data, size_t size);

/* False when there is no such section or segment, or it cannot be read. */
bool ct_elf_section(const struct ct_elf *elf, uint32_t index, struct ct_elf_section *out);
bool ct_elf_section_named(const struct ct_elf *elf, const char *name, struct ct_elf_section *out);
bool ct_elf_segment(const struct ct_elf *elf, uint32_t index, Elf64_Phdr *out);
bool ct_elf_segment_of_type(const struct ct_elf *elf, uint32_t type, Elf64_Phdr *out);

/* The file's bytes from a virtual address to the end of its segment; empty when there are none. */
struct ct_span ct_elf_at(const struct ct_elf *elf, uint64_t address);

/* The segment's own bytes; empty when they are not in the file. */
struct ct_span ct_elf_segment_bytes(const struct ct_elf *elf, const Elf64_Phdr *segment);

#define CT_MAX_BUILD_ID  64 /* bytes */
#define CT_BUILD_ID_TEXT (2 * CT_MAX_BUILD_ID + 1)
/* As lower-case hex; "" when there is none. */
void ct_elf_build_id(const struct ct_elf *elf, char out[CT_BUILD_ID_TEXT]);

/* Value of the first dynamic entry with this tag; false when there is none. */
bool ct_elf_dynamic(const struct ct_elf *elf, int64_t tag, uint64_t *value);

#endif

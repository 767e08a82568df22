/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the symbols of a stripped module: a separate debug file, by build-id or .gnu_debuglink, or the compressed
 * symbol table that some distributions leave in the file itself (.gnu_debugdata).
 *
 * A file is accepted when it has the module's build-id or, where one of the two has none, the checksum in the module's
 * .gnu_debuglink. Everything else about it is as untrusted as the module itself. */
#ifndef CT_SYMBOLS_DEBUG_FILE_H
#define CT_SYMBOLS_DEBUG_FILE_H

#include "symbols/elf_image.h"
#include "symbols/functions.h"
#include <limits.h>

struct ct_debug_file {
    struct ct_elf elf;
    void *bytes;
    size_t size;
    bool mapped;         /* else malloc'ed */
    char path[PATH_MAX]; /* "" when it comes from the module itself */
};

/* True when the file itself has all of its symbols: no search is needed. */
bool ct_debug_has_symbols(const struct ct_elf *elf);

/* Finds the module's debug file; false: there is none. */
bool ct_debug_file_find(struct ct_debug_file *out, const struct ct_elf *elf, const struct ct_debug_search *search);
/* Opens the contents of .gnu_debugdata; false: there is none, or it cannot be read. */
bool ct_debug_data_open(struct ct_debug_file *out, const struct ct_elf *elf);
void ct_debug_file_close(struct ct_debug_file *file);

/* Maps a file and reads its header; false: not an ELF file that we can read. */
bool ct_debug_file_map(struct ct_debug_file *out, const char *path);

/* The checksum of .gnu_debuglink. */
uint32_t ct_debug_crc(const void *bytes, size_t size);

/* Unpacks .xz into malloc'ed memory; false when it is damaged, larger than `limit`, or liblzma is not installed. */
bool ct_xz_unpack(const void *bytes, size_t size, size_t limit, void **out, size_t *out_size);

#endif

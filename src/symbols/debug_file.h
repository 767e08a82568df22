/* Where the symbols of a stripped module are: a separate debug file, found by build-id or .gnu_debuglink, or the compressed
 * symbol table that some distributions leave in the file itself (.gnu_debugdata).
 *
 * A file is believed when it has the module's build-id or, where one of the two has none, the checksum that the module's
 * .gnu_debuglink tells. Everything else about it is as untrusted as the module itself. */
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
    char path[PATH_MAX]; /* "" when it came out of the module */
};

/* True when the file itself has all of its symbols: nothing to look for. */
bool ct_debug_has_symbols(const struct ct_elf *elf);

/* The module's debug file; false: there is none. */
bool ct_debug_file_find(struct ct_debug_file *out, const struct ct_elf *elf, const struct ct_debug_search *search);
/* What .gnu_debugdata holds; false: there is none, or it cannot be read. */
bool ct_debug_data_open(struct ct_debug_file *out, const struct ct_elf *elf);
void ct_debug_file_close(struct ct_debug_file *file);

/* Maps a file and reads its header; false: it is no ELF file that we can read. */
bool ct_debug_file_map(struct ct_debug_file *out, const char *path);

/* As .gnu_debuglink has it. */
uint32_t ct_debug_crc(const void *bytes, size_t size);

/* Unpacks .xz into malloc'ed memory; false when it is damaged, larger than `limit`, or liblzma is not on this machine. */
bool ct_xz_unpack(const void *bytes, size_t size, size_t limit, void **out, size_t *out_size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Function tables of ELF modules: the union of .symtab, .dynsym, the FDEs of .eh_frame and, for stripped modules,
 * .gnu_debugdata, the symbols of a separate debug file and Go's .gopclntab; one entry per address.
 *
 * Used by the process that knows names (controller, or a process that hooks itself), never to the agent. A table is
 * immutable once opened and may be read by any thread. Damaged files give an error or a smaller table, never a crash;
 * functions outside the file's executable ranges are cut off. */
#ifndef CT_SYMBOLS_FUNCTIONS_H
#define CT_SYMBOLS_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ct_func_flag {
    CT_FUNC_NAMED = 1 << 0,
    CT_FUNC_FDE = 1 << 1,       /* .eh_frame describes it */
    CT_FUNC_ODD_ENTRY = 1 << 2, /* its FDE says that the return address is not on top of the stack at the first byte */
    CT_FUNC_IFUNC = 1 << 3,     /* resolver of an indirect function */
    CT_FUNC_PLT = 1 << 4,       /* in a .plt* section */
    CT_FUNC_COLD = 1 << 5,      /* name ends in .cold or .cold.N */
    /* a personality routine: a CIE of this file refers to it, or its name is that of one */
    CT_FUNC_PERSONALITY = 1 << 6,
    CT_FUNC_GLOBAL = 1 << 7,            /* global or weak symbol: other modules may see it */
    CT_FUNC_NO_RETURN_ADDRESS = 1 << 8, /* its FDE says that there is no caller (_start) */
    CT_FUNC_LENT_NAME = 1 << 9,         /* its name is a local one that only a debug file has */
    CT_FUNC_DOUBTFUL = 1 << 10,         /* only a debug file has it, inside another function */
    CT_FUNC_GUESSED = 1 << 11,          /* no table has it: code calls it (plan/target_guess.h) */
};

struct ct_func {
    uint64_t offset; /* virtual address in the file's own numbering; run address = load bias + offset */
    uint64_t size;   /* from symbol or FDE; without these (asm), up to the next function */
    uint32_t flags;  /* enum ct_func_flag */
    uint32_t name;   /* offset in the string table, 0: nameless */
};

/* An executable section or, in files without sections, segment. */
struct ct_text_range {
    uint64_t start, end; /* virtual addresses as in ct_func.offset */
    bool plt;
};

struct ct_functions;

int ct_functions_open(struct ct_functions **out, const char *path);
/* Opens a table from memory: for [vdso] and tests. The image is not needed afterwards. */
int ct_functions_open_image(struct ct_functions **out, const void *image, size_t size);
void ct_functions_close(struct ct_functions *table);

/* Where to look for debug files. */
struct ct_debug_search {
    const char *path; /* of the module, as its process sees it; NULL: not known */
    const char *root; /* path to that process's root directory when it is not ours ("/proc/7/root"); NULL: it is ours */
    const char *file; /* tried first; NULL: none */
    const char *const *directories; /* like /usr/lib/debug, which NULL means; NULL-terminated */
};
/* Like the two above, with the symbols of the debug file for modules that have none. A missing or damaged debug file
 * changes nothing. */
int ct_functions_open_full(struct ct_functions **out, const char *path);
int ct_functions_open_image_full(struct ct_functions **out, const void *image, size_t size,
                                 const struct ct_debug_search *search);
/* Changes when the debug files of a module appear, disappear or change; 0 when there are none. Reads only
 * directories. */
uint64_t ct_debug_identity(const void *image, size_t size, const struct ct_debug_search *search);

size_t ct_functions_count(const struct ct_functions *table);
const struct ct_func *ct_functions_at(const struct ct_functions *table, size_t index);       /* sorted by offset */
const char *ct_functions_name(const struct ct_functions *table, const struct ct_func *func); /* "" when nameless */
/* The function that contains the offset, the innermost when several do, or NULL. */
const struct ct_func *ct_functions_find(const struct ct_functions *table, uint64_t offset);
/* Finds a function by exact name, without version; all names of a function count. Returns the first when several
 * match. */
const struct ct_func *ct_functions_by_name(const struct ct_functions *table, const char *name);

size_t ct_functions_text_count(const struct ct_functions *table);
const struct ct_text_range *ct_functions_text_at(const struct ct_functions *table, size_t index);

/* Personality routines that .eh_frame refers to, in this module or another. Direct: `offset` is that of the routine.
 * Indirect: at bias + offset is an 8-byte slot into which the loader has put the routine's run address. */
struct ct_personality {
    uint64_t offset;
    bool indirect;
};
size_t ct_functions_personality_count(const struct ct_functions *table);
const struct ct_personality *ct_functions_personality_at(const struct ct_functions *table, size_t index);

/* Build-id as lower-case hex, "" when there is none. */
const char *ct_functions_build_id(const struct ct_functions *table);

/* Modules loaded in this process (dl_iterate_phdr), the program first. */
struct ct_module_info {
    const char *path;    /* real path; valid during the callback */
    uint64_t bias;       /* run address = bias + offset */
    uint64_t start, end; /* the range of its segments */
};
int ct_modules_each(int (*each)(void *arg, const struct ct_module_info *module), void *arg);

#endif

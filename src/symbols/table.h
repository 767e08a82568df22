/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a function table, and the candidates for it. Private to src/symbols. */
#ifndef CT_SYMBOLS_TABLE_H
#define CT_SYMBOLS_TABLE_H

#include "symbols/elf_image.h"
#include "symbols/functions.h"

#define CT_MAX_PERSONALITIES 64
/* Names may share their ends. All names together may have this many bytes more than the strings; code that copies them
 * relies on it. */
#define CT_MAX_SHARED_NAMES ((uint64_t)64 << 20)

/* A slot of the index by name; name 0: empty. */
struct ct_name_slot {
    uint32_t name, func, hash;
};

struct ct_functions {
    struct ct_func *funcs; /* by offset, all different */
    uint64_t *reach;       /* reach[i]: greatest end of funcs[0..i], so that a search backwards knows when to stop */
    size_t count;
    char *names; /* names[0] is 0; ends in 0 */
    size_t names_size;
    struct ct_name_slot *index; /* every name of every function: open addressing, a power of two, at most half full */
    size_t index_size;
    struct ct_text_range *text; /* by start */
    size_t text_count;
    struct ct_personality personalities[CT_MAX_PERSONALITIES];
    size_t personality_count;
    char build_id[CT_BUILD_ID_TEXT];
};

/* The order is the rank: a later kind gives the better name. */
enum ct_candidate_kind { CT_FROM_FDE, CT_FROM_LABEL /* symbol without type */, CT_FROM_SYMBOL };

/* A reason to believe that a function begins at `offset`. */
struct ct_candidate {
    uint64_t offset, size;
    uint32_t flags; /* enum ct_func_flag */
    uint32_t name;  /* in the table's names */
    uint32_t place; /* CT_FROM_FDE: of its record */
    uint16_t kind;  /* enum ct_candidate_kind */
    uint16_t lent;  /* a symbol of a debug file: the module itself is trusted more */
};

struct ct_candidates {
    struct ct_candidate *items;
    size_t count, capacity;
};

/* CT_ERR_NO_MEMORY, else 0. */
int ct_candidates_add(struct ct_candidates *list, const struct ct_candidate *item);
/* Sorts by offset; equal ones stay in the order in which they were added. */
int ct_candidates_sort(struct ct_candidates *list);

/* The executable range around an offset, or NULL. */
const struct ct_text_range *ct_text_find(const struct ct_functions *table, uint64_t offset);
int ct_text_read(struct ct_functions *table, const struct ct_elf *elf);

/* Adds the symbols of .symtab and .dynsym, and copies their strings into the table's names. */
int ct_symbols_read(struct ct_functions *table, const struct ct_elf *elf, struct ct_candidates *list);
/* Adds the .symtab of a debug file; of a damaged one, what can be read. */
int ct_symbols_read_debug(struct ct_functions *table, const struct ct_elf *debug, struct ct_candidates *list);
/* Adds the functions of Go's own table, if the file has one that is not damaged, and copies their names. */
int ct_go_functions_read(struct ct_functions *table, const struct ct_elf *elf, struct ct_candidates *list);
/* Length up to the symbol version ("name@@VERSION"), limited so that damaged strings cost little. */
size_t ct_symbol_name_length(const char *name);

/* The index by name: created once, for at most `count` names, then filled in address order. */
int ct_names_create(struct ct_functions *table, size_t count);
void ct_names_add(struct ct_functions *table, uint32_t name, size_t func);

/* Turns sorted candidates into the table's functions. */
struct ct_eh_frame;
int ct_functions_merge(struct ct_functions *table, const struct ct_candidates *list, const struct ct_eh_frame *frame);

/* Fills the table's personalities and marks those that are functions of this file. */
void ct_personalities_read(struct ct_functions *table, const struct ct_elf *elf, const struct ct_eh_frame *frame);

#endif

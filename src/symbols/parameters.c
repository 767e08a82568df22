/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures of functions, from DWARF: see parameters.h. Each is read once and kept. */
#include "symbols/parameters.h"
#include "symbols/parameters_internal.h"
#include <contrail/status.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32768, TABLE = 4096, MAX_PARAMETERS = 64, MAX_NODES = 512 };

struct ct_parameters_block {
    struct ct_parameters_block *next;
    max_align_t bytes[];
};

struct ct_parameters_entry {
    struct ct_parameters_entry *next;
    uint64_t offset;
    struct ct_signature signature;
    bool known;
};

int ct_parameters_open(struct ct_parameters **out, const char *path) {
    struct ct_parameters *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p)
        return CT_ERR_NO_MEMORY;
    p->dw = ct_dw();
    p->table = calloc(TABLE, sizeof *p->table);
    int status = p->table ? ct_lines_open(&p->lines, path) : CT_ERR_NO_MEMORY;
    p->machine = status ? NULL : ct_lines_machine(p->lines);
    if (!status && !p->machine)
        status = CT_ERR_UNSUPPORTED;
    if (status) {
        ct_parameters_close(p);
        return status;
    }
    p->convention = ct_convention_of(p->machine);
    *out = p;
    return 0;
}

const struct ct_machine *ct_parameters_machine(const struct ct_parameters *p) {
    return p->machine;
}

void ct_parameters_close(struct ct_parameters *p) {
    if (!p)
        return;
    for (struct ct_parameters_block *block = p->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    ct_lines_close(p->lines);
    free(p->table);
    free(p);
}

void *ct_parameters_memory(struct ct_parameters *p, size_t size) {
    size = (size + 15) & ~(size_t)15;
    if (size > p->left) {
        size_t room = size > BLOCK ? size : BLOCK;
        struct ct_parameters_block *block = calloc(1, sizeof *block + room);
        if (!block)
            return NULL;
        block->next = p->blocks;
        p->blocks = block;
        p->left = room;
    }
    /* Blocks are filled from their ends; a large one is filled at once. */
    p->left -= size;
    return (char *)p->blocks->bytes + p->left;
}

/* ---- where values are on entry ---- */

static bool is_register(struct ct_parameters *p, const Dwarf_Op *op, int *piece) {
    bool numbered = op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31;
    if (!numbered && op->atom != DW_OP_regx)
        return false;
    *piece = p->convention->piece(numbered ? (unsigned)op->atom - DW_OP_reg0 : (unsigned)op->number);
    return true;
}

/* The place that the location gives. A location that applies everywhere is trusted only for functions without a
 * convention: others describe a variable this way that is first moved to its place. */
static struct ct_value_place place_by_location(struct ct_parameters *p, Dwarf_Die *die, uint64_t entry,
                                               bool convention) {
    const struct ct_value_place unknown = {0};
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    Dwarf_Word word;
    int piece = -1;
    if (p->dw->dwarf_attr_integrate(die, DW_AT_const_value, &attribute) && !p->dw->dwarf_formudata(&attribute, &word)) {
        return (struct ct_value_place){.kind = CT_VALUE_PLACE_CONSTANT, .constant = word};
    }
    if (!p->dw->dwarf_attr(die, DW_AT_location, &attribute) ||
        (convention && p->dw->dwarf_whatform(&attribute) == DW_FORM_exprloc) ||
        p->dw->dwarf_getlocation_addr(&attribute, entry, &ops, &count, 1) != 1)
        return unknown;
    if (count != 1 || !is_register(p, &ops[0], &piece) || piece < 0)
        return unknown;
    return (struct ct_value_place){
        .kind = CT_VALUE_PLACE_REGISTERS, .piece_count = 1, .piece_size = 8, .pieces = {(uint8_t)piece}};
}

/* True when something is known about the place on entry, even that it is in the frame. */
static bool has_location(struct ct_parameters *p, Dwarf_Die *die, uint64_t entry) {
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    return p->dw->dwarf_attr(die, DW_AT_location, &attribute) &&
           p->dw->dwarf_getlocation_addr(&attribute, entry, &ops, &count, 1) == 1;
}

/* ---- languages and conventions ---- */

static bool is_cxx(int language) {
    switch (language) {
    case DW_LANG_C_plus_plus:
    case DW_LANG_C_plus_plus_03:
    case DW_LANG_C_plus_plus_11:
    case DW_LANG_C_plus_plus_14:
    case DW_LANG_ObjC_plus_plus:
        return true;
    default:
        return language == 0x2b || language == 0x3a; /* C++17 and 20, as later versions number them */
    }
}

static bool is_c(int language) {
    switch (language) {
    case DW_LANG_C:
    case DW_LANG_C89:
    case DW_LANG_C99:
    case DW_LANG_C11:
    case DW_LANG_ObjC:
        return true;
    default:
        return language == 0x2c; /* C17 */
    }
}

static bool is_external(struct ct_parameters *p, Dwarf_Die *die) {
    Dwarf_Attribute attribute;
    bool flag = false;
    return p->dw->dwarf_attr_integrate(die, DW_AT_external, &attribute) && !p->dw->dwarf_formflag(&attribute, &flag) &&
           flag;
}

/* LLVM removes unused parameters and results from functions that are only called in their own file, without recording
 * it. A function that is described at each of its calls has been optimized. */
static bool may_have_lost_its_result(struct ct_parameters *p, Dwarf_Die *die, Dwarf_Die *unit) {
    Dwarf_Attribute attribute;
    const char *producer =
        p->dw->dwarf_attr(unit, DW_AT_producer, &attribute) ? p->dw->dwarf_formstring(&attribute) : NULL;
    bool optimized = p->dw->dwarf_attr(die, DW_AT_call_all_calls, &attribute) ||
                     p->dw->dwarf_attr(die, DW_AT_GNU_all_call_sites, &attribute) ||
                     p->dw->dwarf_attr(die, DW_AT_call_all_tail_calls, &attribute);
    return optimized && !(producer && strncmp(producer, "GNU", 3) == 0);
}

static void set_convention(struct ct_parameters *p, Dwarf_Die *die, int language, bool clone,
                           struct ct_signature *signature) {
    Dwarf_Attribute attribute;
    Dwarf_Word convention = DW_CC_normal;
    if (p->dw->dwarf_attr_integrate(die, DW_AT_calling_convention, &attribute))
        p->dw->dwarf_formudata(&attribute, &convention);
    bool rust = language == DW_LANG_Rust;
    signature->convention = !clone && convention == DW_CC_normal && (is_c(language) || is_cxx(language) || rust);
    signature->plain_only = rust;
}

/* ---- functions ---- */

static const char *name_of(struct ct_parameters *p, Dwarf_Die *die) {
    Dwarf_Attribute attribute;
    const char *name = NULL;
    if (p->dw->dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
        p->dw->dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
        name = p->dw->dwarf_formstring(&attribute);
    if (!name)
        name = p->dw->dwarf_diename(die);
    return name ? name : "";
}

/* Constructors and destructors are declared with a parameter that none of the functions made from them takes. */
static bool is_parameter(struct ct_parameters *p, Dwarf_Die *die) {
    const char *name = p->dw->dwarf_tag(die) == DW_TAG_formal_parameter ? p->dw->dwarf_diename(die) : "__in_chrg";
    return !name || strcmp(name, "__in_chrg") != 0;
}

static size_t count_parameters(struct ct_parameters *p, Dwarf_Die *die) {
    Dwarf_Die child;
    size_t count = 0;
    if (p->dw->dwarf_child(die, &child))
        return 0;
    do
        count += is_parameter(p, &child);
    while (p->dw->dwarf_siblingof(&child, &child) == 0);
    return count;
}

/* The entry whose children are the parameters: that of the function itself, unless parameters are missing there that
 * the function it was made from has. */
static bool whole_list(struct ct_parameters *p, Dwarf_Die *die, Dwarf_Die *list) {
    Dwarf_Attribute attribute;
    Dwarf_Die origin;
    *list = *die;
    if (!p->dw->dwarf_attr(die, DW_AT_abstract_origin, &attribute) || !p->dw->dwarf_formref_die(&attribute, &origin))
        return true;
    if (count_parameters(p, &origin) <= count_parameters(p, die))
        return true;
    *list = origin;
    return false;
}

/* A parameter without a location on entry of a function that only its own file calls may not be passed at all. */
static void forget_unlocated(struct ct_parameters *p, Dwarf_Die *list, uint64_t entry, struct ct_signature *s) {
    Dwarf_Die child;
    size_t i = 0;
    if (p->dw->dwarf_child(list, &child))
        return;
    do
        if (is_parameter(p, &child) && i < s->count && !has_location(p, &child, entry))
            s->parameters[i++].place = (struct ct_value_place){0};
        else
            i += is_parameter(p, &child);
    while (p->dw->dwarf_siblingof(&child, &child) == 0);
}

static void read_parameters(struct ct_parameters *p, Dwarf_Die *list, bool own, uint64_t entry, bool cxx,
                            struct ct_signature *s) {
    size_t count = count_parameters(p, list);
    Dwarf_Die child;
    if (count > MAX_PARAMETERS)
        count = MAX_PARAMETERS;
    s->parameters = ct_parameters_memory(p, (count + 1) * sizeof *s->parameters);
    if (!s->parameters || p->dw->dwarf_child(list, &child))
        return;
    do {
        s->variadic |= p->dw->dwarf_tag(&child) == DW_TAG_unspecified_parameters;
        if (!is_parameter(p, &child) || s->count == count)
            continue;
        struct ct_parameter *parameter = &s->parameters[s->count++];
        const char *name = p->dw->dwarf_diename(&child);
        parameter->name = name ? name : "";
        parameter->type = ct_parameters_type(p, &child, cxx, 0);
        if (!strcmp(parameter->name, "__vtt_parm"))
            parameter->type = &ct_type_unknown; /* some constructors have it, passed or not */
        bool scalar = parameter->type->kind != CT_TYPE_STRUCT && parameter->type->kind != CT_TYPE_UNKNOWN;
        if (own && scalar && parameter->type->size <= 8)
            parameter->place = place_by_location(p, &child, entry, s->convention);
    } while (p->dw->dwarf_siblingof(&child, &child) == 0);
}

static void read_signature(struct ct_parameters *p, uint64_t offset, bool clone, struct ct_parameters_entry *entry) {
    Dwarf_Die die, unit, list;
    struct ct_signature *s = &entry->signature;
    if (!ct_lines_subprogram(p->lines, offset, &die, &unit))
        return;
    int language = p->dw->dwarf_srclang(&unit);
    if (language == DW_LANG_Mips_Assembler) /* on all machines: it says where functions are, not what they take */
        return;
    bool cxx = is_cxx(language) || !is_c(language);
    p->nodes = MAX_NODES;
    s->name = name_of(p, &die);
    set_convention(p, &die, language, clone, s);
    s->result = ct_parameters_type(p, &die, cxx, 0);
    bool own = whole_list(p, &die, &list);
    read_parameters(p, &list, own, offset, cxx, s);
    if (!s->parameters)
        return;
    s->local = !is_external(p, &die);
    ct_signature_place(p->convention, s);
    if (s->local) {
        forget_unlocated(p, &list, offset, s);
        if (may_have_lost_its_result(p, &die, &unit))
            s->result_place = (struct ct_value_place){0};
    }
    entry->known = true;
}

const struct ct_signature *ct_parameters_find(struct ct_parameters *p, uint64_t offset, bool clone) {
    struct ct_parameters_entry **slot = &p->table[(offset ^ offset >> 12) % TABLE], *entry;
    for (entry = *slot; entry && entry->offset != offset; entry = entry->next) {
    }
    if (!entry) {
        entry = ct_parameters_memory(p, sizeof *entry);
        if (!entry)
            return NULL;
        entry->offset = offset;
        entry->next = *slot;
        *slot = entry;
        read_signature(p, offset, clone, entry);
    }
    return entry->known ? &entry->signature : NULL;
}

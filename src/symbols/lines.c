/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines and inlined functions: see lines.h.
 *
 * .debug_aranges is not used, because clang does not write it: the ranges of all units are read when a file is opened,
 * and the functions of all units when inlined ones are first requested. */
#include "symbols/lines.h"
#include "base/grow.h"
#include "symbols/lines_tree.h"
#include <contrail/status.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_DEPTH   64
#define MAX_INLINES 256 /* of one function */

struct range {
    uint64_t start, end;
    uint64_t reach; /* greatest end up to here, for the search backwards */
    size_t unit;
};

struct unit {
    Dwarf_Die die;  /* has the lines */
    Dwarf_Die tree; /* has the functions: `die`, or the unit of the .dwo file */
};

struct subprogram {
    uint64_t entry;
    size_t unit;
    Dwarf_Die die;
};

struct ct_lines {
    const struct ct_dw *dw;
    Dwarf *dwarf;
    int file;
    struct unit *units;
    size_t unit_count, unit_room;
    struct range *ranges;
    size_t range_count, range_room;
    struct subprogram *subprograms;
    size_t subprogram_count, subprogram_room;
    size_t missing;
    bool subprograms_read, no_memory;
};

/* ---- units ---- */

static bool add_range(struct ct_lines *l, uint64_t start, uint64_t end) {
    if (!ct_grow(&l->ranges, &l->range_room, l->range_count, sizeof *l->ranges, 64))
        return false;
    if (end > start && start) /* sections that the linker dropped are at 0 */
        l->ranges[l->range_count++] = (struct range){.start = start, .end = end, .unit = l->unit_count - 1};
    return true;
}

static bool add_unit(struct ct_lines *l, const Dwarf_Die *die, const Dwarf_Die *tree) {
    if (!ct_grow(&l->units, &l->unit_room, l->unit_count, sizeof *l->units, 64))
        return false;
    l->units[l->unit_count++] = (struct unit){.die = *die, .tree = *tree};
    Dwarf_Addr base, start, end;
    ptrdiff_t at = 0;
    while ((at = l->dw->dwarf_ranges((Dwarf_Die *)die, at, &base, &start, &end)) > 0)
        if (!add_range(l, start, end))
            return false;
    return true;
}

static int by_start(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end; /* the inner one comes later */
}

static int read_units(struct ct_lines *l) {
    Dwarf_CU *cu = NULL;
    Dwarf_Half version;
    uint8_t type;
    Dwarf_Die die, sub;
    while (l->dw->dwarf_get_units(l->dwarf, cu, &cu, &version, &type, &die, &sub) == 0) {
        if (type != DW_UT_compile && type != DW_UT_skeleton)
            continue;
        bool split = type == DW_UT_skeleton && sub.addr;
        l->missing += type == DW_UT_skeleton && !sub.addr;
        if (!add_unit(l, &die, split ? &sub : &die))
            return CT_ERR_NO_MEMORY;
    }
    uint64_t reach = 0;
    if (l->range_count)
        qsort(l->ranges, l->range_count, sizeof *l->ranges, by_start);
    for (size_t i = 0; i < l->range_count; i++)
        l->ranges[i].reach = reach = l->ranges[i].end > reach ? l->ranges[i].end : reach;
    return l->unit_count ? 0 : CT_ERR_NOT_FOUND;
}

int ct_lines_open(struct ct_lines **out, const char *path) {
    const struct ct_dw *dw = ct_dw();
    *out = NULL;
    if (!dw)
        return CT_ERR_UNSUPPORTED;
    struct ct_lines *l = calloc(1, sizeof *l);
    if (!l)
        return CT_ERR_NO_MEMORY;
    l->dw = dw;
    l->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (l->file >= 0)
        l->dwarf = dw->dwarf_begin(l->file, DWARF_C_READ);
    int status = l->dwarf ? read_units(l) : CT_ERR_NOT_FOUND;
    if (status) {
        ct_lines_close(l);
        return status;
    }
    *out = l;
    return 0;
}

void ct_lines_close(struct ct_lines *l) {
    if (!l)
        return;
    if (l->dwarf)
        l->dw->dwarf_end(l->dwarf);
    if (l->file >= 0)
        close(l->file);
    free(l->units);
    free(l->ranges);
    free(l->subprograms);
    free(l);
}

const struct ct_machine *ct_lines_machine(const struct ct_lines *l) {
    Elf64_Ehdr header;
    bool known = pread(l->file, &header, sizeof header, 0) == (ssize_t)sizeof header &&
                 header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB;
    return known ? ct_machine_by_elf(header.e_machine) : NULL;
}

size_t ct_lines_missing_units(const struct ct_lines *lines) {
    return lines->missing;
}

/* The innermost range around the offset. */
static struct unit *unit_at(const struct ct_lines *l, uint64_t offset) {
    size_t low = 0, high = l->range_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->ranges[middle].start <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low > 0 && l->ranges[low - 1].reach > offset; low--)
        if (offset < l->ranges[low - 1].end)
            return &l->units[l->ranges[low - 1].unit];
    return NULL;
}

/* ---- lines ---- */

static uint64_t address_of(const struct ct_dw *dw, Dwarf_Lines *rows, size_t i) {
    Dwarf_Addr address = 0;
    dw->dwarf_lineaddr(dw->dwarf_onesrcline(rows, i), &address);
    return address;
}

static bool is_useful(const struct ct_dw *dw, Dwarf_Line *row) {
    bool end;
    int line;
    return !dw->dwarf_lineendsequence(row, &end) && !end && !dw->dwarf_lineno(row, &line) && line;
}

/* The row that applies at the address; NULL: none. Of several rows at one address, the first is the function's own
 * line, where others belong to code inlined at its beginning; the last is the line of the instruction. */
static Dwarf_Line *row_at(const struct ct_dw *dw, Dwarf_Lines *rows, size_t count, uint64_t offset, bool first_row) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (address_of(dw, rows, middle) <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return NULL;
    size_t first = low - 1;
    uint64_t address = address_of(dw, rows, first);
    while (first > 0 && address_of(dw, rows, first - 1) == address)
        first--;
    for (size_t i = first; i < low; i++) { /* a sequence may end where another one begins */
        Dwarf_Line *row = dw->dwarf_onesrcline(rows, first_row ? i : low - 1 - (i - first));
        if (is_useful(dw, row))
            return row;
    }
    return NULL;
}

static bool find_line(struct ct_lines *l, uint64_t offset, bool first_row, char *text, size_t size) {
    struct unit *unit = unit_at(l, offset);
    Dwarf_Lines *rows;
    size_t count;
    int line;
    if (!unit || l->dw->dwarf_getsrclines(&unit->die, &rows, &count))
        return false;
    Dwarf_Line *row = row_at(l->dw, rows, count, offset, first_row);
    const char *file = row ? l->dw->dwarf_linesrc(row, NULL, NULL) : NULL;
    if (!file || l->dw->dwarf_lineno(row, &line))
        return false;
    int length = snprintf(text, size, "%s:%d", file, line);
    return length > 0 && (size_t)length < size;
}

bool ct_lines_find(struct ct_lines *l, uint64_t offset, char *text, size_t size) {
    return find_line(l, offset, true, text, size);
}

bool ct_lines_at(struct ct_lines *l, uint64_t offset, char *text, size_t size) {
    return find_line(l, offset, false, text, size);
}

/* ---- functions ---- */

static bool add_subprogram(struct ct_lines *l, size_t unit, const Dwarf_Die *die) {
    Dwarf_Addr entry, base, end;
    /* A function in several pieces, with cold ones elsewhere, begins where the first piece does. */
    if (l->dw->dwarf_entrypc((Dwarf_Die *)die, &entry) &&
        l->dw->dwarf_ranges((Dwarf_Die *)die, 0, &base, &entry, &end) <= 0)
        return true;
    if (!entry)
        return true;
    if (!ct_grow(&l->subprograms, &l->subprogram_room, l->subprogram_count, sizeof *l->subprograms, 64))
        return false;
    l->subprograms[l->subprogram_count++] = (struct subprogram){.entry = entry, .unit = unit, .die = *die};
    return true;
}

/* Functions may be inside namespaces, types and other functions. */
static bool read_tree(struct ct_lines *l, size_t unit, Dwarf_Die *parent, unsigned depth) {
    Dwarf_Die child;
    if (depth > MAX_DEPTH || l->dw->dwarf_child(parent, &child))
        return true;
    do {
        bool good = true;
        switch (l->dw->dwarf_tag(&child)) {
        case DW_TAG_subprogram:
            good = add_subprogram(l, unit, &child) && read_tree(l, unit, &child, depth + 1);
            break;
        case DW_TAG_namespace:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
        case DW_TAG_module:
        case DW_TAG_lexical_block:
            good = read_tree(l, unit, &child, depth + 1);
            break;
        default:
            break;
        }
        if (!good)
            return false;
    } while (l->dw->dwarf_siblingof(&child, &child) == 0);
    return true;
}

static int by_entry(const void *a, const void *b) {
    const struct subprogram *x = a, *y = b;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

static void read_subprograms(struct ct_lines *l) {
    if (l->subprograms_read)
        return;
    l->subprograms_read = true;
    for (size_t i = 0; i < l->unit_count; i++) {
        Dwarf_Die tree = l->units[i].tree;
        if (!read_tree(l, i, &tree, 0))
            break;
    }
    if (l->subprogram_count)
        qsort(l->subprograms, l->subprogram_count, sizeof *l->subprograms, by_entry);
}

static struct subprogram *subprogram_at(struct ct_lines *l, uint64_t offset) {
    read_subprograms(l);
    struct subprogram key = {.entry = offset};
    if (!l->subprogram_count)
        return NULL;
    return bsearch(&key, l->subprograms, l->subprogram_count, sizeof *l->subprograms, by_entry);
}

bool ct_lines_subprogram(struct ct_lines *l, uint64_t offset, Dwarf_Die *die, Dwarf_Die *unit) {
    struct subprogram *function = subprogram_at(l, offset);
    if (!function)
        return false;
    *die = function->die;
    *unit = l->units[function->unit].die;
    return true;
}

/* The linkage name, or the plain name for C; NULL: none. */
static const char *name_of(const struct ct_lines *l, Dwarf_Die *die) {
    Dwarf_Attribute attribute;
    const char *name = NULL;
    if (l->dw->dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
        l->dw->dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
        name = l->dw->dwarf_formstring(&attribute);
    return name ? name : l->dw->dwarf_diename(die);
}

/* ---- inlined functions ---- */

struct names {
    struct ct_lines *lines;
    char *text;
    size_t size, used, count;
};

static bool has_name(const struct names *n, const char *name) {
    size_t length = strlen(name);
    for (const char *at = n->text; at < n->text + n->used;) {
        size_t other = strcspn(at, "\t");
        if (other == length && memcmp(at, name, length) == 0)
            return true;
        at += other + 1;
    }
    return false;
}

static void add_name(struct names *n, const char *name) {
    if (n->count == MAX_INLINES || !name || !*name || strchr(name, '\t') || has_name(n, name))
        return;
    size_t length = strlen(name);
    if (length + 2 > n->size - n->used)
        return;
    if (n->used)
        n->text[n->used++] = '\t';
    memcpy(n->text + n->used, name, length + 1);
    n->used += length;
    n->count++;
}

static void collect_inlines(struct names *n, Dwarf_Die *parent, unsigned depth) {
    const struct ct_dw *dw = n->lines->dw;
    Dwarf_Die child;
    if (depth > MAX_DEPTH || dw->dwarf_child(parent, &child))
        return;
    do {
        int tag = dw->dwarf_tag(&child);
        if (tag == DW_TAG_inlined_subroutine)
            add_name(n, name_of(n->lines, &child));
        if (tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block)
            collect_inlines(n, &child, depth + 1);
    } while (dw->dwarf_siblingof(&child, &child) == 0);
}

size_t ct_lines_inlines(struct ct_lines *l, uint64_t offset, char *text, size_t size) {
    struct subprogram *function = subprogram_at(l, offset);
    struct names n = {.lines = l, .text = text, .size = size};
    *text = 0;
    if (function)
        collect_inlines(&n, &function->die, 0);
    return n.count;
}

/* ---- inlined frames ---- */

/* Where the function was inlined. */
static void call_of(struct ct_lines *l, struct unit *unit, Dwarf_Die *die, char *text, size_t size) {
    Dwarf_Attribute attribute;
    Dwarf_Files *files;
    Dwarf_Word file = 0, line = 0;
    size_t count;
    *text = 0;
    if (!l->dw->dwarf_attr(die, DW_AT_call_file, &attribute) || l->dw->dwarf_formudata(&attribute, &file) ||
        !l->dw->dwarf_attr(die, DW_AT_call_line, &attribute) || l->dw->dwarf_formudata(&attribute, &line) ||
        l->dw->dwarf_getsrcfiles(&unit->tree, &files, &count) || file >= count)
        return;
    const char *name = l->dw->dwarf_filesrc(files, file, NULL, NULL);
    if (name && snprintf(text, size, "%s:%llu", name, (unsigned long long)line) >= (int)size)
        *text = 0;
}

struct inlined {
    Dwarf_Die dies[MAX_DEPTH];
    size_t count;
};

/* The chain of inlined functions around the offset, outermost first. */
static bool find_chain(struct ct_lines *l, Dwarf_Die *parent, uint64_t offset, struct inlined *chain, unsigned depth) {
    Dwarf_Die child;
    if (depth > MAX_DEPTH || l->dw->dwarf_child(parent, &child))
        return false;
    do {
        int tag = l->dw->dwarf_tag(&child);
        if ((tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block) ||
            l->dw->dwarf_haspc(&child, offset) <= 0)
            continue;
        if (tag == DW_TAG_inlined_subroutine && chain->count < MAX_DEPTH)
            chain->dies[chain->count++] = child;
        find_chain(l, &child, offset, chain, depth + 1);
        return true;
    } while (l->dw->dwarf_siblingof(&child, &child) == 0);
    return false;
}

void ct_lines_inlined_at(struct ct_lines *l, uint64_t offset,
                         void (*each)(void *arg, const char *name, const char *call), void *arg) {
    char call[4096];
    read_subprograms(l);
    size_t low = 0, high = l->subprogram_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->subprograms[middle].entry <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || l->dw->dwarf_haspc(&l->subprograms[low - 1].die, offset) <= 0)
        return;
    struct subprogram *function = &l->subprograms[low - 1];
    struct inlined chain = {.count = 0};
    find_chain(l, &function->die, offset, &chain, 0);
    for (size_t i = chain.count; i-- > 0;) {
        const char *name = name_of(l, &chain.dies[i]);
        call_of(l, &l->units[function->unit], &chain.dies[i], call, sizeof call);
        each(arg, name ? name : "", call);
    }
}

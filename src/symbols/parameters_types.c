/* SPDX-License-Identifier: Apache-2.0 */
/* Types of parameters, read from DWARF: see parameters.h. Pointers are followed one level, to structures and char. */
#include "symbols/parameters_internal.h"
#include <string.h>

enum { MAX_DEPTH = 6, MAX_CHAIN = 32, MAX_MEMBERS = 64, MAX_ENUMERATORS = 4096, POINTED_NODES = 64 };

const struct ct_type ct_type_unknown = {
    .kind = CT_TYPE_UNKNOWN, .incomplete = true, .classes = {CT_CLASS_UNKNOWN, CT_CLASS_UNKNOWN}};
static const struct ct_type void_type = {.kind = CT_TYPE_VOID};

/* ---- attributes ---- */

static bool number_of(struct ct_parameters *p, Dwarf_Die *die, unsigned name, uint64_t *value) {
    Dwarf_Attribute attribute;
    Dwarf_Word word;
    if (!p->dw->dwarf_attr_integrate(die, name, &attribute) || p->dw->dwarf_formudata(&attribute, &word))
        return false;
    *value = word;
    return true;
}

static bool flag_of(struct ct_parameters *p, Dwarf_Die *die, unsigned name) {
    Dwarf_Attribute attribute;
    bool flag = false;
    return p->dw->dwarf_attr_integrate(die, name, &attribute) && !p->dw->dwarf_formflag(&attribute, &flag) && flag;
}

static bool type_die(struct ct_parameters *p, Dwarf_Die *die, Dwarf_Die *type) {
    Dwarf_Attribute attribute;
    return p->dw->dwarf_attr_integrate(die, DW_AT_type, &attribute) && p->dw->dwarf_formref_die(&attribute, type);
}

static const char *name_of(struct ct_parameters *p, Dwarf_Die *die) {
    const char *name = p->dw->dwarf_diename(die);
    return name ? name : "";
}

/* Skips typedefs and qualifiers. False: void. */
static bool strip_qualifiers(struct ct_parameters *p, Dwarf_Die *die) {
    for (int i = 0; i < MAX_CHAIN; i++)
        switch (p->dw->dwarf_tag(die)) {
        case DW_TAG_typedef:
        case DW_TAG_const_type:
        case DW_TAG_volatile_type:
        case DW_TAG_restrict_type:
        case DW_TAG_atomic_type:
        case DW_TAG_immutable_type:
        case DW_TAG_template_alias:
            if (!type_die(p, die, die))
                return false;
            break;
        default:
            return true;
        }
    return true;
}

/* ---- plain types ---- */

static void read_base(struct ct_parameters *p, Dwarf_Die *die, struct ct_type *type) {
    uint64_t encoding = 0, size = 0;
    const char *name = name_of(p, die);
    number_of(p, die, DW_AT_encoding, &encoding);
    number_of(p, die, DW_AT_byte_size, &size);
    type->size = type->align = size;
    switch (encoding) {
    case DW_ATE_signed:
        type->kind = CT_TYPE_SIGNED;
        break;
    case DW_ATE_unsigned:
        type->kind = CT_TYPE_UNSIGNED;
        break;
    case DW_ATE_boolean:
        type->kind = CT_TYPE_BOOL;
        break;
    case DW_ATE_signed_char:
    case DW_ATE_unsigned_char: /* a type that is not called char is a small number */
        type->kind = size == 1 && !strcmp(name, "char") ? CT_TYPE_CHAR
                     : encoding == DW_ATE_signed_char   ? CT_TYPE_SIGNED
                                                        : CT_TYPE_UNSIGNED;
        break;
    case DW_ATE_UTF:
        type->kind = CT_TYPE_UNSIGNED;
        break;
    case DW_ATE_float: /* of 16 bytes: __float128 is passed differently from long double */
        type->kind = size != 16 || !strcmp(name, "long double") ? CT_TYPE_FLOAT : CT_TYPE_UNKNOWN;
        break;
    default:
        break;
    }
}

static void read_enum(struct ct_parameters *p, Dwarf_Die *die, struct ct_type *type) {
    Dwarf_Die child, base;
    uint64_t size = 4;
    size_t count = 0;
    if (flag_of(p, die, DW_AT_declaration) && !number_of(p, die, DW_AT_byte_size, &size)) {
        return;
    }
    number_of(p, die, DW_AT_byte_size, &size);
    type->kind = CT_TYPE_ENUM;
    type->size = type->align = size;
    if (type_die(p, die, &base) && strip_qualifiers(p, &base)) {
        uint64_t encoding = 0;
        number_of(p, &base, DW_AT_encoding, &encoding);
        type->is_signed = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
    }
    if (p->dw->dwarf_child(die, &child))
        return;
    Dwarf_Die first = child;
    do
        count += p->dw->dwarf_tag(&child) == DW_TAG_enumerator;
    while (count < MAX_ENUMERATORS && p->dw->dwarf_siblingof(&child, &child) == 0);
    struct ct_enumerator *list = ct_parameters_memory(p, (count + 1) * sizeof *list);
    if (!list)
        return;
    child = first;
    do {
        Dwarf_Attribute attribute;
        Dwarf_Sword value;
        Dwarf_Word word;
        if (p->dw->dwarf_tag(&child) != DW_TAG_enumerator ||
            !p->dw->dwarf_attr_integrate(&child, DW_AT_const_value, &attribute))
            continue;
        if (p->dw->dwarf_formsdata(&attribute, &value)) {
            if (p->dw->dwarf_formudata(&attribute, &word))
                continue;
            value = (Dwarf_Sword)word;
        }
        list[type->enumerator_count++] = (struct ct_enumerator){name_of(p, &child), value};
    } while (type->enumerator_count < count && p->dw->dwarf_siblingof(&child, &child) == 0);
    type->enumerators = list;
}

static bool is_struct(struct ct_parameters *p, Dwarf_Die *die) {
    int tag = p->dw->dwarf_tag(die);
    return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

/* The structure that a pointer leads to. It has a budget of its own: what is only shown must not cost other parameters
 * their types. */
static const struct ct_type *read_pointed(struct ct_parameters *p, Dwarf_Die *pointer, bool cxx) {
    unsigned nodes = p->nodes;
    p->nodes = POINTED_NODES;
    const struct ct_type *type = ct_parameters_type(p, pointer, cxx, 1);
    p->nodes = nodes;
    return type->kind == CT_TYPE_STRUCT && type->member_count ? type : NULL;
}

/* Reads a pointer, and whether it points to char, or as a parameter to a structure. */
static void read_pointer(struct ct_parameters *p, Dwarf_Die *die, struct ct_type *type, bool cxx, unsigned depth) {
    Dwarf_Die target;
    uint64_t size = 0;
    type->kind = CT_TYPE_POINTER;
    type->size = type->align = 8;
    if (!type_die(p, die, &target) || !strip_qualifiers(p, &target))
        return;
    if (depth == 0 && is_struct(p, &target))
        type->element = read_pointed(p, die, cxx);
    if (p->dw->dwarf_tag(die) != DW_TAG_pointer_type)
        return;
    if (p->dw->dwarf_tag(&target) == DW_TAG_base_type && !strcmp(name_of(p, &target), "char") &&
        number_of(p, &target, DW_AT_byte_size, &size) && size == 1)
        type->kind = CT_TYPE_TEXT;
}

/* A member pointer to a function is two words. */
static void read_member_pointer(struct ct_parameters *p, Dwarf_Die *die, struct ct_type *type) {
    Dwarf_Die target;
    bool function = type_die(p, die, &target) && p->dw->dwarf_tag(&target) == DW_TAG_subroutine_type;
    type->kind = function ? CT_TYPE_UNKNOWN : CT_TYPE_SIGNED;
    type->size = function ? 16 : 8;
    type->align = 8;
}

static void read_array(struct ct_parameters *p, Dwarf_Die *die, struct ct_type *type, bool cxx, unsigned depth) {
    Dwarf_Die child;
    uint64_t count = 1;
    bool any = false;
    if (flag_of(p, die, DW_AT_GNU_vector))
        return;
    if (p->dw->dwarf_child(die, &child))
        return;
    do {
        uint64_t n = 0;
        if (p->dw->dwarf_tag(&child) != DW_TAG_subrange_type)
            continue;
        if (!number_of(p, &child, DW_AT_count, &n) && number_of(p, &child, DW_AT_upper_bound, &n))
            n++;
        any = true;
        count = n && count > UINT32_MAX / n ? UINT32_MAX : count * n;
    } while (p->dw->dwarf_siblingof(&child, &child) == 0);
    type->element = ct_parameters_type(p, die, cxx, depth + 1);
    if (!any || type->element->incomplete)
        return;
    type->kind = CT_TYPE_ARRAY;
    type->count = count; /* 0: a flexible array */
    type->size = count * type->element->size;
    type->align = type->element->align;
    type->by_reference = type->element->by_reference;
}

/* ---- structures ---- */

static bool read_member(struct ct_parameters *p, Dwarf_Die *die, struct ct_member *member, bool cxx, unsigned depth) {
    uint64_t offset = 0, bits = 0, at = 0, old = 0;
    *member = (struct ct_member){.name = p->dw->dwarf_tag(die) == DW_TAG_inheritance ? "" : name_of(p, die)};
    member->type = ct_parameters_type(p, die, cxx, depth + 1);
    if (number_of(p, die, DW_AT_bit_size, &bits)) {
        member->bit_size = (unsigned)bits;
        if (number_of(p, die, DW_AT_data_bit_offset, &at)) {
            member->offset = at / 8;
            member->bit_offset = (unsigned)(at % 8);
            return true;
        }
        /* The old form: counted from the highest bit of the storage unit. */
        if (!number_of(p, die, DW_AT_bit_offset, &old) || !number_of(p, die, DW_AT_data_member_location, &offset))
            return false;
        uint64_t unit = member->type->size;
        number_of(p, die, DW_AT_byte_size, &unit);
        if (old + bits > 8 * unit)
            return false;
        at = offset * 8 + 8 * unit - old - bits;
        member->offset = at / 8;
        member->bit_offset = (unsigned)(at % 8);
        return true;
    }
    Dwarf_Attribute attribute;
    if (p->dw->dwarf_attr_integrate(die, DW_AT_data_member_location, &attribute) &&
        !number_of(p, die, DW_AT_data_member_location, &offset))
        return false; /* an expression: a virtual base */
    member->offset = offset;
    return true;
}

/* Declarations of a class that decide how it is passed, where the compiler does not say so directly: a class with its
 * own code for copying, moving or destroying, or with virtual functions or bases, is passed by reference. */
struct special {
    bool reference, deleted, plain_copy, unsure;
};

/* True for copy and move constructors: they take a reference to their own class, and nothing else. */
static bool is_copy(struct ct_parameters *p, Dwarf_Die *function, const Dwarf_Die *class, struct special *special) {
    Dwarf_Die child, target;
    unsigned place = 0;
    bool own = false;
    if (p->dw->dwarf_child(function, &child))
        return false;
    do {
        if (p->dw->dwarf_tag(&child) != DW_TAG_formal_parameter)
            continue;
        int tag = place == 1 && type_die(p, &child, &target) ? p->dw->dwarf_tag(&target) : 0;
        if ((tag == DW_TAG_reference_type || tag == DW_TAG_rvalue_reference_type) && type_die(p, &target, &target) &&
            strip_qualifiers(p, &target))
            own = target.addr == class->addr;
        place++;
    } while (p->dw->dwarf_siblingof(&child, &child) == 0);
    special->unsure |= own && place > 2; /* the others may have defaults */
    return own;
}

static void look_at_function(struct ct_parameters *p, Dwarf_Die *function, const Dwarf_Die *class,
                             const char *class_name, struct special *special) {
    const char *name = name_of(p, function);
    uint64_t defaulted = 0, virtuality = 0;
    size_t length = strcspn(class_name, "<");
    bool destructor = *name == '~';
    if (number_of(p, function, DW_AT_virtuality, &virtuality) && virtuality)
        special->reference = true;
    bool constructor = length && strncmp(name, class_name, length) == 0 && (!name[length] || name[length] == '<');
    if (!destructor && !(constructor && is_copy(p, function, class, special)))
        return;
    number_of(p, function, DW_AT_defaulted, &defaulted);
    bool plain = flag_of(p, function, DW_AT_artificial) || defaulted == DW_DEFAULTED_in_class;
    if (flag_of(p, function, DW_AT_deleted))
        special->deleted = true;
    else if (!plain)
        special->reference = true;
    else if (!destructor)
        special->plain_copy = true;
}

static void look_at_member(struct ct_parameters *p, Dwarf_Die *die, struct special *special) {
    uint64_t virtuality = 0;
    if (p->dw->dwarf_tag(die) == DW_TAG_inheritance)
        special->reference |= number_of(p, die, DW_AT_virtuality, &virtuality) && virtuality;
    else
        special->reference |= !strncmp(name_of(p, die), "_vptr", 5);
}

static size_t count_members(struct ct_parameters *p, Dwarf_Die *die, struct special *special) {
    Dwarf_Die child;
    size_t count = 0;
    const char *name = name_of(p, die);
    if (p->dw->dwarf_child(die, &child))
        return 0;
    do {
        int tag = p->dw->dwarf_tag(&child);
        if (tag == DW_TAG_member || tag == DW_TAG_inheritance) {
            look_at_member(p, &child, special);
            count++;
        } else if (tag == DW_TAG_subprogram) {
            look_at_function(p, &child, die, name, special);
        }
    } while (p->dw->dwarf_siblingof(&child, &child) == 0);
    return count;
}

/* A part that is passed by reference makes the whole be passed so. */
static void decide_passing(struct ct_parameters *p, Dwarf_Die *die, const struct special *special,
                           struct ct_type *type) {
    uint64_t passing;
    if (number_of(p, die, DW_AT_calling_convention, &passing)) {
        type->by_reference = passing == DW_CC_pass_by_reference;
        return;
    }
    type->by_reference = special->reference;
    for (size_t i = 0; i < type->member_count && !type->is_union; i++)
        type->by_reference |= type->members[i].type->by_reference;
    if (!type->by_reference && (special->unsure || (special->deleted && !special->plain_copy)))
        type->incomplete = true; /* it may be passed either way */
}

static void read_members(struct ct_parameters *p, Dwarf_Die *die, struct ct_type *type, size_t count, bool cxx,
                         unsigned depth) {
    Dwarf_Die child;
    if (count > MAX_MEMBERS)
        count = MAX_MEMBERS;
    struct ct_member *members = ct_parameters_memory(p, (count + 1) * sizeof *members);
    type->incomplete |= !members;
    if (!members || !count || p->dw->dwarf_child(die, &child))
        return;
    do {
        int tag = p->dw->dwarf_tag(&child);
        if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) || flag_of(p, &child, DW_AT_external) ||
            flag_of(p, &child, DW_AT_declaration))
            continue; /* static members are not part of it */
        struct ct_member *member = &members[type->member_count];
        if (!read_member(p, &child, member, cxx, depth)) {
            type->incomplete = true;
            continue;
        }
        type->align = type->align > member->type->align ? type->align : member->type->align;
        type->incomplete |= member->type->incomplete;
        type->member_count++;
    } while (type->member_count < count && p->dw->dwarf_siblingof(&child, &child) == 0);
    type->members = members;
}

static void read_struct(struct ct_parameters *p, Dwarf_Die *die, struct ct_type *type, bool cxx, unsigned depth) {
    uint64_t size, align = 0;
    struct special special = {0};
    type->kind = CT_TYPE_STRUCT;
    type->is_union = p->dw->dwarf_tag(die) == DW_TAG_union_type;
    type->align = 1;
    if (flag_of(p, die, DW_AT_declaration) || !number_of(p, die, DW_AT_byte_size, &size)) {
        type->incomplete = true;
        return;
    }
    type->size = size;
    size_t count = count_members(p, die, &special);
    read_members(p, die, type, count, cxx, depth);
    if (count > MAX_MEMBERS && size <= 16)
        type->incomplete = true;
    if (number_of(p, die, DW_AT_alignment, &align) && align > type->align)
        type->align = align;
    if (cxx)
        decide_passing(p, die, &special, type);
}

/* ---- all ---- */

static void read_type(struct ct_parameters *p, Dwarf_Die *die, struct ct_type *type, bool cxx, unsigned depth) {
    switch (p->dw->dwarf_tag(die)) {
    case DW_TAG_base_type:
        read_base(p, die, type);
        break;
    case DW_TAG_enumeration_type:
        read_enum(p, die, type);
        break;
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
        read_pointer(p, die, type, cxx, depth);
        break;
    case DW_TAG_unspecified_type: /* the type of nullptr */
        if (strstr(name_of(p, die), "nullptr"))
            read_pointer(p, die, type, cxx, depth);
        break;
    case DW_TAG_ptr_to_member_type:
        read_member_pointer(p, die, type);
        break;
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
        read_struct(p, die, type, cxx, depth);
        break;
    case DW_TAG_array_type:
        read_array(p, die, type, cxx, depth);
        break;
    default:
        break;
    }
    type->incomplete |= type->kind == CT_TYPE_UNKNOWN;
}

const struct ct_type *ct_parameters_type(struct ct_parameters *p, Dwarf_Die *die, bool cxx, unsigned depth) {
    Dwarf_Die target;
    Dwarf_Attribute attribute;
    if (!p->dw->dwarf_attr_integrate(die, DW_AT_type, &attribute))
        return &void_type;
    if (!p->dw->dwarf_formref_die(&attribute, &target) || depth > MAX_DEPTH || !p->nodes)
        return &ct_type_unknown;
    if (!strip_qualifiers(p, &target))
        return &void_type;
    struct ct_type *type = ct_parameters_memory(p, sizeof *type);
    if (!type)
        return &ct_type_unknown;
    p->nodes--;
    read_type(p, &target, type, cxx, depth);
    p->convention->classify(type);
    return type;
}

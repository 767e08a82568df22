/* SPDX-License-Identifier: Apache-2.0 */
/* Where the procedure call standard of arm64 (AAPCS64) puts arguments and results.
 *
 * Where compilers, or versions of them, disagree about a type (over-aligned structures, empty parts among
 * floating-point ones) it counts as not understood. */
#include "symbols/parameters.h"

enum { INTEGER_REGISTERS = 8, VECTOR_REGISTERS = 8, MOST_ALIKE = 4, RETURNED_VECTORS = 2 };

/* ---- types ---- */

/* Floating-point members of one size, which are passed in a register each. */
struct alike {
    unsigned count;
    uint64_t size;
    bool other; /* there is something else too */
    bool empty; /* there is an empty structure too */
};

static void look_for_alike(const struct ct_type *type, struct alike *out) {
    switch (type->kind) {
    case CT_TYPE_FLOAT:
        out->other |= out->size && out->size != type->size;
        out->size = type->size;
        out->count++;
        break;
    case CT_TYPE_ARRAY: {
        unsigned before = out->count;
        look_for_alike(type->element, out);
        out->other |= !type->count || type->count > MOST_ALIKE;
        out->count = before + (out->count - before) * (unsigned)(out->other ? 0 : type->count);
        break;
    }
    case CT_TYPE_STRUCT: {
        unsigned before = out->count, most = 0;
        out->empty |= !type->member_count;
        for (size_t i = 0; i < type->member_count; i++) {
            out->other |= type->members[i].bit_size != 0;
            look_for_alike(type->members[i].type, out);
            if (type->is_union) {
                most = out->count - before > most ? out->count - before : most;
                out->count = before;
            }
        }
        out->count += most;
        break;
    }
    default:
        out->other = true;
    }
}

/* A homogeneous aggregate: how many members of which size. False: it is none. */
static bool is_alike(const struct ct_type *type, struct alike *out) {
    *out = (struct alike){0};
    look_for_alike(type, out);
    return !out->other && out->count && out->count <= MOST_ALIKE;
}

static bool has_unknown_part(const struct ct_type *type) {
    for (size_t i = 0; i < type->member_count; i++)
        if (type->members[i].type->classes[0] == CT_CLASS_UNKNOWN)
            return true;
    return type->incomplete;
}

static enum ct_class class_of_struct(const struct ct_type *type) {
    struct alike alike;
    if (type->size > MOST_ALIKE * 16)
        return CT_CLASS_MEMORY; /* whatever is in it */
    if (has_unknown_part(type))
        return CT_CLASS_UNKNOWN;
    if (!type->size)
        return CT_CLASS_NONE;
    if (is_alike(type, &alike))
        return !alike.empty && type->align <= alike.size && type->size == alike.count * alike.size ? CT_CLASS_SSE
                                                                                                   : CT_CLASS_UNKNOWN;
    if (type->size > 16)
        return CT_CLASS_MEMORY;
    return type->align > 8 ? CT_CLASS_UNKNOWN : CT_CLASS_INTEGER;
}

static void classify(struct ct_type *type) {
    enum ct_class class = CT_CLASS_UNKNOWN;
    switch (type->kind) {
    case CT_TYPE_VOID:
        class = CT_CLASS_NONE;
        break;
    case CT_TYPE_FLOAT:
        type->is_quad = type->size == 16;
        if (type->size == 4 || type->size == 8 || type->size == 16)
            class = CT_CLASS_SSE;
        break;
    case CT_TYPE_STRUCT:
        class = class_of_struct(type);
        break;
    case CT_TYPE_ARRAY: /* a part of a structure, which looks into it */
        class = type->element->classes[0] == CT_CLASS_UNKNOWN ? CT_CLASS_UNKNOWN : CT_CLASS_INTEGER;
        break;
    case CT_TYPE_UNKNOWN:
        break;
    default:
        if (type->size && type->size <= 16)
            class = CT_CLASS_INTEGER;
    }
    type->classes[0] = class;
    type->classes[1] = class == CT_CLASS_INTEGER && type->size <= 8 ? CT_CLASS_NONE : class;
}

/* ---- arguments ---- */

static struct ct_value_place in_vectors(unsigned first, const struct alike *alike) {
    struct ct_value_place place = {.kind = CT_VALUE_PLACE_REGISTERS, .piece_size = (unsigned)alike->size};
    for (unsigned i = 0; i < alike->count; i++)
        place.pieces[place.piece_count++] = (uint8_t)(CT_PIECE_VECTOR + first + i);
    return place;
}

static struct ct_value_place in_integers(unsigned first, unsigned count) {
    struct ct_value_place place = {.kind = CT_VALUE_PLACE_REGISTERS, .piece_size = 8};
    for (unsigned i = 0; i < count; i++)
        place.pieces[place.piece_count++] = (uint8_t)(first + i);
    return place;
}

static struct ct_value_place on_stack(struct ct_passing *s, const struct ct_type *type) {
    if (type->align > 8)
        s->stack = (s->stack + 15) & ~UINT64_C(15);
    struct ct_value_place place = {.kind = CT_VALUE_PLACE_STACK, .offset = s->stack};
    s->stack += (type->size + 7) & ~UINT64_C(7);
    return place;
}

/* The caller has a copy of it, and passes its address. */
static struct ct_value_place by_address(struct ct_passing *s) {
    if (s->integers == INTEGER_REGISTERS) {
        s->stack += 8; /* its address is on the stack: not looked for */
        return (struct ct_value_place){0};
    }
    struct ct_value_place place = in_integers(s->integers++, 1);
    place.kind = CT_VALUE_PLACE_ADDRESS;
    return place;
}

static struct ct_value_place place_of(struct ct_passing *s, const struct ct_type *type, bool plain_only) {
    bool structure = type->kind == CT_TYPE_STRUCT;
    unsigned words = (unsigned)((type->size + 7) / 8);
    struct alike alike;
    s->unsure |= !type->by_reference && (type->classes[0] == CT_CLASS_UNKNOWN || (structure && plain_only));
    if (s->unsure)
        return (struct ct_value_place){0};
    if (type->by_reference || type->classes[0] == CT_CLASS_MEMORY)
        return by_address(s);
    if (type->classes[0] == CT_CLASS_NONE)
        return (struct ct_value_place){.kind = CT_VALUE_PLACE_NOWHERE};
    if (is_alike(type, &alike)) {
        unsigned first = s->vectors;
        s->vectors = first + alike.count <= VECTOR_REGISTERS ? first + alike.count : VECTOR_REGISTERS;
        return first + alike.count <= VECTOR_REGISTERS ? in_vectors(first, &alike) : on_stack(s, type);
    }
    unsigned first = type->align > 8 ? (s->integers + 1) & ~1u : s->integers;
    s->integers = first + words <= INTEGER_REGISTERS ? first + words : INTEGER_REGISTERS;
    return first + words <= INTEGER_REGISTERS ? in_integers(first, words) : on_stack(s, type);
}

/* Large ones are put where x8 points to, which takes no register of arguments; it is in no record. */
static struct ct_value_place place_of_result(struct ct_passing *s, const struct ct_type *type) {
    struct alike alike;
    (void)s;
    if (type->kind == CT_TYPE_VOID)
        return (struct ct_value_place){.kind = CT_VALUE_PLACE_NOWHERE};
    if (type->by_reference || type->classes[0] == CT_CLASS_MEMORY || type->classes[0] == CT_CLASS_UNKNOWN)
        return (struct ct_value_place){0};
    if (type->classes[0] == CT_CLASS_NONE)
        return (struct ct_value_place){.kind = CT_VALUE_PLACE_NOWHERE};
    if (!is_alike(type, &alike))
        return in_integers(0, (unsigned)((type->size + 7) / 8));
    return alike.count <= RETURNED_VECTORS ? in_vectors(0, &alike) : (struct ct_value_place){0};
}

static int piece_of(unsigned dwarf_register) {
    if (dwarf_register < INTEGER_REGISTERS)
        return (int)dwarf_register;
    return dwarf_register >= 64 && dwarf_register < 64 + VECTOR_REGISTERS ? CT_PIECE_VECTOR + (int)dwarf_register - 64
                                                                          : -1;
}

const struct ct_convention ct_convention_a64 = {classify, place_of_result, place_of, piece_of};

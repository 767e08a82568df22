/* SPDX-License-Identifier: Apache-2.0 */
/* Where the System V calling convention of x86_64 puts arguments and results.
 *
 * When it is not certain how a value is passed, the registers of all values after it are not certain either. */
#include "symbols/parameters.h"
#include <stdlib.h>

enum { INTEGER_REGISTERS = 6, VECTOR_REGISTERS = 8, MEMBER_LIMIT = 256 };

/* ---- types ---- */

static enum ct_class merge(enum ct_class a, enum ct_class b) {
    if (a == b || b == CT_CLASS_NONE)
        return a;
    if (a == CT_CLASS_NONE)
        return b;
    static const enum ct_class order[] = {CT_CLASS_UNKNOWN, CT_CLASS_MEMORY, CT_CLASS_INTEGER};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (a == order[i] || b == order[i])
            return order[i];
    return a == CT_CLASS_X87 || b == CT_CLASS_X87 ? CT_CLASS_MEMORY : CT_CLASS_SSE;
}

static void set_all(struct ct_type *type, enum ct_class class) {
    type->classes[0] = type->classes[1] = class;
}

/* Adds a part of a structure, at an offset in it. */
static void add_part(struct ct_type *whole, const struct ct_type *part, uint64_t offset, bool bits) {
    if (!bits && part->align && offset % part->align) {
        set_all(whole, CT_CLASS_MEMORY); /* packed */
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        uint64_t at = offset / 8 + i;
        if (part->classes[i] == CT_CLASS_NONE)
            continue;
        if (at > 1)
            set_all(whole, CT_CLASS_UNKNOWN);
        else
            whole->classes[at] = merge(whole->classes[at], part->classes[i]);
    }
}

static void classify_struct(struct ct_type *type) {
    if (type->incomplete) {
        set_all(type, CT_CLASS_UNKNOWN);
        return;
    }
    if (type->size > 16) {
        set_all(type, CT_CLASS_MEMORY);
        return;
    }
    for (size_t i = 0; i < type->member_count; i++) {
        const struct ct_member *m = &type->members[i];
        static const struct ct_type bits = {.classes = {CT_CLASS_INTEGER}};
        if (m->bit_size) /* the eight bytes that contain it */
            add_part(type, &bits, m->offset + m->bit_offset / 8, true);
        else
            add_part(type, m->type, m->offset, false);
    }
    const enum ct_class first = type->classes[0], second = type->classes[1];
    if (first == CT_CLASS_UNKNOWN || second == CT_CLASS_UNKNOWN || (first == CT_CLASS_NONE && second != CT_CLASS_NONE))
        set_all(type, CT_CLASS_UNKNOWN);
    else if (first == CT_CLASS_MEMORY || second == CT_CLASS_MEMORY)
        set_all(type, CT_CLASS_MEMORY);
}

static void classify_array(struct ct_type *type) {
    if (type->size > 16 || type->count > MEMBER_LIMIT) {
        set_all(type, CT_CLASS_MEMORY);
        return;
    }
    for (uint64_t i = 0; i < type->count; i++)
        add_part(type, type->element, i * type->element->size, false);
}

static void classify(struct ct_type *type) {
    set_all(type, CT_CLASS_NONE);
    switch (type->kind) {
    case CT_TYPE_VOID:
        break;
    case CT_TYPE_FLOAT:
        type->classes[0] = type->size == 4 || type->size == 8 ? CT_CLASS_SSE
                           : type->size == 16                 ? CT_CLASS_X87
                                                              : CT_CLASS_UNKNOWN;
        break;
    case CT_TYPE_STRUCT:
        classify_struct(type);
        break;
    case CT_TYPE_ARRAY:
        classify_array(type);
        break;
    case CT_TYPE_UNKNOWN:
        type->classes[0] = CT_CLASS_UNKNOWN;
        break;
    default:
        type->classes[0] = type->size && type->size <= 16 ? CT_CLASS_INTEGER : CT_CLASS_UNKNOWN;
        if (type->size > 8)
            type->classes[1] = type->classes[0];
    }
}

/* ---- arguments ---- */

static struct ct_value_place in_registers(struct ct_passing *s, const enum ct_class *classes) {
    struct ct_value_place place = {.kind = CT_VALUE_PLACE_REGISTERS, .piece_size = 8};
    for (int i = 0; i < 2; i++)
        if (classes[i] == CT_CLASS_INTEGER)
            place.pieces[place.piece_count++] = (uint8_t)s->integers++;
        else if (classes[i] == CT_CLASS_SSE)
            place.pieces[place.piece_count++] = (uint8_t)(CT_PIECE_VECTOR + s->vectors++);
    return place;
}

static struct ct_value_place on_stack(struct ct_passing *s, const struct ct_type *type) {
    if (type->align > 8)
        s->stack = (s->stack + 15) & ~UINT64_C(15);
    struct ct_value_place place = {.kind = CT_VALUE_PLACE_STACK, .offset = 8 + s->stack}; /* after the return address */
    s->stack += (type->size + 7) & ~UINT64_C(7);
    return place;
}

static struct ct_value_place place_of(struct ct_passing *s, const struct ct_type *type, bool plain_only) {
    static const enum ct_class pointer[2] = {CT_CLASS_INTEGER, CT_CLASS_NONE};
    unsigned integers = 0, vectors = 0;
    bool structure = type->kind == CT_TYPE_STRUCT;
    bool unknown = type->classes[0] == CT_CLASS_UNKNOWN || type->align > 16;
    if (structure && type->by_reference) {
        if (s->integers == INTEGER_REGISTERS)
            s->unsure = true; /* its address is on the stack: not searched for */
        if (s->unsure)
            return (struct ct_value_place){0};
        struct ct_value_place place = in_registers(s, pointer);
        place.kind = CT_VALUE_PLACE_ADDRESS;
        return place;
    }
    s->unsure |= unknown || (structure && plain_only);
    if (s->unsure)
        return (struct ct_value_place){0};
    if (type->classes[0] == CT_CLASS_NONE && type->classes[1] == CT_CLASS_NONE)
        return (struct ct_value_place){.kind = CT_VALUE_PLACE_NOWHERE};
    for (int i = 0; i < 2; i++) {
        integers += type->classes[i] == CT_CLASS_INTEGER;
        vectors += type->classes[i] == CT_CLASS_SSE;
    }
    if (integers + vectors == 0 || s->integers + integers > INTEGER_REGISTERS ||
        s->vectors + vectors > VECTOR_REGISTERS)
        return on_stack(s, type);
    return in_registers(s, type->classes);
}

static struct ct_value_place place_of_result(struct ct_passing *s, const struct ct_type *type) {
    struct ct_passing registers = {0};
    if (type->kind == CT_TYPE_VOID)
        return (struct ct_value_place){.kind = CT_VALUE_PLACE_NOWHERE};
    if (type->by_reference || type->classes[0] == CT_CLASS_MEMORY) {
        s->integers++; /* where the result is to be put comes first */
        return (struct ct_value_place){.kind = CT_VALUE_PLACE_ADDRESS, .piece_count = 1};
    }
    s->unsure = type->classes[0] == CT_CLASS_UNKNOWN;
    if (type->classes[0] == CT_CLASS_X87 || type->classes[0] == CT_CLASS_UNKNOWN)
        return (struct ct_value_place){0};
    if (type->classes[0] == CT_CLASS_NONE)
        return (struct ct_value_place){.kind = CT_VALUE_PLACE_NOWHERE};
    return in_registers(&registers, type->classes); /* rax rdx, xmm0 xmm1: as in the record of a return */
}

static int piece_of(unsigned dwarf_register) {
    static const int8_t pieces[] = {
        [0] = 6, [1] = 2, [2] = 3, [3] = -1, [4] = 1, [5] = 0, [6] = -1, [7] = -1, [8] = 4, [9] = 5, [10] = 7};
    if (dwarf_register < sizeof pieces)
        return pieces[dwarf_register];
    return dwarf_register >= 17 && dwarf_register <= 24 ? CT_PIECE_VECTOR + (int)dwarf_register - 17 : -1;
}

const struct ct_convention ct_convention_x64 = {classify, place_of_result, place_of, piece_of};

/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of functions, from DWARF: names, types, and where their values are on entry.
 *
 * The place of a value is what its location says for the entry, where that is a register or a constant; otherwise the
 * one that the calling convention gives, when the function is known to follow it. Where neither is certain the place is
 * CT_VALUE_PLACE_UNKNOWN: a value that might be wrong is worse than none. One thread uses a struct ct_parameters at a
 * time. */
#ifndef CT_SYMBOLS_PARAMETERS_H
#define CT_SYMBOLS_PARAMETERS_H

#include "isa/machine.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ct_type_kind {
    CT_TYPE_UNKNOWN,
    CT_TYPE_VOID,
    CT_TYPE_SIGNED,
    CT_TYPE_UNSIGNED,
    CT_TYPE_BOOL,
    CT_TYPE_CHAR, /* one byte, a character */
    CT_TYPE_FLOAT,
    CT_TYPE_ENUM,
    CT_TYPE_POINTER, /* references too */
    CT_TYPE_TEXT,    /* pointer to char */
    CT_TYPE_STRUCT,  /* class and union too */
    CT_TYPE_ARRAY,   /* as a member */
};

/* How the calling convention treats eight bytes of a value. */
enum ct_class {
    CT_CLASS_NONE, /* nothing there */
    CT_CLASS_INTEGER,
    CT_CLASS_SSE, /* a vector register */
    CT_CLASS_MEMORY,
    CT_CLASS_X87,
    CT_CLASS_UNKNOWN,
};

struct ct_type;

struct ct_member {
    const char *name; /* "" for a base class, or without a name */
    const struct ct_type *type;
    uint64_t offset;
    unsigned bit_offset, bit_size; /* bit_size 0: not a bit-field; bit_offset counts from the lowest bit at `offset` */
};

struct ct_enumerator {
    const char *name;
    int64_t value;
};

struct ct_type {
    enum ct_type_kind kind;
    uint64_t size, align;
    bool is_signed;    /* ENUM */
    bool is_union;     /* STRUCT */
    bool is_quad;      /* FLOAT of 16 bytes: in the format of IEEE 754, not the x87's */
    bool by_reference; /* STRUCT with a copy constructor or destructor, so not in registers: its address is passed */
    bool incomplete;   /* some of its contents are not known */
    const struct ct_member *members; /* STRUCT */
    size_t member_count;
    const struct ct_enumerator *enumerators; /* ENUM */
    size_t enumerator_count;
    const struct ct_type *element; /* ARRAY; POINTER of a parameter or result: the structure there, or NULL */
    uint64_t count;                /* ARRAY */
    enum ct_class classes[2];      /* of its first 16 bytes (parameters_<isa>.c) */
};

enum ct_value_place_kind {
    CT_VALUE_PLACE_UNKNOWN,
    CT_VALUE_PLACE_NOWHERE,   /* an empty structure */
    CT_VALUE_PLACE_REGISTERS, /* `piece_size` bytes in each of the pieces */
    CT_VALUE_PLACE_STACK,     /* at stack pointer + offset */
    CT_VALUE_PLACE_ADDRESS,   /* the first piece contains its address */
    CT_VALUE_PLACE_CONSTANT,
};

enum { CT_PIECE_VECTOR = 16 };

struct ct_value_place {
    enum ct_value_place_kind kind;
    unsigned piece_count, piece_size;
    /* indexes of registers in a detail record, or CT_PIECE_VECTOR + number of the vector register */
    uint8_t pieces[4];
    uint64_t offset, constant;
};

struct ct_parameter {
    const char *name; /* "" when it has none */
    const struct ct_type *type;
    struct ct_value_place place;
};

struct ct_signature {
    const char *name;                   /* linkage name, or the plain one; "" */
    const struct ct_type *result;       /* kind VOID: none */
    struct ct_value_place result_place; /* in the registers of a return */
    struct ct_parameter *parameters;
    size_t count;
    bool variadic;   /* more may follow */
    bool convention; /* it follows the calling convention of C, as far as types are plain */
    bool plain_only; /* ... but structures are not passed as in C */
    bool local;      /* called only in its own file: its locations count more than the convention */
};

struct ct_parameters;
/* Opens the file with the debug sections. CT_ERR_NOT_FOUND, CT_ERR_UNSUPPORTED, CT_ERR_NO_MEMORY as ct_lines_open. */
int ct_parameters_open(struct ct_parameters **out, const char *path);
void ct_parameters_close(struct ct_parameters *parameters);
/* The function that begins at the offset; NULL: not known. Valid until ct_parameters_close. `clone`: the compiler has
 * made it from another function (its symbol says so), and it does not follow the calling convention. */
const struct ct_signature *ct_parameters_find(struct ct_parameters *parameters, uint64_t offset, bool clone);

/* The machine that its code is for. */
const struct ct_machine *ct_parameters_machine(const struct ct_parameters *parameters);

/* ---- calling conventions ---- */

/* What the arguments so far have taken. */
struct ct_passing {
    unsigned integers, vectors; /* registers */
    uint64_t stack;             /* from the first argument on the stack */
    bool unsure;                /* what was passed before is not certain, so nothing that follows is */
};

/* That of a machine (parameters_<isa>.c). All are in every build: a trace of one machine is read on another. */
struct ct_convention {
    /* Sets the classes of a type whose parts are known. */
    void (*classify)(struct ct_type *type);
    /* Where the result is. What is needed to return it may take registers from arguments, or make them unsure. */
    struct ct_value_place (*result)(struct ct_passing *passing, const struct ct_type *type);
    /* Where the next argument is. `plain_only`: structures are not passed as in C. */
    struct ct_value_place (*argument)(struct ct_passing *passing, const struct ct_type *type, bool plain_only);
    /* Place in a detail record of a register with that number in DWARF, as in ct_value_place.pieces; -1: it is in
     * none. */
    int (*piece)(unsigned dwarf_register);
};
const struct ct_convention *ct_convention_of(const struct ct_machine *machine);
extern const struct ct_convention ct_convention_x64, ct_convention_a64;

/* Sets places that are CT_VALUE_PLACE_UNKNOWN from the calling convention, as far as it is certain, and the place of
 * the result. */
void ct_signature_place(const struct ct_convention *convention, struct ct_signature *signature);

#endif

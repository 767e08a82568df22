/* SPDX-License-Identifier: Apache-2.0 */
/* Calling conventions: where arguments and results of given types are, on machines that need not be this one.
 *
 * What is expected of arm64 is what AAPCS64 says, rule by rule; of x86_64 the compiler is asked (parameters_test.c), so
 * a few cases show that the two are not mixed up. A place is written as registers do: "r0" for a detail record's first
 * register, "v1.4" for four bytes of the second vector register, "[8]" on the stack, "*r2" for an address, "{}"
 * nowhere, "?". */
#include "symbols/parameters.h"
#include "trace/arguments.h"
#include "trace/value_text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- types: copies are made for each convention, since classifying writes ---- */

enum { TYPES = 64 };
static struct ct_type pool[TYPES];
static struct ct_member members[4 * TYPES];
static size_t used, members_used;
static const struct ct_convention *convention;

static struct ct_type *make(enum ct_type_kind kind, uint64_t size) {
    struct ct_type *type = &pool[used++];
    assert_true(used <= TYPES);
    *type = (struct ct_type){.kind = kind, .size = size, .align = size};
    return type;
}

static const struct ct_type *plain(enum ct_type_kind kind, uint64_t size) {
    struct ct_type *type = make(kind, size);
    convention->classify(type);
    return type;
}

static const struct ct_type *array(const struct ct_type *element, uint64_t count) {
    struct ct_type *type = make(CT_TYPE_ARRAY, element->size * count);
    type->align = element->align;
    type->element = element;
    type->count = count;
    convention->classify(type);
    return type;
}

/* Laid out as a compiler would; parts end with NULL. */
static struct ct_type *bare_struct(bool is_union, va_list parts) {
    struct ct_type *type = make(CT_TYPE_STRUCT, 0);
    const struct ct_type *part;
    type->is_union = is_union;
    type->align = 1;
    type->members = &members[members_used];
    while ((part = va_arg(parts, const struct ct_type *))) {
        uint64_t align = part->align ? part->align : 1, at = is_union ? 0 : (type->size + align - 1) / align * align;
        members[members_used++] = (struct ct_member){.name = "", .type = part, .offset = at};
        type->member_count++;
        type->size = at + part->size > type->size ? at + part->size : type->size;
        type->align = align > type->align ? align : type->align;
    }
    type->size = (type->size + type->align - 1) / type->align * type->align;
    assert_true(members_used <= COUNT(members));
    return type;
}

static struct ct_type *structure(const struct ct_type *first, ...) {
    va_list parts;
    va_start(parts, first);
    struct ct_type *type = bare_struct(false, parts);
    va_end(parts);
    (void)first;
    convention->classify(type);
    return type;
}

static struct ct_type *joined(const struct ct_type *first, ...) {
    va_list parts;
    va_start(parts, first);
    struct ct_type *type = bare_struct(true, parts);
    va_end(parts);
    (void)first;
    convention->classify(type);
    return type;
}
/* The first argument only begins the list. */
#define STRUCT(...) structure(NULL, __VA_ARGS__, (const struct ct_type *)NULL)
#define UNION(...)  joined(NULL, __VA_ARGS__, (const struct ct_type *)NULL)
#define INT         plain(CT_TYPE_SIGNED, 4)
#define LONG        plain(CT_TYPE_SIGNED, 8)
#define INT128      plain(CT_TYPE_SIGNED, 16)
#define POINTER     plain(CT_TYPE_POINTER, 8)
#define FLOAT       plain(CT_TYPE_FLOAT, 4)
#define DOUBLE      plain(CT_TYPE_FLOAT, 8)
#define EXTENDED    plain(CT_TYPE_FLOAT, 16)
#define VOID        plain(CT_TYPE_VOID, 0)
#define UNKNOWN     plain(CT_TYPE_UNKNOWN, 0)

/* ---- places ---- */

static void add_place(char *text, const struct ct_value_place *place) {
    char *end = text + strlen(text);
    if (place->kind == CT_VALUE_PLACE_UNKNOWN)
        strcpy(end, "?");
    else if (place->kind == CT_VALUE_PLACE_NOWHERE)
        strcpy(end, "{}");
    else if (place->kind == CT_VALUE_PLACE_STACK)
        sprintf(end, "[%d]", (int)place->offset);
    else if (place->kind == CT_VALUE_PLACE_ADDRESS)
        end += sprintf(end, "*");
    for (unsigned i = 0; i < place->piece_count; i++) {
        unsigned piece = place->pieces[i];
        end += sprintf(end, "%s%s%u", i ? "+" : "", piece < CT_PIECE_VECTOR ? "r" : "v", piece % CT_PIECE_VECTOR);
        if (piece >= CT_PIECE_VECTOR && place->piece_size != 8)
            end += sprintf(end, ".%u", place->piece_size);
    }
}

/* "result | first second ..." */
static void check(const char *expected, const struct ct_type *result, size_t count, const struct ct_type *const *types,
                  bool plain_only) {
    struct ct_parameter parameters[16] = {0};
    struct ct_signature signature = {
        .result = result, .parameters = parameters, .count = count, .convention = true, .plain_only = plain_only};
    char text[400] = "";
    assert_true(count <= COUNT(parameters));
    for (size_t i = 0; i < count; i++)
        parameters[i].type = types[i];
    ct_signature_place(convention, &signature);
    add_place(text, &signature.result_place);
    strcat(text, " |");
    for (size_t i = 0; i < count; i++) {
        strcat(text, " ");
        add_place(text, &parameters[i].place);
    }
    assert_string_equal(text, expected);
    used = members_used = 0;
}
#define CHECK_AS(plain_only, expected, result, ...)                                                                    \
    do {                                                                                                               \
        const struct ct_type *const types[] = {__VA_ARGS__};                                                           \
        check(expected, result, COUNT(types), types, plain_only);                                                      \
    } while (0)
#define CHECK(expected, result, ...) CHECK_AS(false, expected, result, __VA_ARGS__)

/* ---- arm64 ---- */

static void test_a64_plain(void **state) {
    (void)state;
    convention = ct_convention_of(&ct_machine_a64);
    CHECK("r0 | r0 r1 v0 r2 v1.4", INT, INT, POINTER, DOUBLE, LONG, FLOAT);
    CHECK("{} | r0 r1 r2 r3 r4 r5 r6 r7 [0] [8] v0", VOID, INT, INT, INT, INT, INT, INT, INT, INT, INT, LONG, DOUBLE);
    CHECK("v0 | v0 v1 v2 v3 v4 v5 v6 v7 [0] r0 [8]", DOUBLE, DOUBLE, DOUBLE, DOUBLE, DOUBLE, DOUBLE, DOUBLE, DOUBLE,
          DOUBLE, DOUBLE, INT, FLOAT);
    CHECK("v0.16 | v0.16 r0", EXTENDED, EXTENDED, INT);
}

/* Sixteen bytes begin in an even register; what does not fit is on the stack, and no register is used after that. */
static void test_a64_wide(void **state) {
    (void)state;
    convention = ct_convention_of(&ct_machine_a64);
    CHECK("r0+r1 | r0 r2+r3 r4", INT128, INT, INT128, INT);
    CHECK("r0 | r0 r1 r2 r3 r4 r5 r6 [0] [16]", INT, INT, INT, INT, INT, INT, INT, INT, INT128, INT);
    CHECK("r0 | r0 r1 r2 r3 r4 r5 r6 r7 [0] [16]", INT, INT, INT, INT, INT, INT, INT, INT, INT, INT, INT128);
}

static void test_a64_structures(void **state) {
    (void)state;
    convention = ct_convention_of(&ct_machine_a64);
    CHECK("r0 | r0 r1+r2 r3", STRUCT(INT), STRUCT(INT, INT), STRUCT(LONG, INT), INT);
    CHECK("r0+r1 | r0", STRUCT(LONG, LONG), INT);
    CHECK("r0 | r0 r1 r2 r3 r4 r5 r6 [0] [16]", INT, INT, INT, INT, INT, INT, INT, INT, STRUCT(LONG, LONG), INT);
    CHECK("r0 | r0+r1 r2", INT, STRUCT(DOUBLE, LONG), INT); /* no vector registers */
}

/* More than 16 bytes: a pointer to a copy. As a result they are where x8 points to, which takes no argument's
 * register. */
static void test_a64_large(void **state) {
    (void)state;
    convention = ct_convention_of(&ct_machine_a64);
    CHECK("? | *r0 r1", STRUCT(LONG, LONG, LONG), STRUCT(LONG, LONG, LONG), INT);
    CHECK("r0 | r0 r1 r2 r3 r4 r5 r6 r7 ? [8]", INT, INT, INT, INT, INT, INT, INT, INT, INT, STRUCT(LONG, LONG, LONG),
          INT);
    CHECK("r0 | *r0 r1", INT, STRUCT(array(UNKNOWN, 1), array(LONG, 20)), INT);
    struct ct_type *object = STRUCT(INT);
    object->by_reference = true;
    CHECK("? | *r0 r1", object, object, INT);
}

/* Up to four floating-point members of one size have a register each. */
static void test_a64_alike(void **state) {
    (void)state;
    convention = ct_convention_of(&ct_machine_a64);
    CHECK("v0+v1 | v0+v1 v2", STRUCT(DOUBLE, DOUBLE), STRUCT(DOUBLE, DOUBLE), DOUBLE);
    CHECK("v0.4+v1.4 | v0.4+v1.4+v2.4 r0", STRUCT(FLOAT, FLOAT), STRUCT(FLOAT, FLOAT, FLOAT), INT);
    CHECK("? | v0+v1+v2+v3 v4", STRUCT(array(DOUBLE, 4)), STRUCT(array(DOUBLE, 4)), DOUBLE);
    CHECK("r0 | v0.4+v1.4 r0", INT, STRUCT(STRUCT(FLOAT), STRUCT(FLOAT)), INT);
    CHECK("r0 | v0.4+v1.4", INT, UNION(FLOAT, array(FLOAT, 2)));
    CHECK("r0 | v0.16+v1.16", INT, STRUCT(EXTENDED, EXTENDED));
    /* Five, or other things among them: as any structure. */
    CHECK("r0 | *r0 r1 r2+r3", INT, STRUCT(array(DOUBLE, 5)), STRUCT(FLOAT, INT), STRUCT(FLOAT, DOUBLE));
    CHECK("r0 | r0", INT, UNION(DOUBLE, LONG));
    CHECK("r0 | r0", INT, UNION(DOUBLE, FLOAT));
    /* None is in a register when not all are, and none that follows is either. */
    CHECK("v0 | v0 v1 v2 v3 v4 v5 [0] [24] r0", DOUBLE, DOUBLE, DOUBLE, DOUBLE, DOUBLE, DOUBLE, DOUBLE,
          STRUCT(DOUBLE, DOUBLE, DOUBLE), DOUBLE, INT);
}

/* What compilers disagree about, or is not known, makes all that follows unsure. */
static void test_a64_unsure(void **state) {
    (void)state;
    convention = ct_convention_of(&ct_machine_a64);
    CHECK("r0 | r0 ? ?", INT, INT, UNKNOWN, INT);
    CHECK("? | r0", UNKNOWN, INT);
    CHECK("r0 | ? ?", INT, STRUCT(INT128), INT);
    CHECK("r0 | ? ?", INT, STRUCT(STRUCT(INT, UNKNOWN)), INT);
    struct ct_type *empty = make(CT_TYPE_STRUCT, 1);
    empty->align = 1;
    convention->classify(empty);
    CHECK("r0 | ? ?", INT, STRUCT(empty, DOUBLE), INT);
    struct ct_type *incomplete = STRUCT(INT);
    incomplete->incomplete = true;
    convention->classify(incomplete);
    CHECK("r0 | ?", INT, incomplete);
    CHECK("r0 | ?", INT, plain(CT_TYPE_FLOAT, 2));
    CHECK_AS(true, "r0 | r0 ? ?", INT, INT, STRUCT(INT), INT);
    CHECK_AS(true, "? | ?", STRUCT(INT), INT);
    struct ct_type *nothing = make(CT_TYPE_STRUCT, 0);
    convention->classify(nothing);
    CHECK("{} | {} r0", nothing, nothing, INT);
}

static void test_a64_dwarf(void **state) {
    (void)state;
    const struct ct_convention *c = ct_convention_of(&ct_machine_a64);
    assert_int_equal(c->piece(0), 0);
    assert_int_equal(c->piece(7), 7);
    assert_int_equal(c->piece(8), -1);
    assert_int_equal(c->piece(31), -1);
    assert_int_equal(c->piece(64), CT_PIECE_VECTOR);
    assert_int_equal(c->piece(71), CT_PIECE_VECTOR + 7);
    assert_int_equal(c->piece(72), -1);
}

/* ---- x86_64 ---- */

static void test_x64(void **state) {
    (void)state;
    convention = ct_convention_of(&ct_machine_x64);
    CHECK("r0 | r0 v0 r1 v1", INT, INT, DOUBLE, POINTER, FLOAT);
    CHECK("{} | r0 r1 r2 r3 r4 r5 [8] [16]", VOID, INT, INT, INT, INT, INT, INT, INT, INT);
    CHECK("*r0 | r1 [8]", STRUCT(LONG, LONG, LONG), INT, STRUCT(LONG, LONG, LONG));
    CHECK("v0+r0 | v0+r0", STRUCT(DOUBLE, LONG), STRUCT(DOUBLE, LONG));
    CHECK("? | ?", UNKNOWN, INT);
    assert_int_equal(convention->piece(5), 0);
    assert_int_equal(convention->piece(17), CT_PIECE_VECTOR);
}

/* ---- values ---- */

/* Small floating-point members are put together from registers of their own. */
static void test_values(void **state) {
    (void)state;
    convention = ct_convention_of(&ct_machine_a64);
    static struct ct_trace_detail detail = {.type = CT_TRACE_DETAIL_CALL, .has_vectors = true, .arch = 2};
    struct ct_parameter parameters[2] = {{.name = "a", .type = STRUCT(FLOAT, FLOAT, FLOAT)},
                                         {.name = "b", .type = INT}};
    struct ct_signature signature = {.result = VOID, .parameters = parameters, .count = 2, .convention = true};
    static struct ct_arguments arguments;
    char text[100];
    for (int i = 0; i < 3; i++)
        memcpy(detail.vectors[i], &(float){1.5f + (float)i}, 4);
    detail.registers[0] = 7;
    ct_signature_place(convention, &signature);
    ct_arguments_by(&signature, &detail, &arguments);
    ct_arguments_text(&arguments, text, sizeof text);
    assert_string_equal(text, "a={1.5, 2.5, 3.5}, b=7");
    ct_arguments_by(NULL, &detail, &arguments);
    ct_arguments_text(&arguments, text, sizeof text);
    assert_string_equal(text, "x0=0x7, x1=0x0, x2=0x0, x3=0x0, x4=0x0, x5=0x0, x6=0x0, x7=0x0");
    detail.arch = 0; /* of a machine that is not known: no register has a name */
    ct_arguments_by(NULL, &detail, &arguments);
    assert_int_equal(arguments.count, 0);
    used = members_used = 0;
}

static void show(const struct ct_type *type, const uint8_t *bytes, const char *expected) {
    static struct ct_argument argument;
    ct_value_show(type, bytes, 16, &(struct ct_memory){0}, &argument);
    assert_string_equal(argument.text, expected);
}

/* A long double has the format of the machine that it is from, not of this one. */
static void test_long_double(void **state) {
    (void)state;
    static const uint8_t quad[][16] = {
        {[13] = 0x80, [14] = 0xff, [15] = 0x3f},                                                          /* 1.5 */
        {[14] = 0x00, [15] = 0xc0},                                                                       /* -2 */
        {0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0x99, 0xfb, 0x3f}, /* 0.1 */
        {0},
        {[14] = 0xff, [15] = 0x7f},
        {[14] = 0xff, [15] = 0xff},
        {[0] = 1, [14] = 0xff, [15] = 0x7f},
    };
    static const uint8_t extended[][16] = {
        {[7] = 0xc0, [8] = 0xff, [9] = 0x3f},
        {[7] = 0x80, [8] = 0x00, [9] = 0xc0},
        {0xcd, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xfb, 0x3f},
        {0},
        {[7] = 0x80, [8] = 0xff, [9] = 0x7f},
        {[7] = 0x80, [8] = 0xff, [9] = 0xff},
        {[7] = 0xc0, [8] = 0xff, [9] = 0x7f},
    };
    static const char *const expected[] = {"1.5", "-2.0", "0.1", "0.0", "inf", "-inf", "nan"};
    convention = ct_convention_of(&ct_machine_a64);
    const struct ct_type *arm = EXTENDED;
    convention = ct_convention_of(&ct_machine_x64);
    const struct ct_type *intel = EXTENDED;
    for (size_t i = 0; i < COUNT(expected); i++) {
        show(arm, quad[i], expected[i]);
        show(intel, extended[i], expected[i]);
    }
    used = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a64_plain),   cmocka_unit_test(test_a64_wide),  cmocka_unit_test(test_a64_structures),
        cmocka_unit_test(test_a64_large),   cmocka_unit_test(test_a64_alike), cmocka_unit_test(test_a64_unsure),
        cmocka_unit_test(test_a64_dwarf),   cmocka_unit_test(test_x64),       cmocka_unit_test(test_values),
        cmocka_unit_test(test_long_double),
    };
    return cmocka_run_group_tests_name("convention", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a known type as text: see value_text.h. */
#include "trace/value_text.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 8, STRING_BYTES = 120, DEPTH = 6 };

struct text {
    char *at;
    size_t used, size;
    bool full;
    const struct ct_memory *memory;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...) {
    char piece[CT_ARGUMENT_TEXT];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    if (t->full || length < 0 || (size_t)length >= sizeof piece || t->used + (size_t)length + 8 > t->size) {
        if (!t->full)
            t->used += (size_t)snprintf(t->at + t->used, t->size - t->used, "…");
        t->full = true;
        return;
    }
    memcpy(t->at + t->used, piece, (size_t)length + 1);
    t->used += (size_t)length;
}

/* ---- numbers ---- */

static uint64_t unsigned_of(const uint8_t *bytes, uint64_t size) {
    uint64_t value = 0;
    memcpy(&value, bytes, size < 8 ? (size_t)size : 8);
    return value;
}

static int64_t signed_of(const uint8_t *bytes, uint64_t size) {
    uint64_t value = unsigned_of(bytes, size);
    unsigned unused = size < 8 ? (unsigned)(64 - 8 * size) : 0;
    return (int64_t)(value << unused) >> unused;
}

/* From the parts of a long double, whichever machine it is of: `mantissa` * 2^exponent; MAX_EXPONENT: none of that. */
enum { BIAS = 16383, MAX_EXPONENT = 0x7fff };
static double assemble(uint16_t sign_and_exponent, uint64_t mantissa, int point, bool special) {
    int exponent = sign_and_exponent & MAX_EXPONENT;
    double value = exponent == MAX_EXPONENT ? (special ? NAN : INFINITY)
                                            : ldexp((double)mantissa, (exponent ? exponent : 1) - BIAS - point);
    return copysign(value, sign_and_exponent >> 15 ? -1 : 1);
}

/* 64 bits with the integer bit. */
static double extended_of(const uint8_t *bytes) {
    uint64_t mantissa = unsigned_of(bytes, 8);
    return assemble((uint16_t)unsigned_of(bytes + 8, 2), mantissa, 63, mantissa << 1 != 0);
}

/* 112 bits without; the low ones beyond what a double has only round. */
static double quad_of(const uint8_t *bytes) {
    uint64_t low = unsigned_of(bytes, 8), high = unsigned_of(bytes + 8, 6);
    uint16_t sign_and_exponent = (uint16_t)unsigned_of(bytes + 14, 2);
    bool normal = sign_and_exponent & MAX_EXPONENT;
    uint64_t mantissa = (uint64_t)normal << 63 | high << 15 | low >> 49 | (low << 15 != 0);
    return assemble(sign_and_exponent, mantissa, 63, high || low);
}

static double real_of(const struct ct_type *type, const uint8_t *bytes) {
    float single;
    double value;
    switch (type->size) {
    case 4:
        memcpy(&single, bytes, 4);
        return single;
    case 8:
        memcpy(&value, bytes, 8);
        return value;
    default:
        return type->is_quad ? quad_of(bytes) : extended_of(bytes);
    }
}

/* Writes as few digits as give back this value. */
static void add_real(struct text *t, const struct ct_type *type, const uint8_t *bytes) {
    double value = real_of(type, bytes);
    char text[64];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (type->size == 4 ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value)
            break;
    }
    char *comma = strchr(text, ','); /* a decimal comma, in some locales */
    if (comma)
        *comma = '.';
    if (isfinite(value) && !strpbrk(text, ".e"))
        strcat(text, ".0");
    add(t, "%s", text);
}

static void add_integer(struct text *t, const struct ct_type *type, const uint8_t *bytes) {
    if (type->size > 8) {
        uint64_t high = unsigned_of(bytes + 8, 8), low = unsigned_of(bytes, 8);
        if (high)
            add(t, "0x%" PRIx64 "%016" PRIx64, high, low);
        else
            add(t, "%" PRIu64, low);
    } else if (type->kind == CT_TYPE_SIGNED) {
        add(t, "%" PRId64, signed_of(bytes, type->size));
    } else {
        add(t, "%" PRIu64, unsigned_of(bytes, type->size));
    }
}

/* ---- characters and texts ---- */

static void add_character(struct text *t, uint8_t c, char quote) {
    static const char *const names = "a\ab\bt\tn\nv\vf\fr\r0";
    for (const char *name = names; c && *name && name[1]; name += 2)
        if ((uint8_t)name[1] == c) {
            add(t, "\\%c", *name);
            return;
        }
    if (c == (uint8_t)quote || c == '\\')
        add(t, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
        add(t, c ? "\\x%02x" : "\\0", c);
    else
        add(t, "%c", c);
}

/* Writes a text in quotes. `whole`: the text ends with the bytes; otherwise more may follow that we do not have. */
static void add_string(struct text *t, const uint8_t *bytes, size_t length, bool whole) {
    size_t shown = length < STRING_BYTES ? length : STRING_BYTES;
    add(t, "\"");
    for (size_t i = 0; i < shown;) {
        size_t size = ct_utf8_character((const char *)bytes + i, length - i);
        if (size > 1)
            add(t, "%.*s", (int)size, (const char *)bytes + i);
        else if (size == 1)
            add_character(t, bytes[i], '"');
        else
            add(t, "\\x%02x", bytes[i]);
        i += size ? size : 1;
    }
    add(t, whole && shown == length ? "\"" : "\"…");
}

/* Bytes at an address: captured ones, the recorded stack, or memory that cannot change; NULL: not known. */
static const uint8_t *bytes_at(const struct ct_memory *memory, uint64_t address, size_t *have) {
    const struct ct_trace_detail *detail = memory->detail;
    for (unsigned i = 0; i < detail->piece_count && i < sizeof detail->pieces / sizeof *detail->pieces; i++) {
        uint64_t from = address - detail->pieces[i].address;
        size_t end = (size_t)detail->pieces[i].offset + detail->pieces[i].size;
        if (from >= detail->pieces[i].size || end > sizeof detail->piece_bytes)
            continue;
        *have = detail->pieces[i].size - (size_t)from;
        return detail->piece_bytes + detail->pieces[i].offset + from;
    }
    if (address < detail->stack_pointer || address - detail->stack_pointer >= detail->stack_size)
        return memory->constants ? ct_constants_at(memory->constants, memory->process, address, have) : NULL;
    *have = detail->stack_size - (size_t)(address - detail->stack_pointer);
    return detail->stack + (address - detail->stack_pointer);
}

/* Writes the text of a char pointer; true: the text is known. */
static bool add_text(struct text *t, uint64_t address) {
    size_t have;
    const uint8_t *bytes = bytes_at(t->memory, address, &have);
    if (!bytes) {
        add(t, "0x%" PRIx64, address);
        return false;
    }
    const uint8_t *end = memchr(bytes, 0, have);
    add_string(t, bytes, end ? (size_t)(end - bytes) : have, end != NULL);
    return true;
}

/* ---- enumerations ---- */

static bool add_flags(struct text *t, const struct ct_type *type, uint64_t value) {
    uint64_t left = value;
    char names[CT_ARGUMENT_TEXT];
    size_t used = 0;
    for (size_t i = 0; i < type->enumerator_count && left; i++) {
        uint64_t bit = (uint64_t)type->enumerators[i].value;
        if (!bit || (bit & (bit - 1)) || !(left & bit))
            continue;
        int length = snprintf(names + used, sizeof names - used, "%s%s", used ? "|" : "", type->enumerators[i].name);
        if (length < 0 || (size_t)length >= sizeof names - used)
            return false;
        used += (size_t)length;
        left &= ~bit;
    }
    if (left || !used)
        return false;
    add(t, "%s", names);
    return true;
}

static void add_enum(struct text *t, const struct ct_type *type, const uint8_t *bytes) {
    int64_t value = type->is_signed ? signed_of(bytes, type->size) : (int64_t)unsigned_of(bytes, type->size);
    for (size_t i = 0; i < type->enumerator_count; i++) {
        /* DWARF writes their values in as many bits as they need. */
        uint64_t mask = type->size >= 8 ? UINT64_MAX : (UINT64_C(1) << 8 * type->size) - 1;
        if (((uint64_t)type->enumerators[i].value & mask) == ((uint64_t)value & mask)) {
            add(t, "%s", type->enumerators[i].name);
            return;
        }
    }
    if (!add_flags(t, type, (uint64_t)value))
        add(t, "%" PRId64, value);
}

/* ---- all ---- */

static void add_value(struct text *t, const struct ct_type *type, const uint8_t *bytes, size_t have, unsigned depth);

static void add_bits(struct text *t, const struct ct_member *m, const uint8_t *bytes, size_t have) {
    uint64_t value = 0;
    size_t count = (m->bit_offset + m->bit_size + 7) / 8;
    if (count > 8 || m->offset + count > have || m->bit_size > 64) {
        add(t, "?");
        return;
    }
    memcpy(&value, bytes + m->offset, count);
    value = value >> m->bit_offset << (64 - m->bit_size);
    if (m->type->kind == CT_TYPE_SIGNED)
        add(t, "%" PRId64, (int64_t)value >> (64 - m->bit_size));
    else
        add(t, "%" PRIu64, value >> (64 - m->bit_size));
}

static void add_struct(struct text *t, const struct ct_type *type, const uint8_t *bytes, size_t have, unsigned depth) {
    add(t, "{");
    for (size_t i = 0; i < type->member_count && !t->full; i++) {
        const struct ct_member *m = &type->members[i];
        add(t, "%s%s%s", i ? ", " : "", m->name, *m->name ? "=" : "");
        if (m->bit_size)
            add_bits(t, m, bytes, have);
        else if (m->offset > have)
            add(t, "?");
        else
            add_value(t, m->type, bytes + m->offset, have - (size_t)m->offset, depth + 1);
    }
    add(t, type->incomplete && type->member_count ? ", …}" : "}");
}

static void add_array(struct text *t, const struct ct_type *type, const uint8_t *bytes, size_t have, unsigned depth) {
    if (type->element->kind == CT_TYPE_CHAR) {
        size_t most = have < type->count ? have : (size_t)type->count;
        const uint8_t *end = memchr(bytes, 0, most);
        add_string(t, bytes, end ? (size_t)(end - bytes) : most, end || most == type->count);
        return;
    }
    add(t, "[");
    for (uint64_t i = 0; i < type->count && !t->full; i++) {
        uint64_t at = i * type->element->size;
        if (i == ELEMENTS) {
            add(t, ", …");
            break;
        }
        add(t, "%s", i ? ", " : "");
        add_value(t, type->element, bytes + (at < have ? at : have), at < have ? have - (size_t)at : 0, depth + 1);
    }
    add(t, "]");
}

/* Writes the address and, one level deep, the structure there, if its bytes are known. */
static void add_pointer(struct text *t, const struct ct_type *type, uint64_t address, unsigned depth) {
    size_t have;
    const uint8_t *bytes = type->element && depth == 0 ? bytes_at(t->memory, address, &have) : NULL;
    add(t, "0x%" PRIx64, address);
    if (!bytes)
        return;
    add(t, " ");
    add_struct(t, type->element, bytes, have < type->element->size ? have : (size_t)type->element->size, depth + 1);
}

static void add_value(struct text *t, const struct ct_type *type, const uint8_t *bytes, size_t have, unsigned depth) {
    bool parts = type->kind == CT_TYPE_STRUCT || type->kind == CT_TYPE_ARRAY;
    if (depth > DEPTH || (!parts && have < type->size)) {
        add(t, "?");
        return;
    }
    switch (type->kind) {
    case CT_TYPE_SIGNED:
    case CT_TYPE_UNSIGNED:
        add_integer(t, type, bytes);
        break;
    case CT_TYPE_BOOL:
        if (unsigned_of(bytes, type->size) <= 1)
            add(t, *bytes ? "true" : "false");
        else
            add_integer(t, type, bytes);
        break;
    case CT_TYPE_CHAR:
        add(t, "'");
        if (*bytes < 0x80)
            add_character(t, *bytes, '\'');
        else
            add(t, "\\x%02x", *bytes);
        add(t, "'");
        break;
    case CT_TYPE_FLOAT:
        add_real(t, type, bytes);
        break;
    case CT_TYPE_ENUM:
        add_enum(t, type, bytes);
        break;
    case CT_TYPE_POINTER:
        add_pointer(t, type, unsigned_of(bytes, 8), depth);
        break;
    case CT_TYPE_TEXT:
        add_text(t, unsigned_of(bytes, 8));
        break;
    case CT_TYPE_STRUCT:
        add_struct(t, type, bytes, have, depth);
        break;
    case CT_TYPE_ARRAY:
        add_array(t, type, bytes, have, depth);
        break;
    default:
        add(t, "?");
    }
}

static enum ct_value_kind kind_of(const struct ct_type *type, const uint8_t *bytes) {
    switch (type->kind) {
    case CT_TYPE_SIGNED:
        return type->size > 8 ? CT_VALUE_OTHER : CT_VALUE_SIGNED;
    case CT_TYPE_UNSIGNED:
        return type->size > 8 ? CT_VALUE_OTHER : CT_VALUE_UNSIGNED;
    case CT_TYPE_BOOL:
        return unsigned_of(bytes, type->size) <= 1 ? CT_VALUE_BOOL : CT_VALUE_UNSIGNED;
    case CT_TYPE_FLOAT:
        return CT_VALUE_REAL;
    case CT_TYPE_ENUM:
    case CT_TYPE_CHAR:
        return CT_VALUE_NAME;
    case CT_TYPE_POINTER:
    case CT_TYPE_TEXT:
        return CT_VALUE_POINTER;
    case CT_TYPE_STRUCT:
    case CT_TYPE_ARRAY:
        return CT_VALUE_OTHER;
    default:
        return CT_VALUE_UNKNOWN;
    }
}

/* Copies the text without quotes. */
static void copy_string(const struct ct_memory *memory, struct ct_argument *out) {
    size_t have, length;
    const uint8_t *bytes = bytes_at(memory, out->number, &have);
    if (!bytes)
        return;
    out->kind = CT_VALUE_STRING;
    length = strnlen((const char *)bytes, have < sizeof out->string ? have : sizeof out->string - 1);
    memcpy(out->string, bytes, length);
    out->string[length < sizeof out->string ? length : sizeof out->string - 1] = 0;
}

void ct_value_unknown(struct ct_argument *out) {
    out->kind = CT_VALUE_UNKNOWN;
    out->number = 0;
    strcpy(out->text, "?");
}

void ct_value_pointer(uint64_t value, struct ct_argument *out) {
    out->kind = CT_VALUE_POINTER;
    out->number = value;
    snprintf(out->text, sizeof out->text, "0x%" PRIx64, value);
}

void ct_value_show(const struct ct_type *type, const uint8_t *bytes, size_t have, const struct ct_memory *memory,
                   struct ct_argument *out) {
    struct text t = {.at = out->text, .size = sizeof out->text, .memory = memory};
    bool parts = type->kind == CT_TYPE_STRUCT || type->kind == CT_TYPE_ARRAY;
    if (type->kind == CT_TYPE_UNKNOWN || (!parts && have < type->size)) {
        ct_value_unknown(out);
        return;
    }
    out->kind = kind_of(type, bytes);
    if (out->kind == CT_VALUE_REAL) {
        out->real = real_of(type, bytes);
    } else if (out->kind != CT_VALUE_OTHER) {
        bool extend = type->kind == CT_TYPE_SIGNED || type->kind == CT_TYPE_CHAR ||
                      (type->kind == CT_TYPE_ENUM && type->is_signed);
        out->number = extend ? (uint64_t)signed_of(bytes, type->size) : unsigned_of(bytes, type->size);
    }
    out->text[0] = 0;
    add_value(&t, type, bytes, have, 0);
    if (type->kind == CT_TYPE_TEXT)
        copy_string(memory, out);
}

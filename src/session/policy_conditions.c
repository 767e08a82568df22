/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of triggers on values: GLOB:arg2:gt:4096 and arg0:like:*.conf. See policy.h. */
#include "session/policy.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const compares[] = {"eq", "ne", "lt", "gt", "like"};
enum { COMPARES = sizeof compares / sizeof *compares, MOST_ERRNO = 4095 };

/* ---- words ---- */

static bool parse_number(const char *text, int64_t *out) {
    bool negative = *text == '-';
    const char *digits = text + (negative || *text == '+');
    bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    if (!isdigit((unsigned char)digits[0]) || (hex && !isxdigit((unsigned char)digits[2])))
        return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(digits, &end, hex ? 16 : 10);
    unsigned long long limit = negative ? 1ull << 63 : hex ? UINT64_MAX : INT64_MAX;
    if (*end || errno || value > limit)
        return false;
    *out = (int64_t)(negative ? 0 - value : value);
    return true;
}

static bool parse_errno(const char *text, int64_t *out) {
    for (int i = 1; i < MOST_ERRNO; i++) {
        const char *name = strerrorname_np(i);
        if (name && !strcmp(name, text)) {
            *out = i;
            return true;
        }
    }
    return parse_number(text, out);
}

/* The index of the comparison that the text begins with, before a colon; -1: none. */
static int compare_of(const char *text) {
    for (int i = 0; i < COMPARES; i++) {
        size_t length = strlen(compares[i]);
        if (!strncmp(text, compares[i], length) && text[length] == ':')
            return i;
    }
    return -1;
}

/* The value that the text begins with, before a colon; -1: none. */
static int value_of(const char *text) {
    if (!strncmp(text, "arg", 3) && text[3] >= '0' && text[3] < '0' + (int)CT_TRIGGER_ARGUMENTS && text[4] == ':')
        return text[3] - '0';
    if (!strncmp(text, "result:", 7))
        return CT_TRIGGER_RESULT;
    return !strncmp(text, "errno:", 6) ? CT_TRIGGER_ERRNO : -1;
}

/* ---- conditions ---- */

static const char *parse_operand(struct ct_trigger_condition *c, const char *text) {
    if (c->compare == CT_COMPARE_LIKE) {
        if (c->value == CT_TRIGGER_ERRNO)
            return "compares errno with a text";
        if (!*text || strlen(text) >= sizeof c->pattern)
            return "has a pattern that is empty or longer than 111 characters";
        snprintf(c->pattern, sizeof c->pattern, "%s", text);
        return NULL;
    }
    if (c->value == CT_TRIGGER_ERRNO)
        return parse_errno(text, &c->number) ? NULL : "compares errno with something that is no name or number of one";
    return parse_number(text, &c->number) ? NULL : "compares with something that is not a 64-bit number";
}

/* VALUE:COMPARE:OPERAND; of a return also COMPARE:OPERAND. */
static const char *parse_condition(struct ct_trigger *t, const char *text) {
    bool returned = t->kind == CT_TRIGGER_RETURN;
    int value = value_of(text);
    if (t->condition_count == CT_TRIGGER_CONDITIONS)
        return "has more than four conditions";
    if (value < 0 && !returned)
        return "has a condition that names none of arg0 to arg5";
    if (returned && value >= 0 && value < (int)CT_TRIGGER_ARGUMENTS)
        return "looks at an argument, which is known at the call only (call=)";
    if (!returned && value >= (int)CT_TRIGGER_ARGUMENTS)
        return "looks at the result or errno, which the return has only (return=)";
    const char *rest = value < 0 ? text : strchr(text, ':') + 1;
    int compare = compare_of(rest);
    if (compare < 0)
        return "compares with something else than eq, ne, lt or gt (or like)";
    struct ct_trigger_condition *c = &t->conditions[t->condition_count++];
    *c = (struct ct_trigger_condition){.value = value < 0 ? CT_TRIGGER_RESULT : (uint32_t)value,
                                       .compare = (uint32_t)compare};
    return parse_operand(c, strchr(rest, ':') + 1);
}

/* Where the first condition begins, after the glob, which may have colons itself. NULL: there is none. */
static char *find_first(const struct ct_trigger *t, char *text) {
    for (char *c = strchr(text, ':'); c; c = strchr(c + 1, ':'))
        if (value_of(c + 1) >= 0)
            return c;
    char *last = strrchr(text, ':'), *before = NULL;
    for (char *c = text; last && c < last; c++)
        before = *c == ':' ? c : before;
    return t->kind == CT_TRIGGER_RETURN ? before : NULL;
}

const char *ct_policy_parse_conditions(struct ct_trigger *t, char *text) {
    char *next = strstr(text, " and "), *first;
    if (next) {
        *next = 0;
        next += 5;
    }
    if (!(first = find_first(t, text)))
        return t->kind == CT_TRIGGER_RETURN ? "does not say which return values"
                                            : "has no condition (symbol= needs none)";
    *first++ = 0;
    const char *problem = parse_condition(t, first);
    for (char *here = next; here && !problem; here = next) {
        if ((next = strstr(here, " and "))) {
            *next = 0;
            next += 5;
        }
        problem = parse_condition(t, here);
    }
    return problem;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the texts of triggers. */
#include "session/policy.h"
#include "symbols/name_match.h"
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MINUTES (24 * 60)

static const struct {
    const char *word, *example;
} kinds[CT_TRIGGER_COUNT] = {
#define KIND(name, word, example) [CT_TRIGGER_##name] = {word, example},
    CT_TRIGGER_LIST(KIND)
#undef KIND
};

struct parse {
    struct ct_trigger *trigger;
    char *value; /* the text after '=' */
    char *error;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static int complain(struct parse *p, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(p->error, p->size, format, list);
    va_end(list);
    return CT_ERR_INVALID_ARGUMENT;
}

static int misses(struct parse *p, const char *what) {
    const struct ct_trigger *t = p->trigger;
    return complain(p, "the trigger \"%s\" %s; write it like %s", t->text, what, kinds[t->kind].example);
}

/* ---- globs ---- */

/* A '!' at the start of a bracket belongs to the glob. */
static int take_glob(struct parse *p, const char *text) {
    struct ct_trigger *t = p->trigger;
    const char *mark = NULL;
    for (const char *c = text; *c && !mark; c++)
        if (*c == '!' && (c == text || c[-1] != '['))
            mark = c;
    size_t length = mark ? (size_t)(mark - text) : 0;
    snprintf(t->module, sizeof t->module, "%.*s", (int)length, text);
    snprintf(t->glob, sizeof t->glob, "%s", mark ? mark + 1 : text);
    return !t->glob[0] || (mark && !length) ? misses(p, "names no function") : 0;
}

/* Cuts the value at its last colon and returns what came after it. NULL: no colon. */
static char *cut_at_colon(char *text) {
    char *colon = strrchr(text, ':');
    if (colon)
        *colon++ = 0;
    return colon;
}

/* ---- values ---- */

static bool parse_duration(const char *text, uint64_t *out) {
    static const struct {
        const char *name;
        uint64_t factor;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
    uint64_t whole = 0, part = 0, scale = 1;
    if (!isdigit((unsigned char)*text))
        return false;
    for (; isdigit((unsigned char)*text); text++) {
        whole = whole * 10 + (uint64_t)(*text - '0');
        if (whole > 1000000000)
            return false;
    }
    if (*text == '.' && isdigit((unsigned char)text[1]))
        for (text++; isdigit((unsigned char)*text); text++)
            if (scale < 1000000000) {
                part = part * 10 + (uint64_t)(*text - '0');
                scale *= 10;
            }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (!strcmp(units[i].name, text)) {
            *out = whole * units[i].factor + part * units[i].factor / scale;
            return true;
        }
    return false;
}

static int parse_slow(struct parse *p) {
    const char *limit = cut_at_colon(p->value);
    if (!limit)
        return misses(p, "does not say how slow");
    if (!parse_duration(limit, &p->trigger->slow_ns))
        return misses(p, "has no time with a unit (ns, us, ms, s) at its end");
    return take_glob(p, p->value);
}

/* ---- signals ---- */

static int signal_number(const char *text) {
    char *end;
    long number = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : 0;
    if (number)
        return !*end && number > 0 && number <= SIGRTMAX ? (int)number : 0;
    if (!strncasecmp(text, "SIG", 3))
        text += 3;
    for (int i = 1; i < SIGRTMIN; i++) {
        const char *name = sigabbrev_np(i);
        if (name && !strcasecmp(name, text))
            return i;
    }
    bool from_min = !strncasecmp(text, "RTMIN", 5), from_max = !strncasecmp(text, "RTMAX", 5);
    if (!from_min && !from_max)
        return 0;
    text += 5;
    number = 0;
    if (*text) {
        if (*text != (from_min ? '+' : '-') || !isdigit((unsigned char)text[1]))
            return 0;
        number = strtol(text + 1, &end, 10);
        if (*end || number > SIGRTMAX - SIGRTMIN)
            return 0;
    }
    return from_min ? SIGRTMIN + (int)number : SIGRTMAX - (int)number;
}

static int parse_signal(struct parse *p) {
    int number = p->trigger->signal = signal_number(p->value);
    if (!number)
        return misses(p, "names no signal (`kill -l` lists them)");
    if (number == SIGKILL || number == SIGSTOP)
        return complain(
            p, "a program cannot be observed when it gets %s; --trigger crash keeps what happened before its end",
            number == SIGKILL ? "SIGKILL" : "SIGSTOP");
    return 0;
}

/* ---- times ---- */

static const char *parse_minute(const char *text, int *out) {
    int hours, minutes, used = 0;
    if (!isdigit((unsigned char)*text) || sscanf(text, "%2d:%2d%n", &hours, &minutes, &used) != 2 || !used)
        return NULL;
    *out = hours * 60 + minutes;
    bool valid = isdigit((unsigned char)text[used - 1]) && isdigit((unsigned char)text[used - 2]) && minutes < 60 &&
                 *out <= DAY_MINUTES;
    return valid ? text + used : NULL;
}

static int parse_time(struct parse *p) {
    struct ct_trigger *t = p->trigger;
    const char *rest = parse_minute(p->value, &t->from);
    rest = rest && *rest == '-' ? parse_minute(rest + 1, &t->to) : NULL;
    if (!rest || *rest)
        return misses(p, "does not have two times of the day");
    if (t->from == t->to)
        return misses(p, "has an empty span (24:00 is the end of the day)");
    return 0;
}

bool ct_trigger_covers_minute(const struct ct_trigger *t, int minute) {
    return t->from < t->to ? minute >= t->from && minute < t->to : minute >= t->from || minute < t->to;
}

/* ---- all kinds ---- */

static int parse_conditions(struct parse *p) {
    const char *problem = ct_policy_parse_conditions(p->trigger, p->value);
    return problem ? misses(p, problem) : take_glob(p, p->value);
}

static int take_whole(struct parse *p) {
    return take_glob(p, p->value);
}

static int take_nothing(struct parse *p) {
    (void)p;
    return 0;
}

static bool is_printable(const char *text) {
    for (; *text; text++)
        if (iscntrl((unsigned char)*text))
            return false;
    return true;
}

/* Finds the kind that the text begins with, and its value; NULL: it has none. */
static int find_kind(struct parse *p, const char *text) {
    size_t length = strcspn(text, "=");
    for (int k = 0; k < CT_TRIGGER_COUNT; k++) {
        if (strlen(kinds[k].word) != length || strncmp(kinds[k].word, text, length))
            continue;
        p->trigger->kind = (enum ct_trigger_kind)k;
        bool takes_value = strchr(kinds[k].example, '=') != NULL;
        if (takes_value && !(text[length] && text[length + 1]))
            return misses(p, "needs a value");
        if (!takes_value && text[length])
            return misses(p, "takes no value");
        return 0;
    }
    return complain(
        p,
        "\"%s\" is not a trigger; there are symbol=GLOB, call=GLOB:arg0:eq:0, return=GLOB:lt:0, slow=GLOB:50ms, crash, "
        "signal=NAME, time=HH:MM-HH:MM and manual",
        text);
}

int ct_policy_parse(const char *text, struct ct_trigger *out, char *error, size_t size) {
    static int (*const parsers[CT_TRIGGER_COUNT])(struct parse *) = {
        [CT_TRIGGER_SYMBOL] = take_whole, [CT_TRIGGER_RETURN] = parse_conditions, [CT_TRIGGER_CALL] = parse_conditions,
        [CT_TRIGGER_SLOW] = parse_slow,   [CT_TRIGGER_CRASH] = take_nothing,      [CT_TRIGGER_SIGNAL] = parse_signal,
        [CT_TRIGGER_TIME] = parse_time,   [CT_TRIGGER_MANUAL] = take_nothing,
    };
    char copy[CT_TRIGGER_TEXT];
    struct parse p = {out, copy, error, size};
    *out = (struct ct_trigger){.bit = -1};
    if (strlen(text) >= sizeof copy)
        return complain(&p, "a trigger has at most %zu characters; shorten its glob with *", sizeof copy - 1);
    if (!is_printable(text))
        return complain(&p, "a trigger has no line breaks and no other control characters");
    snprintf(out->text, sizeof out->text, "%s", text);
    int status = find_kind(&p, text);
    if (status)
        return status;
    const char *value = strchr(text, '=');
    snprintf(copy, sizeof copy, "%s", value ? value + 1 : "");
    return parsers[out->kind](&p);
}

bool ct_trigger_is_of_functions(enum ct_trigger_kind kind) {
    return kind == CT_TRIGGER_SYMBOL || kind == CT_TRIGGER_CALL || kind == CT_TRIGGER_RETURN || kind == CT_TRIGGER_SLOW;
}

bool ct_policy_fits_module(const char *glob, const char *module) {
    const char *slash = module ? strrchr(module, '/') : NULL;
    return module && (!fnmatch(glob, module, 0) || (slash && !fnmatch(glob, slash + 1, 0)));
}

bool ct_policy_fits(const char *module_glob, const char *glob, const char *name, const char *module) {
    const char *const globs[] = {glob, NULL};
    return (!module_glob[0] || ct_policy_fits_module(module_glob, module)) && ct_name_fits(globs, name);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The option parser. Prints only in ct_options_parse; help.c writes the help texts. */
#include "cli/options.h"
#include "base/closest.h"
#include "cli/command.h"
#include "cli/message.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    const struct ct_command *command;
    char *values;
    int argc, next; /* next: index of the next word of argv */
    char **argv;
    bool help;
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 2, 3))) static bool complain(struct parser *p, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(p->error, p->error_size, format, list);
    va_end(list);
    return false;
}

/* ---- values ---- */

struct unit {
    const char *name;
    uint64_t factor;
};

/* Parses digits with an optional fraction, and a unit (the first of the table has the empty name). Exact: no floating
 * point. */
static bool parse_with_unit(const char *text, const struct unit *units, bool fraction_allowed, uint64_t *out) {
    uint64_t whole = 0, part = 0, scale = 1, result;
    if (!isdigit((unsigned char)*text))
        return false;
    for (; isdigit((unsigned char)*text); text++)
        if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, (uint64_t)(*text - '0'), &whole))
            return false;
    if (*text == '.' && fraction_allowed) {
        if (!isdigit((unsigned char)*++text))
            return false;
        for (; isdigit((unsigned char)*text); text++)
            if (scale < 1000000000) {
                part = part * 10 + (uint64_t)(*text - '0');
                scale *= 10;
            }
    }
    for (; units->name; units++)
        if (!strcasecmp(units->name, text))
            break;
    if (!units->name || __builtin_mul_overflow(whole, units->factor, &result))
        return false;
    uint64_t rest = (uint64_t)((unsigned __int128)part * units->factor / scale);
    return !__builtin_add_overflow(result, rest, out);
}

bool ct_option_parse_number(const char *text, uint64_t *out) {
    static const struct unit units[] = {{"", 1}, {0}};
    return parse_with_unit(text, units, false, out);
}

bool ct_option_parse_size(const char *text, uint64_t *out) {
    static const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"K", 1ull << 10},
        {"KB", 1ull << 10},
        {"KiB", 1ull << 10},
        {"M", 1ull << 20},
        {"MB", 1ull << 20},
        {"MiB", 1ull << 20},
        {"G", 1ull << 30},
        {"GB", 1ull << 30},
        {"GiB", 1ull << 30},
        {"T", 1ull << 40},
        {"TB", 1ull << 40},
        {"TiB", 1ull << 40},
        {0},
    };
    return parse_with_unit(text, units, true, out);
}

bool ct_option_parse_duration(const char *text, uint64_t *out) {
    static const struct unit units[] = {
        {"", 1000000000}, {"s", 1000000000},  {"ms", 1000000},      {"us", 1000},
        {"ns", 1},        {"m", 60000000000}, {"h", 3600000000000}, {0},
    };
    return parse_with_unit(text, units, true, out);
}

/* ---- storing ---- */

static const char *accepted_values(enum ct_option_kind kind) {
    switch (kind) {
    case CT_OPTION_SIZE:
        return "a size like 65536, 64K, 32M or 1.5G";
    case CT_OPTION_DURATION:
        return "a time like 2 or 1.5s (seconds), 20ms, 500us, 5m";
    default:
        return "a whole number";
    }
}

static bool store_quantity(struct parser *p, const struct ct_option *o, const char *text) {
    uint64_t value;
    bool ok = o->kind == CT_OPTION_SIZE       ? ct_option_parse_size(text, &value)
              : o->kind == CT_OPTION_DURATION ? ct_option_parse_duration(text, &value)
                                              : ct_option_parse_number(text, &value);
    char low[CT_TEXT_SIZE], high[CT_TEXT_SIZE];
    const char *(*show)(char *, uint64_t) = o->kind == CT_OPTION_SIZE       ? ct_text_size
                                            : o->kind == CT_OPTION_DURATION ? ct_text_time
                                                                            : ct_text_count;
    if (!ok)
        return complain(p, "--%s takes %s, not \"%s\"", o->name, accepted_values(o->kind), text);
    if (value < o->min)
        return complain(p, "--%s must be at least %s, \"%s\" is less", o->name, show(low, o->min), text);
    if (o->max && value > o->max)
        return complain(p, "--%s must be at most %s, \"%s\" is more", o->name, show(high, o->max), text);
    memcpy(p->values + o->offset, &value, sizeof value);
    return true;
}

static bool store_choice(struct parser *p, const struct ct_option *o, const char *text) {
    char all[256] = "";
    size_t used = 0;
    int i = 0;
    for (; o->choices[i]; i++) {
        if (!strcmp(o->choices[i], text)) {
            memcpy(p->values + o->offset, &i, sizeof i);
            return true;
        }
        const char *between = !i ? "" : o->choices[i + 1] ? ", " : " or ";
        if (used < sizeof all)
            used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", between, o->choices[i]);
    }
    return complain(p, "--%s takes %s, not \"%s\"", o->name, all, text);
}

static bool store_item(struct parser *p, const struct ct_option *o, const char *text) {
    struct ct_option_list *list = (void *)(p->values + o->offset);
    const char **grown = realloc(list->items, (list->count + 2) * sizeof *grown);
    if (!grown)
        return complain(p, "out of memory");
    grown[list->count++] = text;
    grown[list->count] = NULL;
    list->items = grown;
    return true;
}

static bool store_value(struct parser *p, const struct ct_option *o, const char *text) {
    switch (o->kind) {
    case CT_OPTION_FLAG:
        *(bool *)(p->values + o->offset) = true;
        return true;
    case CT_OPTION_STRING:
        if (!*text)
            return complain(p, "--%s needs a value (%s), not an empty one", o->name, o->metavar);
        memcpy(p->values + o->offset, &text, sizeof text);
        return true;
    case CT_OPTION_LIST:
        if (!*text)
            return complain(p, "--%s needs a value (%s), not an empty one", o->name, o->metavar);
        return store_item(p, o, text);
    case CT_OPTION_CHOICE:
        return store_choice(p, o, text);
    default:
        return store_quantity(p, o, text);
    }
}

static bool store_initials(struct parser *p) {
    for (const struct ct_option *o = p->command->options; o && o->name; o++)
        if (o->initial && !store_value(p, o, o->initial))
            return false;
    return true;
}

/* ---- finding ---- */

static const char *option_name(const void *arg, size_t i) {
    const struct ct_command *command = arg;
    return command->options && command->options[i].name ? command->options[i].name : "help";
}

static size_t option_count(const struct ct_command *command) {
    size_t n = 0;
    while (command->options && command->options[n].name)
        n++;
    return n;
}

static bool unknown_option(struct parser *p, const char *word, const char *name) {
    const char *close = ct_closest_name(name, option_name, p->command, option_count(p->command) + 1);
    const char *command = p->command->name;
    if (close)
        return complain(p, "%s has no option %s; did you mean --%s? `contrail %s --help` lists the options", command,
                        word, close, command);
    return complain(p, "%s has no option %s; `contrail %s --help` lists the options", command, word, command);
}

static const struct ct_option *find_long(const struct ct_command *command, const char *name, size_t length) {
    for (const struct ct_option *o = command->options; o && o->name; o++)
        if (strlen(o->name) == length && !strncmp(o->name, name, length))
            return o;
    return NULL;
}

static const struct ct_option *find_short(const struct ct_command *command, char letter) {
    for (const struct ct_option *o = command->options; o && o->name; o++)
        if (o->letter == letter)
            return o;
    return NULL;
}

/* ---- words ---- */

/* The value is the next word, unless that is an option itself: then the value was forgotten. (--name=--other passes
 * it.) */
static bool take_next(struct parser *p, const struct ct_option *o) {
    const char *value = p->next < p->argc ? p->argv[p->next] : NULL;
    bool is_option =
        value && !strncmp(value, "--", 2) && (!value[2] || find_long(p->command, value + 2, strcspn(value + 2, "=")));
    if (!value || is_option)
        return complain(p, "--%s needs a value: --%s %s", o->name, o->name, o->metavar);
    p->next++;
    return store_value(p, o, value);
}

static bool read_long(struct parser *p, const char *word) {
    const char *name = word + 2, *value = strchr(name, '=');
    size_t length = value ? (size_t)(value - name) : strlen(name);
    const struct ct_option *o = find_long(p->command, name, length);
    char shown[128], *cut = shown + 2;
    snprintf(shown, sizeof shown, "--%.*s", (int)length, name);
    if (!strcmp(cut, "help") && !value) {
        p->help = true;
        return true;
    }
    if (!o)
        return unknown_option(p, shown, cut);
    if (o->kind == CT_OPTION_FLAG)
        return value ? complain(p, "--%s takes no value", o->name) : store_value(p, o, "");
    return value ? store_value(p, o, value + 1) : take_next(p, o);
}

static bool read_short(struct parser *p, const char *word) {
    for (const char *c = word + 1; *c; c++) {
        const struct ct_option *o = find_short(p->command, *c);
        if (*c == 'h' && !o) {
            p->help = true;
            return true;
        }
        if (!o) {
            char shown[3] = {'-', *c, 0};
            return unknown_option(p, c == word + 1 ? word : shown, c == word + 1 ? word + 1 : shown);
        }
        if (o->kind != CT_OPTION_FLAG)
            return c[1] ? store_value(p, o, c + 1) : take_next(p, o);
        if (!store_value(p, o, ""))
            return false;
    }
    return true;
}

static bool check_operands(struct parser *p, int count) {
    const struct ct_command *c = p->command;
    const char *operands = c->operands ? c->operands : "";
    const char *space = *operands ? " " : "";
    if (count < c->min_operands)
        return complain(p, "%s needs %s; `contrail %s --help` explains it", c->name, operands, c->name);
    if (c->max_operands >= 0 && count > c->max_operands)
        return complain(p, "%s does not take \"%s\"; usage: contrail %s%s%s%s", c->name, p->argv[1 + c->max_operands],
                        c->name, c->options ? " [OPTIONS]" : "", space, operands);
    return true;
}

enum ct_options_result ct_options_read(const struct ct_command *command, int argc, char **argv, void *values,
                                       struct ct_operands *operands, char *error, size_t error_size) {
    struct parser p = {command, values, argc, 1, argv, false, error, error_size};
    int kept = 0;
    bool ended = false;
    if (!store_initials(&p))
        return CT_OPTIONS_WRONG;
    while (p.next < p.argc) {
        char *word = argv[p.next++];
        bool is_operand = ended || word[0] != '-' || !word[1];
        if (!is_operand && !strcmp(word, "--")) {
            ended = true;
        } else if (is_operand) {
            argv[1 + kept++] = word; /* never ahead of p.next */
            ended |= command->program;
        } else if (!(word[1] == '-' ? read_long(&p, word) : read_short(&p, word))) {
            return CT_OPTIONS_WRONG;
        }
        if (p.help)
            return CT_OPTIONS_HELP;
    }
    if (!check_operands(&p, kept))
        return CT_OPTIONS_WRONG;
    argv[1 + kept] = NULL; /* kept < argc, and argv[argc] is NULL */
    *operands = (struct ct_operands){kept, argv + 1};
    return CT_OPTIONS_RUN;
}

void ct_options_release(const struct ct_command *command, void *values) {
    for (const struct ct_option *o = command->options; o && o->name; o++)
        if (o->kind == CT_OPTION_LIST) {
            struct ct_option_list *list = (void *)((char *)values + o->offset);
            free(list->items);
            *list = (struct ct_option_list){0};
        }
}

int ct_options_parse(const struct ct_command *command, int argc, char **argv, void *values,
                     struct ct_operands *operands) {
    char error[1024] = "";
    switch (ct_options_read(command, argc, argv, values, operands, error, sizeof error)) {
    case CT_OPTIONS_RUN:
        return -1;
    case CT_OPTIONS_HELP:
        ct_options_print_help(stdout, command);
        return ct_message_finish();
    default:
        ct_message_error("%s", error);
        return CT_EXIT_USAGE;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Help texts, written from the tables of the commands. */
#include "cli/command.h"
#include "cli/options.h"
#include <string.h>

enum { WIDTH = 80, COLUMN = 30, USAGE_WIDTH = 100 };

/* Prints words from `column` on, wrapped at WIDTH and indented by `indent`; line feeds in the text are kept. */
static void wrap(FILE *out, const char *text, int indent, int column) {
    while (*text) {
        size_t length = strcspn(text, " \n");
        bool starts_line = column <= indent;
        if (length && !starts_line && column + 1 + (int)length > WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
            starts_line = true;
        }
        if (length && !starts_line)
            fputc(' ', out);
        fprintf(out, "%.*s", (int)length, text);
        column += length ? (int)length + !starts_line : 0;
        text += length;
        if (*text == '\n') {
            fprintf(out, "\n%*s", text[1] == '\n' ? 0 : indent, "");
            column = indent;
        }
        if (*text)
            text++;
    }
    fputc('\n', out);
}

static int add_word(char *text, size_t size, int used, const char *word) {
    return used + snprintf(text + used, size - (size_t)used, "%s", word);
}

/* The help of an option, with what the table knows: choices, repetition, the default. */
static void option_text(char *text, size_t size, const struct ct_option *o) {
    int used = snprintf(text, size, "%s", o->help);
    for (int i = 0; o->choices && o->choices[i]; i++) {
        used = add_word(text, size, used, !i ? ": " : o->choices[i + 1] ? ", " : " or ");
        used = add_word(text, size, used, o->choices[i]);
    }
    if (o->kind == CT_OPTION_LIST)
        used = add_word(text, size, used, "; may be repeated");
    if (o->initial)
        snprintf(text + used, size - (size_t)used, " (default: %s)", o->initial);
}

static void print_option(FILE *out, char letter, const char *name, const char *metavar, const char *text) {
    int column = letter ? fprintf(out, "  -%c, --%s", letter, name) : fprintf(out, "      --%s", name);
    if (metavar)
        column += fprintf(out, " %s", metavar);
    if (column + 2 > COLUMN) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", COLUMN - column, "");
    wrap(out, text, COLUMN, COLUMN);
}

/* Prints each line after two spaces. */
static void print_block(FILE *out, const char *title, const char *lines) {
    fprintf(out, "\n%s:\n", title);
    while (*lines) {
        size_t length = strcspn(lines, "\n");
        fprintf(out, "%s%.*s\n", length ? "  " : "", (int)length, lines);
        lines += length + (lines[length] != 0);
    }
}

/* Operands that do not fit have a line of their own. */
static void print_usage(FILE *out, const struct ct_command *command) {
    const char *operands = command->operands ? command->operands : "";
    int length = fprintf(out, "Usage: contrail %s [OPTIONS]", command->name);
    bool fits = length + 1 + (int)strlen(operands) <= USAGE_WIDTH;
    fprintf(out, "%s%s\n\n", !*operands ? "" : fits ? " " : "\n           ", operands);
}

void ct_options_print_help(FILE *out, const struct ct_command *command) {
    char text[1024];
    bool help_letter = true;
    print_usage(out, command);
    wrap(out, command->description, 0, 0);
    fputs("\nOptions:\n", out);
    for (const struct ct_option *o = command->options; o && o->name; o++) {
        option_text(text, sizeof text, o);
        print_option(out, o->letter, o->name, o->metavar, text);
        help_letter &= o->letter != 'h';
    }
    print_option(out, help_letter ? 'h' : 0, "help", NULL, "show this text");
    if (command->notes)
        fprintf(out, "\n%s%s", command->notes, command->notes[strlen(command->notes) - 1] == '\n' ? "" : "\n");
    print_block(out, strchr(command->examples, '\n') ? "Examples" : "Example", command->examples);
}

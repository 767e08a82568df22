/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of `contrail query` that are no SQL: they begin with a full stop. */
#include "base/closest.h"
#include "cli/command.h"
#include "cli/query_run.h"
#include "query/examples.h"
#include <string.h>

struct command {
    const char *name, *operand, *text;
    int (*run)(struct ct_query_run *run, const char *operand);
};
static const struct command *command_list(void);

/* ---- .tables and .schema ---- */

static void print_table(struct ct_printer *p, const struct ct_table_schema *table, bool columns) {
    size_t width = 0;
    for (int i = 0; i < table->column_count; i++)
        width = strlen(table->columns[i].name) > width ? strlen(table->columns[i].name) : width;
    ct_printer_colour(p, CT_COLOUR_BOLD);
    ct_printer_format(p, "%-10s", table->name);
    ct_printer_colour(p, CT_COLOUR_PLAIN);
    ct_printer_format(p, "  %s\n", table->text);
    for (int i = 0; columns && i < table->column_count; i++) {
        const struct ct_column *column = &table->columns[i];
        const char *remark = column->flags & CT_COLUMN_ARGUMENT ? " (argument)"
                             : column->flags & CT_COLUMN_HIDDEN ? " (not in *)"
                                                                : "";
        ct_printer_format(p, "  %-*s  %-7s  %s%s%s\n", (int)width, column->name, ct_schema_type(column->type),
                          column->text, column->flags & CT_COLUMN_TIME ? "; ns" : "", remark);
    }
}

static const char *table_name(const void *arg, size_t i) {
    (void)arg;
    return ct_schema_table((enum ct_table_id)i)->name;
}

static int show_schema(struct ct_query_run *run, const char *operand) {
    static struct ct_printer printer;
    bool found = !*operand;
    (void)run;
    for (int i = 0; i < CT_TABLE_COUNT; i++)
        found |= !strcmp(operand, table_name(NULL, (size_t)i));
    if (!found) {
        const char *close = ct_closest_name(operand, table_name, NULL, CT_TABLE_COUNT);
        ct_message_error("there is no table %s; %s%s%s.tables lists them", operand, close ? "did you mean " : "",
                         close ? close : "", close ? "? " : "");
        return CT_EXIT_USAGE;
    }
    ct_printer_open(&printer, true);
    for (int i = 0; i < CT_TABLE_COUNT; i++) {
        const struct ct_table_schema *table = ct_schema_table((enum ct_table_id)i);
        if (*operand && strcmp(operand, table->name) != 0)
            continue;
        if (i && !*operand)
            ct_printer_text(&printer, "\n");
        print_table(&printer, table, true);
    }
    return ct_printer_close(&printer);
}

static int show_tables(struct ct_query_run *run, const char *operand) {
    static struct ct_printer printer;
    (void)run, (void)operand;
    ct_printer_open(&printer, true);
    for (int i = 0; i < CT_TABLE_COUNT; i++)
        print_table(&printer, ct_schema_table((enum ct_table_id)i), false);
    return ct_printer_close(&printer);
}

/* ---- .examples ---- */

int ct_query_print_examples(void) {
    static struct ct_printer printer;
    const struct ct_query_example *example;
    ct_printer_open(&printer, true);
    for (size_t i = 0; (example = ct_query_example(i)); i++) {
        ct_printer_colour(&printer, CT_COLOUR_BOLD);
        ct_printer_format(&printer, "%s%2zu  %s\n", i ? "\n" : "", i + 1, example->question);
        ct_printer_colour(&printer, CT_COLOUR_PLAIN);
        for (const char *line = example->sql; *line;) {
            size_t length = strcspn(line, "\n");
            ct_printer_text(&printer, "    ");
            ct_printer_bytes(&printer, line, length);
            ct_printer_text(&printer, line[length] ? "\n" : ";\n");
            line += length + (line[length] != 0);
        }
    }
    return ct_printer_close(&printer);
}

/* Lists the examples, or runs one. */
static int run_example(struct ct_query_run *run, const char *operand) {
    uint64_t number;
    if (!*operand)
        return ct_query_print_examples();
    const struct ct_query_example *example =
        ct_option_parse_number(operand, &number) && number ? ct_query_example((size_t)number - 1) : NULL;
    if (!example) {
        ct_message_error("there is no example %s; .examples lists them", operand);
        return CT_EXIT_USAGE;
    }
    if (example->two && run->count < 2) {
        ct_message_error("this example compares two traces; add the second one with --with TRACE");
        return CT_EXIT_USAGE;
    }
    return ct_query_run_text(run, example->sql);
}

/* ---- others ---- */

static int show_counters(struct ct_query_run *run, const char *operand) {
    (void)operand;
    ct_query_print_counters(run);
    return 0;
}

static const char *form_name(const void *arg, size_t i) {
#define NAME(name, text) text,
    static const char *const names[] = {CT_QUERY_FORM_LIST(NAME)};
#undef NAME
    (void)arg;
    return i < sizeof names / sizeof *names ? names[i] : NULL;
}

static int set_form(struct ct_query_run *run, const char *operand) {
    for (size_t i = 0; form_name(NULL, i); i++)
        if (!strcmp(operand, form_name(NULL, i))) {
            run->form = (enum ct_query_form)i;
            return 0;
        }
    ct_message_error(".mode takes table, csv, json, ndjson or bar, not \"%s\"", operand);
    return CT_EXIT_USAGE;
}

static int leave(struct ct_query_run *run, const char *operand) {
    (void)run, (void)operand;
    return -1;
}

static int show_help(struct ct_query_run *run, const char *operand) {
    static struct ct_printer printer;
    (void)run, (void)operand;
    ct_printer_open(&printer, true);
    ct_printer_text(&printer, "Type SQL that ends with a semicolon, or:\n");
    for (const struct command *command = command_list(); command->name; command++)
        ct_printer_format(&printer, "  .%s%s%-*s%s\n", command->name, *command->operand ? " " : "",
                          (int)(20 - strlen(command->name) - (*command->operand != 0)), command->operand,
                          command->text);
    return ct_printer_close(&printer);
}

static const struct command commands[] = {
    {"counters", "", "show how many blocks of the trace were unpacked so far", show_counters},
    {"examples", "[N]", "list twenty questions with their SQL, or run one", run_example},
    {"help", "", "show this text", show_help},
    {"mode", "FORM", "print rows as table, csv, json, ndjson or bar", set_form},
    {"quit", "", "leave", leave},
    {"schema", "[TABLE]", "explain every column", show_schema},
    {"tables", "", "list the tables", show_tables},
    {0},
};

enum { COMMAND_COUNT = sizeof commands / sizeof *commands - 1 };

static const struct command *command_list(void) {
    return commands;
}

const char *ct_query_command_name(size_t i) {
    return i < COMMAND_COUNT ? commands[i].name : NULL;
}

static const char *name_at(const void *arg, size_t i) {
    (void)arg;
    return commands[i].name;
}

int ct_query_run_command(struct ct_query_run *run, const char *text) {
    char word[64], operand[128] = "";
    if (sscanf(text, ".%63s %127[^; \n]", word, operand) < 1)
        snprintf(word, sizeof word, " ");
    word[strcspn(word, ";")] = 0;
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(word, commands[i].name))
            return commands[i].run(run, operand);
    const char *close = ct_closest_name(word, name_at, NULL, COMMAND_COUNT);
    ct_message_error("there is no command .%s; %s%s%s.help lists them", word, close ? "did you mean ." : "",
                     close ? close : "", close ? "? " : "");
    return CT_EXIT_USAGE;
}

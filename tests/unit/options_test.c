/* SPDX-License-Identifier: Apache-2.0 */
/* The option parser, the help texts that are made from the same tables, and numbers for people. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "cli/command.h"
#include "cli/message.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct values {
    bool quiet, verbose;
    const char *output;
    uint64_t depth, memory, time;
    struct ct_option_list only;
    int sort;
};

static const char *const sorts[] = {"calls", "total", "self", NULL};
static const struct ct_option options[] = {
    {"quiet", 'q', CT_OPTION_FLAG, offsetof(struct values, quiet), NULL, "say nothing"},
    {"verbose", 'v', CT_OPTION_FLAG, offsetof(struct values, verbose), NULL, "say much"},
    {"output", 'o', CT_OPTION_STRING, offsetof(struct values, output), "DIR", "where to write", .initial = "traces"},
    {"max-depth", 0, CT_OPTION_NUMBER, offsetof(struct values, depth), "N", "frames", .min = 1, .max = 1000},
    {"index-mem", 0, CT_OPTION_SIZE, offsetof(struct values, memory), "SIZE", "memory", .initial = "32M", .min = 65536},
    {"duration", 'd', CT_OPTION_DURATION, offsetof(struct values, time), "S", "how long"},
    {"only", 0, CT_OPTION_LIST, offsetof(struct values, only), "GLOB", "only these"},
    {"sort", 's', CT_OPTION_CHOICE, offsetof(struct values, sort), "KEY", "order", .initial = "total",
     .choices = sorts},
    {0},
};

static const struct ct_command reading = {
    .name = "read",
    .operands = "TRACE",
    .min_operands = 0,
    .max_operands = 1,
    .description = "Reads.\n\nAnd reads.",
    .options = options,
    .examples = "contrail read -q",
};
static const struct ct_command starting = {
    .name = "start",
    .operands = "[--] PROGRAM [ARGUMENTS]",
    .min_operands = 1,
    .max_operands = -1,
    .program = true,
    .description = "Starts.",
    .options = options,
    .examples = "contrail start prog",
};

/* What came of a line of words separated by spaces; "''" is the empty word. */
struct outcome {
    enum ct_options_result result;
    struct values values;
    struct ct_operands operands;
    char error[512], line[512];
    char *argv[32];
};

static struct outcome *parse(const struct ct_command *command, const char *line) {
    static struct outcome o;
    int argc = 0;
    memset(&o, 0, sizeof o);
    snprintf(o.line, sizeof o.line, "%s", line);
    o.argv[argc++] = (char *)command->name;
    for (char *word = strtok(o.line, " "); word; word = strtok(NULL, " "))
        o.argv[argc++] = !strcmp(word, "''") ? (char *)"" : word;
    o.result = ct_options_read(command, argc, o.argv, &o.values, &o.operands, o.error, sizeof o.error);
    return &o;
}

static void release(struct outcome *o) {
    ct_options_release(&reading, &o->values);
}

static void initial_values(void **state) {
    (void)state;
    struct outcome *o = parse(&reading, "");
    assert_int_equal(o->result, CT_OPTIONS_RUN);
    assert_string_equal(o->values.output, "traces");
    assert_int_equal(o->values.memory, 32 << 20);
    assert_int_equal(o->values.sort, 1);
    assert_int_equal(o->values.depth, 0);
    assert_false(o->values.quiet);
    assert_null(o->values.only.items);
    assert_int_equal(o->operands.count, 0);
    assert_null(o->operands.at[0]);
}

static void forms_of_values(void **state) {
    (void)state;
    static const char *const lines[] = {"--output=x", "--output x", "-o x", "-ox", "-qo x", "-qox", "trace --output x"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct outcome *o = parse(&reading, lines[i]);
        assert_int_equal(o->result, CT_OPTIONS_RUN);
        assert_string_equal(o->values.output, "x");
    }
    assert_string_equal(parse(&reading, "--output=a=b")->values.output, "a=b");
    assert_string_equal(parse(&reading, "--output a --output b")->values.output, "b");
    assert_string_equal(parse(&reading, "--output=--quiet")->values.output, "--quiet");
    assert_string_equal(parse(&reading, "--output -")->values.output, "-");
    struct outcome *o = parse(&reading, "-qv");
    assert_true(o->values.quiet && o->values.verbose);
    assert_int_equal(parse(&reading, "--sort self")->values.sort, 2);
}

static void lists(void **state) {
    (void)state;
    struct outcome *o = parse(&reading, "--only a* trace --only=b");
    assert_int_equal(o->result, CT_OPTIONS_RUN);
    assert_int_equal(o->values.only.count, 2);
    assert_string_equal(o->values.only.items[0], "a*");
    assert_string_equal(o->values.only.items[1], "b");
    assert_null(o->values.only.items[2]);
    assert_int_equal(o->operands.count, 1);
    release(o);
    assert_null(o->values.only.items);
}

static void operands(void **state) {
    (void)state;
    struct outcome *o = parse(&reading, "trace -q");
    assert_true(o->values.quiet);
    assert_string_equal(o->operands.at[0], "trace");
    assert_null(o->operands.at[1]);
    o = parse(&reading, "-- -q");
    assert_false(o->values.quiet);
    assert_string_equal(o->operands.at[0], "-q");
    assert_string_equal(parse(&reading, "-")->operands.at[0], "-");
    assert_int_equal(parse(&reading, "a b")->result, CT_OPTIONS_WRONG);
    assert_string_equal(parse(&reading, "a b")->error,
                        "read does not take \"b\"; usage: contrail read [OPTIONS] TRACE");
    assert_int_equal(parse(&starting, "-q")->result, CT_OPTIONS_WRONG);
    assert_string_equal(parse(&starting, "--")->error,
                        "start needs [--] PROGRAM [ARGUMENTS]; `contrail start --help` explains it");
}

/* What follows the program is its own, whatever it looks like. */
static void program_arguments(void **state) {
    (void)state;
    static const char *const lines[] = {"-q prog -v --help -- --output", "-q -- prog -v --help -- --output"};
    for (size_t i = 0; i < 2; i++) {
        struct outcome *o = parse(&starting, lines[i]);
        assert_int_equal(o->result, CT_OPTIONS_RUN);
        assert_true(o->values.quiet);
        assert_false(o->values.verbose);
        assert_int_equal(o->operands.count, 5);
        assert_string_equal(o->operands.at[0], "prog");
        assert_string_equal(o->operands.at[1], "-v");
        assert_string_equal(o->operands.at[2], "--help");
        assert_string_equal(o->operands.at[3], "--");
        assert_string_equal(o->operands.at[4], "--output");
        assert_null(o->operands.at[5]);
    }
    assert_string_equal(parse(&starting, "-- --prog")->operands.at[0], "--prog");
}

static void help_wherever(void **state) {
    (void)state;
    assert_int_equal(parse(&reading, "--help")->result, CT_OPTIONS_HELP);
    assert_int_equal(parse(&reading, "a b c -h")->result, CT_OPTIONS_HELP);
    assert_int_equal(parse(&reading, "-qh")->result, CT_OPTIONS_HELP);
    assert_int_equal(parse(&starting, "--quiet --help")->result, CT_OPTIONS_HELP);
}

static void wrong_input(void **state) {
    (void)state;
    static const struct {
        const char *line, *error;
    } rows[] = {
        {"--outptu x", "read has no option --outptu; did you mean --output? `contrail read --help` lists the options"},
        {"--max", "read has no option --max; did you mean --max-depth? `contrail read --help` lists the options"},
        {"--xyzzy=1", "read has no option --xyzzy; `contrail read --help` lists the options"},
        {"-x", "read has no option -x; `contrail read --help` lists the options"},
        {"-qx", "read has no option -x; `contrail read --help` lists the options"},
        {"-quiet", "read has no option -u; `contrail read --help` lists the options"},
        {"--quiet=yes", "--quiet takes no value"},
        {"--output", "--output needs a value: --output DIR"},
        {"--output --quiet", "--output needs a value: --output DIR"},
        {"-o", "--output needs a value: --output DIR"},
        {"--output=", "--output needs a value (DIR), not an empty one"},
        {"--output ''", "--output needs a value (DIR), not an empty one"},
        {"--index-mem 32X", "--index-mem takes a size like 65536, 64K, 32M or 1.5G, not \"32X\""},
        {"--index-mem ''", "--index-mem takes a size like 65536, 64K, 32M or 1.5G, not \"\""},
        {"--index-mem -1", "--index-mem takes a size like 65536, 64K, 32M or 1.5G, not \"-1\""},
        {"--index-mem 1K", "--index-mem must be at least 64.0 KiB, \"1K\" is less"},
        {"--duration soon", "--duration takes a time like 2 or 1.5s (seconds), 20ms, 500us, 5m, not \"soon\""},
        {"-d 1.", "--duration takes a time like 2 or 1.5s (seconds), 20ms, 500us, 5m, not \"1.\""},
        {"--max-depth 1.5", "--max-depth takes a whole number, not \"1.5\""},
        {"--max-depth 0", "--max-depth must be at least 1, \"0\" is less"},
        {"--max-depth 1001", "--max-depth must be at most 1,000, \"1001\" is more"},
        {"--max-depth 99999999999999999999", "--max-depth takes a whole number, not \"99999999999999999999\""},
        {"--sort size", "--sort takes calls, total or self, not \"size\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct outcome *o = parse(&reading, rows[i].line);
        assert_int_equal(o->result, CT_OPTIONS_WRONG);
        assert_string_equal(o->error, rows[i].error);
    }
}

static void quantities(void **state) {
    (void)state;
    static const struct {
        bool (*parse)(const char *, uint64_t *);
        const char *text;
        uint64_t value; /* UINT64_MAX: refused */
    } rows[] = {
        {ct_option_parse_number, "0", 0},
        {ct_option_parse_number, "18446744073709551614", UINT64_MAX - 1},
        {ct_option_parse_number, "18446744073709551616", UINT64_MAX},
        {ct_option_parse_number, "0x10", UINT64_MAX},
        {ct_option_parse_number, " 1", UINT64_MAX},
        {ct_option_parse_number, "+1", UINT64_MAX},
        {ct_option_parse_number, "", UINT64_MAX},
        {ct_option_parse_size, "65536", 65536},
        {ct_option_parse_size, "64K", 65536},
        {ct_option_parse_size, "64kib", 65536},
        {ct_option_parse_size, "1.5M", 1572864},
        {ct_option_parse_size, "2GiB", 2147483648},
        {ct_option_parse_size, "1T", 1ull << 40},
        {ct_option_parse_size, "16777216T", UINT64_MAX},
        {ct_option_parse_size, "M", UINT64_MAX},
        {ct_option_parse_size, "1 M", UINT64_MAX},
        {ct_option_parse_duration, "2", 2000000000},
        {ct_option_parse_duration, "0.000000001", 1},
        {ct_option_parse_duration, "1.5s", 1500000000},
        {ct_option_parse_duration, "20ms", 20000000},
        {ct_option_parse_duration, "500us", 500000},
        {ct_option_parse_duration, "7ns", 7},
        {ct_option_parse_duration, "5m", 300000000000},
        {ct_option_parse_duration, "1h", 3600000000000},
        {ct_option_parse_duration, ".5", UINT64_MAX},
        {ct_option_parse_duration, "5d", UINT64_MAX},
        {ct_option_parse_duration, "99999999999h", UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t value = 0;
        bool ok = rows[i].parse(rows[i].text, &value);
        assert_int_equal(ok, rows[i].value != UINT64_MAX);
        if (ok)
            assert_int_equal(value, rows[i].value);
    }
}

/* Everything that the table holds is in the help text, and nothing is wider than a terminal. */
static void help_text(void **state) {
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    ct_options_print_help(out, &reading);
    fclose(out);
    assert_non_null(strstr(text, "Usage: contrail read [OPTIONS] TRACE\n\nReads.\n\nAnd reads.\n\nOptions:\n"));
    for (const struct ct_option *o = options; o->name; o++) {
        assert_non_null(strstr(text, o->name));
        assert_non_null(strstr(text, o->help));
    }
    assert_non_null(strstr(text, "  -o, --output DIR            where to write (default: traces)\n"));
    assert_non_null(strstr(text, "order: calls, total or self (default: total)\n"));
    assert_non_null(strstr(text, "only these; may be repeated\n"));
    assert_non_null(strstr(text, "  -h, --help                  show this text\n"));
    assert_non_null(strstr(text, "\nExample:\n  contrail read -q\n"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        assert_true(strlen(line) <= 80);
    free(text);
}

static void closest(void **state) {
    (void)state;
    assert_string_equal(parse(&reading, "--ouput x")->error,
                        "read has no option --ouput; did you mean --output? `contrail read --help` lists the options");
    assert_non_null(strstr(parse(&reading, "--hlep")->error, "did you mean --help?"));
    assert_non_null(strstr(parse(&reading, "--maxdepth 3")->error, "did you mean --max-depth?"));
    assert_null(strstr(parse(&reading, "--something-else-altogether")->error, "did you mean"));
}

static void numbers_for_people(void **state) {
    (void)state;
    char b[CT_TEXT_SIZE];
    assert_string_equal(ct_text_count(b, 0), "0");
    assert_string_equal(ct_text_count(b, 999), "999");
    assert_string_equal(ct_text_count(b, 1000), "1,000");
    assert_string_equal(ct_text_count(b, UINT64_MAX), "18,446,744,073,709,551,615");
    assert_string_equal(ct_text_ordinal(b, 1), "1st");
    assert_string_equal(ct_text_ordinal(b, 2), "2nd");
    assert_string_equal(ct_text_ordinal(b, 3), "3rd");
    assert_string_equal(ct_text_ordinal(b, 10), "10th");
    assert_string_equal(ct_text_ordinal(b, 12), "12th");
    assert_string_equal(ct_text_ordinal(b, 1000), "1,000th");
    assert_string_equal(ct_text_ordinal(b, 1023), "1,023rd");
    assert_string_equal(ct_text_ordinal(b, 1113), "1,113th");
    assert_string_equal(ct_text_short(b, 0), "0");
    assert_string_equal(ct_text_short(b, 999), "999");
    assert_string_equal(ct_text_short(b, 999.6), "1.00 k");
    assert_string_equal(ct_text_short(b, 1234), "1.23 k");
    assert_string_equal(ct_text_short(b, 12345678), "12.3 M");
    assert_string_equal(ct_text_short(b, 999999), "1.00 M");
    assert_string_equal(ct_text_short(b, 123e9), "123 G");
    assert_string_equal(ct_text_time(b, 0), "0 ns");
    assert_string_equal(ct_text_time(b, 999), "999 ns");
    assert_string_equal(ct_text_time(b, 1000), "1.00 us");
    assert_string_equal(ct_text_time(b, 85000000), "85.0 ms");
    assert_string_equal(ct_text_time(b, 1234567890), "1.23 s");
    assert_string_equal(ct_text_time(b, 99949999999), "99.9 s");
    assert_string_equal(ct_text_time(b, 99950000000), "1 m 40 s");
    assert_string_equal(ct_text_time(b, 125000000000), "2 m 05 s");
    assert_string_equal(ct_text_time(b, 3720000000000), "1 h 02 m");
    assert_string_equal(ct_text_size(b, 512), "512 B");
    assert_string_equal(ct_text_size(b, 1536), "1.50 KiB");
    assert_string_equal(ct_text_size(b, 32 << 20), "32.0 MiB");
    assert_string_equal(ct_text_size(b, UINT64_MAX), "16384 PiB");
    assert_string_equal(ct_text_percent(b, 1, 0), "-");
    assert_string_equal(ct_text_percent(b, 0, 5), "0.0 %");
    assert_string_equal(ct_text_percent(b, 5, 5), "100 %");
    assert_string_equal(ct_text_percent(b, 998, 1000), "99.8 %");
    assert_string_equal(ct_text_percent(b, 99999, 100000), ">99.9 %");
    assert_string_equal(ct_text_percent(b, 1, 100000), "<0.1 %");
}

/* Every status has a documented exit code. */
static void exit_codes(void **state) {
    (void)state;
    assert_int_equal(ct_message_exit_code(CT_OK), 0);
    assert_int_equal(ct_message_exit_code(CT_ERR_INVALID_ARGUMENT), 64);
    assert_int_equal(ct_message_exit_code(CT_ERR_PERMISSION_DENIED), 77);
    assert_int_equal(ct_message_exit_code(CT_ERR_SPAWN_FAILED), 69);
    assert_int_equal(ct_message_exit_code(CT_ERR_NOT_FOUND), 69);
    assert_int_equal(ct_message_exit_code(CT_ERR_TIMEOUT), 69);
    assert_int_equal(ct_message_exit_code(CT_ERR_BAD_STATE), 70);
    assert_int_equal(ct_message_exit_code(-1000), 70);
#define ROW(name, value, text) assert_non_null(memchr("\100\105\106\115", ct_message_exit_code(CT_ERR_##name), 4));
    CT_STATUS_LIST(ROW)
#undef ROW
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_values), cmocka_unit_test(forms_of_values),    cmocka_unit_test(lists),
        cmocka_unit_test(operands),       cmocka_unit_test(program_arguments),  cmocka_unit_test(help_wherever),
        cmocka_unit_test(wrong_input),    cmocka_unit_test(quantities),         cmocka_unit_test(help_text),
        cmocka_unit_test(closest),        cmocka_unit_test(numbers_for_people), cmocka_unit_test(exit_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

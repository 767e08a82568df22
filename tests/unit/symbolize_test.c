/* SPDX-License-Identifier: Apache-2.0 */
/* Filling in `symbols` files: what is found is put in, everything else stays, other people's files are not believed.
 * Argument: the source of a sample that is compiled here. */
#include "tests/tools/place_of.h"
#include "symbols/functions.h"
#include "trace/reader.h"
#include "trace/symbolize.h"
#include "trace/writer.h"

#include <contrail/status.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/symbolize_XXXXXX";
static char module[64], trace[64], debug[64], file[80];
static const char *source;

static void run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *format, ...) {
    char command[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    if (system(command))
        fail_msg("%s", command);
}

static int make_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(module, sizeof module, "%s/lib.so", folder);
    snprintf(trace, sizeof trace, "%s/pid_1", folder);
    snprintf(debug, sizeof debug, "%s/debug", folder);
    snprintf(file, sizeof file, "%s/symbols", trace);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    run("rm -rf %s", folder);
    return 0;
}

/* ---- a trace of the stripped sample ---- */

static void build(const char *options) {
    run("cd %s && rm -rf * && mkdir pid_1 debug && gcc -shared -fPIC -O2 -g %s -o lib.so %s && "
        "objcopy --only-keep-debug lib.so debug/lib.so.debug && strip --strip-all lib.so",
        folder, options, source);
}

static void write_symbols(void) {
    struct ct_symbols_writer *writer;
    struct ct_functions *table;
    assert_int_equal(ct_functions_open(&table, module), 0);
    assert_int_equal(ct_symbols_writer_open(&writer, place_of(trace)), 0);
    ct_symbols_writer_module(writer, 1, module, ct_functions_build_id(table), 0x1000000);
    for (size_t i = 0; i < ct_functions_count(table); i++) {
        const struct ct_func *f = ct_functions_at(table, i);
        ct_symbols_writer_function(writer, UINT64_C(1) << 32 | i, f->offset, f->size, ct_functions_name(table, f),
                                   i == 0 ? "a\treason" : "", "");
    }
    ct_functions_close(table);
    assert_int_equal(ct_symbols_writer_close(writer), 0);
}

struct told {
    struct ct_symbolize_totals totals;
    enum ct_lookup_state state;
    char line_file[512], problem[256];
    struct ct_lookup_cache_stats stats;
};

static void on_module(void *arg, const struct ct_symbolize_module *m) {
    struct told *t = arg;
    t->state = m->state;
    snprintf(t->line_file, sizeof t->line_file, "%s", m->line_file);
    snprintf(t->problem, sizeof t->problem, "%s", m->problem);
}

static int symbolize(struct told *told, bool inlines, uint64_t cache) {
    const char *directories[] = {debug, NULL};
    struct ct_lookup *lookup = ct_lookup_create(
        &(struct ct_lookup_options){.directories = directories, .inlines = inlines, .cache_bytes = cache});
    memset(told, 0, sizeof *told);
    int status = ct_symbolize(trace, lookup, &told->totals, on_module, told);
    told->stats = ct_lookup_stats(lookup);
    ct_lookup_destroy(lookup);
    return status;
}

static char *read_file(void) {
    char *text = NULL;
    size_t size;
    assert_int_equal(ct_file_load(file, 1 << 20, &text, &size), 0);
    return text;
}

static const struct ct_trace_function *find(struct ct_symbols *symbols, const char *name) {
    for (uint64_t i = 0; i < 1000; i++) {
        const struct ct_trace_function *f = ct_symbols_find(symbols, UINT64_C(1) << 32 | i);
        if (f && !strcmp(f->name, name))
            return f;
    }
    return NULL;
}

/* ---- tests ---- */

static void test_fills_in(void **state) {
    (void)state;
    struct told told;
    build("-Wl,--build-id");
    write_symbols();
    struct ct_symbols *before = ct_symbols_load(trace);
    assert_null(find(before, "hidden_one"));
    ct_symbols_free(before);
    assert_int_equal(symbolize(&told, true, 1 << 20), 0);
    assert_int_equal(told.state, CT_LOOKUP_FOUND);
    assert_true(told.totals.named >= told.totals.named_before + 2);
    assert_true(told.totals.lines >= 3);
    assert_int_equal(told.totals.inlines, 1);
    assert_int_equal(told.stats.misses, told.totals.functions);
    struct ct_symbols *after = ct_symbols_load(trace);
    assert_null(ct_symbols_problem(after));
    const struct ct_trace_function *one = find(after, "hidden_one"), *global = find(after, "debug_sample_global");
    assert_non_null(one);
    assert_non_null(global);
    assert_non_null(strstr(one->line, "debug_sample.c:14"));
    assert_string_equal(one->inlines, "inlined_outer\tinlined_inner");
    assert_string_equal(global->inlines, "");
    assert_non_null(strstr(global->line, "debug_sample.c:"));
    assert_string_equal(ct_symbols_find(after, UINT64_C(1) << 32)->skip, "a\treason");
    ct_symbols_free(after);
    struct stat status;
    assert_int_equal(stat(file, &status), 0);
    /* Once more: nothing new, nothing lost, also without --inlines. */
    char *first = read_file();
    assert_int_equal(symbolize(&told, false, 1 << 20), 0);
    char *second = read_file();
    assert_string_equal(first, second);
    assert_int_equal(told.totals.named, told.totals.named_before);
    free(first);
    free(second);
}

static void append(const char *text) {
    FILE *out = fopen(file, "a");
    fputs(text, out);
    fclose(out);
}

/* Lines and columns of later versions, and a line that was cut. */
static void test_keeps_the_rest(void **state) {
    (void)state;
    struct told told;
    build("-Wl,--build-id");
    write_symbols();
    append("unload\t1\t77\n"
           "module\tzz\tdamaged\n"
           "700000000\t10\t20\tother\t\t\told.c:1\tinl\tnew column\tand more\n"
           "nonsense\n"
           "1000000ff\tzz\tcut");
    char *before = read_file();
    assert_int_equal(symbolize(&told, true, 1 << 20), 0);
    char *after = read_file();
    const char *tail = strstr(before, "unload");
    assert_string_equal(strstr(after, "unload"), tail);
    free(before);
    free(after);
    /* Columns after those that are filled in stay. */
    run("sed -i 's/^100000001\\t.*/&\\tX\\tY\\tZ/' %s", file);
    assert_int_equal(symbolize(&told, true, 1 << 20), 0);
    after = read_file();
    assert_non_null(strstr(after, "\tY\tZ\n"));
    free(after);
}

/* The file was built again since: the old trace gets nothing of the new one. */
static void test_other_file(void **state) {
    (void)state;
    struct told told;
    build("-Wl,--build-id");
    write_symbols();
    char *before = read_file();
    run("cd %s && gcc -shared -fPIC -O1 -g -DOTHER -Wl,--build-id -o lib.so %s && rm debug/*", folder, source);
    assert_int_equal(symbolize(&told, true, 1 << 20), 0);
    assert_int_equal(told.state, CT_LOOKUP_OTHER_FILE);
    assert_int_equal(told.totals.modules_found, 0);
    assert_int_equal(told.totals.lines, 0);
    char *after = read_file();
    assert_string_equal(strchr(before, '\n'), strchr(after, '\n')); /* all but the names of columns */
    free(before);
    free(after);
}

/* On another machine there is no such path, and a debug file alone will do. */
static void test_debug_file_alone(void **state) {
    (void)state;
    struct told told;
    build("-Wl,--build-id");
    write_symbols();
    run("rm %s", module);
    assert_int_equal(symbolize(&told, true, 1 << 20), 0);
    assert_int_equal(told.state, CT_LOOKUP_FOUND);
    struct ct_symbols *after = ct_symbols_load(trace);
    const struct ct_trace_function *two = find(after, "hidden_two");
    assert_non_null(two);
    assert_non_null(strstr(two->line, "debug_sample.c:"));
    ct_symbols_free(after);
    run("rm %s/*", debug);
    assert_int_equal(symbolize(&told, true, 1 << 20), 0);
    assert_int_equal(told.state, CT_LOOKUP_MISSING);
}

/* Without a build-id the functions show whether it is the same file. */
static void test_without_build_id(void **state) {
    (void)state;
    struct told told;
    build("-Wl,--build-id=none");
    run("cd %s && objcopy --add-gnu-debuglink=debug/lib.so.debug lib.so", folder);
    write_symbols();
    assert_int_equal(symbolize(&told, false, 1 << 20), 0);
    assert_int_equal(told.state, CT_LOOKUP_FOUND);
    assert_true(told.totals.lines >= 3);
    write_symbols();
    run("cd %s && gcc -shared -fPIC -O0 -g -Wl,--build-id=none -o lib.so %s", folder, source);
    assert_int_equal(symbolize(&told, false, 1 << 20), 0);
    assert_int_equal(told.state, CT_LOOKUP_OTHER_FILE);
    assert_int_equal(told.totals.lines, 0);
}

static void test_split_dwarf(void **state) {
    (void)state;
    struct told told;
    build("-gsplit-dwarf -Wl,--build-id");
    write_symbols();
    assert_int_equal(symbolize(&told, true, 1 << 20), 0);
    assert_string_equal(told.problem, "");
    assert_int_equal(told.totals.inlines, 1);
    write_symbols();
    run("rm %s/*.dwo", folder);
    assert_int_equal(symbolize(&told, true, 1 << 20), 0);
    assert_non_null(strstr(told.problem, "gsplit-dwarf"));
    assert_int_equal(told.totals.inlines, 0);
    assert_true(told.totals.lines >= 3);
}

static void test_failures(void **state) {
    (void)state;
    struct told told;
    build("-Wl,--build-id");
    assert_int_equal(symbolize(&told, false, 0), CT_ERR_NOT_FOUND);
    append("something else\n");
    assert_int_equal(symbolize(&told, false, 0), CT_ERR_BAD_FILE);
    write_symbols();
    char *before = read_file();
    struct rlimit limit, little;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    little = (struct rlimit){.rlim_cur = 100, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    int status = symbolize(&told, false, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(status, CT_ERR_FILE_LIMIT);
    char *after = read_file();
    assert_string_equal(before, after);
    run("test $(ls -A %s | wc -l) = 1", trace); /* nothing is left of it */
    free(before);
    free(after);
}

/* Several at the same time: the file is always a whole one. */
static void test_at_once(void **state) {
    (void)state;
    enum { OTHERS = 4, TIMES = 25 };
    struct told told;
    pid_t others[OTHERS];
    build("-Wl,--build-id");
    write_symbols();
    assert_int_equal(chmod(file, 0640), 0);
    assert_int_equal(symbolize(&told, true, 0), 0);
    char *expected = read_file();
    for (int i = 0; i < OTHERS; i++) {
        others[i] = fork();
        int failed = 0;
        for (int k = 0; !others[i] && k < TIMES; k++)
            failed |= symbolize(&told, true, 0);
        if (!others[i])
            _exit(failed != 0);
    }
    int failures = 0, ended = 0, status;
    while (ended < OTHERS) {
        char *now = read_file();
        failures += strcmp(now, expected) != 0;
        free(now);
        if (waitpid(others[ended], &status, WNOHANG) == others[ended]) {
            failures += status != 0;
            ended++;
        }
    }
    assert_int_equal(failures, 0);
    struct stat info;
    assert_int_equal(stat(file, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    run("test $(ls -A %s | wc -l) = 1", trace);
    free(expected);
}

/* The same modules again, as the next process of a session has them. */
static void test_cache(void **state) {
    (void)state;
    build("-Wl,--build-id");
    write_symbols();
    const char *directories[] = {debug, NULL};
    struct ct_symbolize_totals totals = {0};
    struct told told;
    struct ct_lookup *lookup =
        ct_lookup_create(&(struct ct_lookup_options){.directories = directories, .cache_bytes = 1 << 20});
    assert_int_equal(ct_symbolize(trace, lookup, &totals, on_module, &told), 0);
    write_symbols();
    assert_int_equal(ct_symbolize(trace, lookup, &totals, on_module, &told), 0);
    struct ct_lookup_cache_stats stats = ct_lookup_stats(lookup);
    assert_int_equal(stats.hits, stats.misses);
    assert_int_equal(stats.hits + stats.misses, totals.functions);
    ct_lookup_destroy(lookup);
}

/* ---- functions that are added ---- */

static void add_some(struct ct_symbols_end *end, uint64_t first, uint64_t count, const char *name) {
    struct ct_symbols_writer *writer;
    assert_int_equal(ct_symbols_writer_continue(&writer, place_of(trace), end), 0);
    if (first == 1)
        ct_symbols_writer_module(writer, 0, "no symbol", "", 0);
    for (uint64_t i = first; i < first + count; i++)
        ct_symbols_writer_function(writer, i, i, 0, name, "", "");
    assert_int_equal(ct_symbols_writer_close(writer), 0);
}

static void assert_complete(void) {
    struct ct_symbols *symbols = ct_symbols_load(trace);
    assert_non_null(symbols);
    assert_null(ct_symbols_problem(symbols));
    ct_symbols_free(symbols);
}

/* The kernel writes a page at once: cut after any of them, the file is complete. */
static void test_added(void **state) {
    (void)state;
    struct ct_symbols_end end;
    struct ct_symbols_writer *writer;
    run("mkdir -p %s", trace);
    assert_int_equal(ct_symbols_writer_open(&writer, place_of(trace)), 0);
    ct_symbols_writer_note_end(writer, &end);
    assert_int_equal(ct_symbols_writer_close(writer), 0);
    uint64_t begin = end.offset, next = 1;
    for (uint64_t count = 1; count < 60; next += count, count += 7) {
        add_some(&end, next, count, "a function whose name is neither short nor long+0x1000");
        assert_complete();
    }
    assert_true(end.offset > 3 * 4096);
    assert_int_equal(end.functions, next - 1);
    for (uint64_t size = end.offset / 4096 * 4096; size > begin; size -= 4096) {
        assert_int_equal(truncate(file, (off_t)size), 0);
        assert_complete();
    }
    assert_int_equal(ct_symbols_writer_continue(&writer, place_of(trace), &end), CT_ERR_NOT_FOUND);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fills_in),         cmocka_unit_test(test_added),
        cmocka_unit_test(test_keeps_the_rest),   cmocka_unit_test(test_other_file),
        cmocka_unit_test(test_debug_file_alone), cmocka_unit_test(test_without_build_id),
        cmocka_unit_test(test_split_dwarf),      cmocka_unit_test(test_failures),
        cmocka_unit_test(test_at_once),          cmocka_unit_test(test_cache),
    };
    if (argc < 2)
        return 2;
    source = realpath(argv[1], NULL);
    return cmocka_run_group_tests_name("symbolize", tests, make_folder, remove_folder);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines and inlined functions of a sample that is compiled here, in all the ways that debug information is
 * written; addr2line and nm are the oracles. Argument: the sample's source. */
#include "symbols/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/lines_XXXXXX";
static char module[64];
static const char *source;

static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int run(const char *format, ...) {
    char command[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return system(command);
}

static int make_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(module, sizeof module, "%s/lib.so", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return run("rm -rf %s", folder);
}

static void build(const char *compiler, const char *options) {
    if (run("cd %s && rm -f * && %s -shared -fPIC %s -o lib.so %s", folder, compiler, options, source))
        fail_msg("%s %s", compiler, options);
}

/* ---- what others say ---- */

static uint64_t address_of(const char *name) {
    char command[256], line[256];
    uint64_t address = 0;
    snprintf(command, sizeof command, "nm %s", module);
    FILE *pipe = popen(command, "r");
    while (fgets(line, sizeof line, pipe)) {
        char type, symbol[128];
        unsigned long value;
        if (sscanf(line, "%lx %c %127s", &value, &type, symbol) == 3 && !strcmp(symbol, name))
            address = value;
    }
    pclose(pipe);
    if (!address)
        fail_msg("nm does not know %s", name);
    return address;
}

static void ask_addr2line(uint64_t address, char *text, size_t size) {
    char command[256];
    snprintf(command, sizeof command, "addr2line -e %s %lx", module, (unsigned long)address);
    FILE *pipe = popen(command, "r");
    assert_non_null(fgets(text, (int)size, pipe));
    pclose(pipe);
    text[strcspn(text, " \n")] = 0; /* "(discriminator 1)" */
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- tests ---- */

static const char *const functions[] = {"hidden_one", "hidden_two", "debug_sample_global"};

static void check_lines(void) {
    struct ct_lines *lines;
    char ours[512], theirs[512];
    assert_int_equal(ct_lines_open(&lines, module), 0);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        uint64_t address = address_of(functions[i]);
        assert_true(ct_lines_find(lines, address, ours, sizeof ours));
        ask_addr2line(address, theirs, sizeof theirs);
        assert_string_equal(last_part(ours), last_part(theirs));
        assert_true(ours[0] == '/');
        assert_false(ct_lines_find(lines, address, ours, 3)); /* no room */
    }
    assert_false(ct_lines_find(lines, 1, ours, sizeof ours));
    assert_false(ct_lines_find(lines, UINT64_MAX, ours, sizeof ours));
    ct_lines_close(lines);
}

static void test_lines(void **state) {
    (void)state;
    static const char *const ways[] = {"-gdwarf-2 -gstrict-dwarf",
                                       "-gdwarf-3",
                                       "-gdwarf-4",
                                       "-gdwarf-5",
                                       "-gdwarf-5 -gz",
                                       "-gdwarf-4 -gsplit-dwarf",
                                       "-gdwarf-5 -gsplit-dwarf",
                                       "-gdwarf-5 -fdebug-types-section"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        build("cc -O0", ways[i]);
        check_lines();
    }
    if (run("command -v clang > /dev/null 2>&1"))
        return;
    build("clang -O0", "-gdwarf-4");
    check_lines();
    build("clang -O0", "-gdwarf-5");
    check_lines();
}

/* Optimized code has several lines at the same address: a function's own is meant. */
static void test_own_line(void **state) {
    (void)state;
    struct ct_lines *lines;
    char text[512];
    build("cc -O2", "-gdwarf-5");
    assert_int_equal(ct_lines_open(&lines, module), 0);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        char command[1024], line[64];
        snprintf(command, sizeof command, "grep -n ' %s(int x) {' %s", functions[i], source);
        FILE *pipe = popen(command, "r");
        assert_non_null(fgets(line, sizeof line, pipe));
        pclose(pipe);
        assert_true(ct_lines_find(lines, address_of(functions[i]), text, sizeof text));
        assert_int_equal(atoi(strrchr(text, ':') + 1), atoi(line));
    }
    ct_lines_close(lines);
}

struct frames {
    char names[4][64];
    char calls[4][512];
    size_t count;
};

static void on_frame(void *arg, const char *name, const char *call) {
    struct frames *f = arg;
    assert_true(f->count < 4);
    snprintf(f->names[f->count], sizeof f->names[0], "%s", name);
    snprintf(f->calls[f->count++], sizeof f->calls[0], "%s", call);
}

static void check_inlines(size_t missing) {
    struct ct_lines *lines;
    char text[512];
    uint64_t address = address_of("hidden_one");
    assert_int_equal(ct_lines_open(&lines, module), 0);
    assert_int_equal(ct_lines_missing_units(lines), missing);
    if (missing) {
        assert_int_equal(ct_lines_inlines(lines, address, text, sizeof text), 0);
        ct_lines_close(lines);
        return;
    }
    assert_int_equal(ct_lines_inlines(lines, address, text, sizeof text), 2);
    assert_string_equal(text, "inlined_outer\tinlined_inner");
    assert_int_equal(ct_lines_inlines(lines, address, text, 15), 1); /* no room for the second */
    assert_string_equal(text, "inlined_outer");
    assert_int_equal(ct_lines_inlines(lines, address_of("debug_sample_global"), text, sizeof text), 0);
    assert_int_equal(ct_lines_inlines(lines, address + 1, text, sizeof text), 0);
    bool seen = false;
    for (uint64_t at = address; at < address + 32 && !seen; at++) {
        struct frames f = {.count = 0};
        ct_lines_inlined_at(lines, at, on_frame, &f);
        if (f.count != 2)
            continue;
        seen = true;
        assert_string_equal(f.names[0], "inlined_inner");
        assert_string_equal(f.names[1], "inlined_outer");
        assert_string_equal(last_part(f.calls[1]), "debug_sample.c:15");
    }
    assert_true(seen);
    ct_lines_close(lines);
}

static void test_inlines(void **state) {
    (void)state;
    static const char *const ways[] = {"-gdwarf-4", "-gdwarf-5", "-gdwarf-5 -gsplit-dwarf"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        build("cc -O2", ways[i]);
        check_inlines(0);
    }
    assert_int_equal(run("rm %s/*.dwo", folder), 0); /* lines are still known */
    check_inlines(1);
    char text[512];
    struct ct_lines *lines;
    assert_int_equal(ct_lines_open(&lines, module), 0);
    assert_true(ct_lines_find(lines, address_of("hidden_one"), text, sizeof text));
    ct_lines_close(lines);
}

static void test_without(void **state) {
    (void)state;
    struct ct_lines *lines;
    build("cc -O2", "-g0");
    assert_int_equal(ct_lines_open(&lines, module), CT_ERR_NOT_FOUND);
    assert_int_equal(ct_lines_open(&lines, "/nothing/there"), CT_ERR_NOT_FOUND);
    assert_int_equal(ct_lines_open(&lines, "/dev/null"), CT_ERR_NOT_FOUND);
    assert_int_equal(ct_lines_open(&lines, source), CT_ERR_NOT_FOUND);
}

/* No crash, and no more than nothing. */
static void test_damaged(void **state) {
    (void)state;
    static uint8_t good[1 << 18], bad[sizeof good];
    char text[4096];
    uint64_t seed = 99;
    build("cc -O2", "-gdwarf-5");
    FILE *file = fopen(module, "rb");
    size_t size = fread(good, 1, sizeof good, file);
    fclose(file);
    uint64_t address = address_of("hidden_one");
    for (int i = 0; i < 300; i++) {
        memcpy(bad, good, size);
        for (int k = 0; k < 1 + i % 20; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bad[1000 + (size_t)(seed >> 20) % (size - 1000)] = (uint8_t)(seed >> 56);
        }
        file = fopen(module, "wb");
        fwrite(bad, 1, i % 7 ? size : size - (size_t)i * 10, file);
        fclose(file);
        struct ct_lines *lines;
        if (ct_lines_open(&lines, module))
            continue;
        ct_lines_find(lines, address, text, sizeof text);
        ct_lines_inlines(lines, address, text, sizeof text);
        ct_lines_close(lines);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_own_line),
                                       cmocka_unit_test(test_inlines), cmocka_unit_test(test_without),
                                       cmocka_unit_test(test_damaged)};
    if (argc < 2)
        return 2;
    source = realpath(argv[1], NULL);
    return cmocka_run_group_tests_name("lines", tests, make_folder, remove_folder);
}

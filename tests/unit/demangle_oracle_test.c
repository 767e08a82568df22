/* SPDX-License-Identifier: Apache-2.0 */
/* Demangling against c++filt: the C++ and Rust names of whatever large libraries are here. Arguments: more files of
 * names, one per line, or ELF files. */
#include "symbols/demangle.h"
#include "symbols/functions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const usual_files[] = {
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",      "/usr/lib/x86_64-linux-gnu/libclang-cpp.so.14",
    "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",     "/usr/lib/x86_64-linux-gnu/libicuuc.so.72",
    "/usr/lib/x86_64-linux-gnu/libprotobuf.so.32",   "/usr/lib/x86_64-linux-gnu/libboost_regex.so.1.74.0",
    "/usr/lib/x86_64-linux-gnu/libbabeltrace2.so.0", "/usr/lib/x86_64-linux-gnu/libsource-highlight.so.4",
    "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus",      "/usr/bin/gdb",
    "/usr/lib/x86_64-linux-gnu/libnode.so.108",      NULL,
};
static const char *const *files = usual_files;

struct tally {
    size_t names, agree, only_theirs, only_ours, differ;
};

/* What c++filt prints, a line for each of the file's. -i for Rust: without hashes. */
static FILE *ask(const char *path, bool rust) {
    char command[256];
    snprintf(command, sizeof command, "c++filt %s < %s", rust ? "-i" : "", path);
    return popen(command, "r");
}

static void strip_newline(char *line) {
    line[strcspn(line, "\n")] = 0;
}

static void compare_name(struct tally *t, const char *name, const char *theirs) {
    char *ours = ct_demangle(name);
    bool they = strcmp(name, theirs) != 0;
    t->names++;
    if (!they && !ours)
        t->agree++;
    else if (they && ours && strcmp(ours, theirs) == 0)
        t->agree++;
    else if (!ours)
        t->only_theirs++;
    else if (!they)
        t->only_ours++;
    else
        t->differ++;
    free(ours);
}

static void compare_file(struct tally *t, const char *path, bool rust) {
    char *name = NULL, *theirs = NULL;
    size_t name_room = 0, theirs_room = 0;
    FILE *names = fopen(path, "r"), *answers = ask(path, rust);
    assert_non_null(names);
    assert_non_null(answers);
    while (getline(&name, &name_room, names) > 0) {
        assert_true(getline(&theirs, &theirs_room, answers) > 0);
        strip_newline(name);
        strip_newline(theirs);
        compare_name(t, name, theirs);
    }
    fclose(names);
    assert_int_equal(pclose(answers), 0);
    free(name);
    free(theirs);
}

static bool is_rust(const char *name) {
    size_t length = strlen(name);
    return !strncmp(name, "_R", 2) ||
           (length > 20 && !strncmp(name + length - 20, "17h", 3) && name[length - 1] == 'E');
}

static void add_names(FILE *cxx, FILE *rust, const char *path) {
    struct ct_functions *table;
    if (ct_functions_open(&table, path))
        return;
    for (size_t i = 0; i < ct_functions_count(table); i++) {
        const char *name = ct_functions_name(table, ct_functions_at(table, i));
        if (!strncmp(name, "_Z", 2) || !strncmp(name, "_R", 2))
            fprintf(is_rust(name) ? rust : cxx, "%s\n", name);
    }
    ct_functions_close(table);
}

static void check(const struct tally *t, const char *language) {
    print_message("%s: %zu names, %zu as c++filt, %zu otherwise, %zu only c++filt, %zu only we\n", language, t->names,
                  t->agree, t->differ, t->only_theirs, t->only_ours);
    assert_true((t->differ + t->only_theirs) * 1000 <= t->names);
}

static void test_libraries(void **state) {
    (void)state;
    char cxx_path[] = "/tmp/demangle_cxx_XXXXXX", rust_path[] = "/tmp/demangle_rust_XXXXXX";
    FILE *cxx = fdopen(mkstemp(cxx_path), "w"), *rust = fdopen(mkstemp(rust_path), "w");
    struct tally cxx_tally = {0}, rust_tally = {0};
    for (size_t i = 0; files[i]; i++)
        add_names(cxx, rust, files[i]);
    fclose(cxx);
    fclose(rust);
    compare_file(&cxx_tally, cxx_path, false);
    compare_file(&rust_tally, rust_path, true);
    unlink(cxx_path);
    unlink(rust_path);
    check(&cxx_tally, "C++");
    check(&rust_tally, "Rust");
    assert_true(files != usual_files || cxx_tally.names > 1000);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_libraries)};
    if (argc > 1)
        files = (const char *const *)argv + 1;
    return cmocka_run_group_tests_name("demangle_oracle", tests, NULL, NULL);
}

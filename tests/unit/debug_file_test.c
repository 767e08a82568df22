/* SPDX-License-Identifier: Apache-2.0 */
/* Stripped modules get their names from debug files: by build-id, by .gnu_debuglink, from .gnu_debugdata; from the
 * right ones only, and never more than that when they are damaged. Arguments: a library with a build-id, and one
 * without. */
#include "symbols/debug_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <contrail/status.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/debug_file_XXXXXX";
static const char *with_id, *without_id;
static char library[64], symbols[64]; /* lib.so and a directory, in the folder */

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

static char *path_of(const char *name) {
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(library, sizeof library, "%s/lib.so", folder);
    snprintf(symbols, sizeof symbols, "%s/symbols", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    run("rm -rf %s", folder);
    return 0;
}

/* A folder of a test's own, with the library stripped, and its debug file. */
static void prepare(const char *from) {
    run("rm -rf %s/* %s/.[a-z]* && cp %s %s/lib.so && objcopy --only-keep-debug %s/lib.so %s/lib.debug && "
        "strip --strip-all %s/lib.so",
        folder, folder, from, folder, folder, folder, folder);
}

static void link_debug(void) {
    run("cd %s && objcopy --add-gnu-debuglink=lib.debug lib.so", folder);
}

static void read_image(const char *path, void **bytes, size_t *size) {
    FILE *file = fopen(path, "rb");
    struct stat status;
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &status), 0);
    *size = (size_t)status.st_size;
    *bytes = malloc(*size);
    assert_int_equal(fread(*bytes, 1, *size, file), *size);
    fclose(file);
}

static bool names_hidden(const struct ct_functions *table) {
    const struct ct_func *one = ct_functions_by_name(table, "hidden_one");
    const struct ct_func *two = ct_functions_by_name(table, "hidden_two");
    if (!one || !two)
        return false;
    assert_true(one->flags & CT_FUNC_LENT_NAME);
    assert_true(one->flags & CT_FUNC_FDE);
    assert_true(one->size > 0 && two->size > 0);
    const struct ct_func *global = ct_functions_by_name(table, "debug_sample_global");
    assert_non_null(global);
    assert_false(global->flags & CT_FUNC_LENT_NAME);
    return true;
}

static bool finds(const struct ct_debug_search *search) {
    struct ct_functions *table;
    void *bytes;
    size_t size;
    read_image(library, &bytes, &size);
    assert_int_equal(ct_functions_open_image_full(&table, bytes, size, search), 0);
    free(bytes);
    bool found = names_hidden(table);
    assert_non_null(ct_functions_by_name(table, "debug_sample_global"));
    ct_functions_close(table);
    return found;
}

static uint64_t identity(const struct ct_debug_search *search) {
    void *bytes;
    size_t size;
    read_image(library, &bytes, &size);
    uint64_t value = ct_debug_identity(bytes, size, search);
    free(bytes);
    return value;
}

/* Path and folders of a search that sees nothing of this machine's own. */
static struct ct_debug_search search_in(const char *const *directories) {
    static const char *const none[] = {NULL};
    return (struct ct_debug_search){.path = library, .directories = directories ? directories : none};
}

static void test_nothing_there(void **state) {
    (void)state;
    prepare(with_id);
    struct ct_debug_search search = search_in(NULL);
    assert_false(finds(&search));
    assert_int_equal(identity(&search), 0);
}

static void test_debuglink_beside(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        prepare(i ? with_id : without_id);
        link_debug();
        struct ct_debug_search search = search_in(NULL);
        assert_true(finds(&search));
        assert_true(identity(&search) != 0);
        run("cd %s && mkdir .debug && mv lib.debug .debug/", folder);
        assert_true(finds(&search));
        run("rm %s/.debug/lib.debug", folder);
        assert_false(finds(&search));
        assert_int_equal(identity(&search), 0);
    }
}

static void test_debuglink_in_directories(void **state) {
    (void)state;
    prepare(without_id);
    link_debug();
    const char *directories[] = {symbols, NULL};
    struct ct_debug_search search = search_in(directories);
    run("mkdir -p %s/symbols%s && mv %s/lib.debug %s/symbols%s/", folder, folder, folder, folder, folder);
    assert_true(finds(&search));
    run("mv %s/symbols%s/lib.debug %s/symbols/", folder, folder, folder);
    assert_true(finds(&search));
}

/* Another file of the same name: its checksum differs. */
static void test_wrong_checksum(void **state) {
    (void)state;
    prepare(without_id);
    link_debug();
    struct ct_debug_search search = search_in(NULL);
    assert_true(finds(&search));
    uint64_t before = identity(&search);
    run("printf x >> %s/lib.debug", folder);
    assert_false(finds(&search));
    assert_true(identity(&search) != before);
}

static void test_checksum(void **state) {
    (void)state;
    assert_int_equal(ct_debug_crc("123456789", 9), 0xcbf43926);
    assert_int_equal(ct_debug_crc("", 0), 0);
    char text[100];
    memset(text, 'a', sizeof text);
    assert_int_equal(ct_debug_crc(text, 100), 0xaf707a64);
}

static void put_by_build_id(const char *root, const char *file) {
    char id[CT_BUILD_ID_TEXT];
    struct ct_debug_file lib;
    assert_true(ct_debug_file_map(&lib, library));
    ct_elf_build_id(&lib.elf, id);
    ct_debug_file_close(&lib);
    run("mkdir -p %s/.build-id/%.2s && cp %s %s/.build-id/%.2s/%s.debug", root, id, file, root, id, id + 2);
}

static void test_build_id(void **state) {
    (void)state;
    prepare(with_id);
    const char *directories[] = {symbols, NULL};
    struct ct_debug_search search = search_in(directories);
    put_by_build_id(directories[0], path_of("lib.debug"));
    assert_true(finds(&search));
    assert_true(identity(&search) != 0);
    /* Someone else's file at that place is not believed. */
    put_by_build_id(directories[0], without_id);
    assert_false(finds(&search));
}

/* Below the root directory of the process, as in a container. */
static void test_root(void **state) {
    (void)state;
    prepare(with_id);
    char root[600], below[700];
    snprintf(root, sizeof root, "%s/root", folder);
    snprintf(below, sizeof below, "%s/usr/lib/debug", root);
    put_by_build_id(below, path_of("lib.debug"));
    struct ct_debug_search search = {.path = "/lib/lib.so", .root = root};
    assert_true(finds(&search));
    search.root = NULL;
    assert_false(finds(&search));
    prepare(without_id);
    link_debug();
    run("mkdir -p %s/root/lib && mv %s/lib.debug %s/root/lib/", folder, folder, folder);
    search.root = root;
    assert_true(finds(&search));
}

static void test_own_symbols_suffice(void **state) {
    (void)state;
    prepare(with_id);
    run("cp %s %s/lib.so", with_id, folder);
    const char *directories[] = {symbols, NULL};
    struct ct_debug_search search = search_in(directories);
    put_by_build_id(directories[0], path_of("lib.debug"));
    assert_int_equal(identity(&search), 0);
    struct ct_functions *table;
    assert_int_equal(ct_functions_open_full(&table, library), 0);
    assert_false(ct_functions_by_name(table, "hidden_one")->flags & CT_FUNC_LENT_NAME);
    ct_functions_close(table);
}

/* ---- .gnu_debugdata ---- */

static void add_debug_data(const char *damage) {
    prepare(with_id);
    run("cd %s && strip --strip-debug -o mini %s && xz -k mini && %s && objcopy --add-section .gnu_debugdata=mini.xz "
        "lib.so && rm mini lib.debug",
        folder, with_id, damage);
}

static void test_debug_data(void **state) {
    (void)state;
    add_debug_data("true");
    struct ct_debug_search search = search_in(NULL);
    assert_true(finds(&search));
}

static void test_damaged_debug_data(void **state) {
    (void)state;
    struct ct_debug_search search = search_in(NULL);
    add_debug_data("truncate -s 200 mini.xz");
    assert_false(finds(&search));
    add_debug_data("printf '\\377\\377\\377\\377' | dd of=mini.xz bs=1 seek=300 conv=notrunc status=none");
    assert_false(finds(&search));
    add_debug_data("rm mini.xz && printf 'not an ELF file' > x && xz x && mv x.xz mini.xz");
    assert_false(finds(&search));
    add_debug_data("printf '' > mini.xz && printf 'abc' > mini.xz");
    assert_false(finds(&search));
}

static void test_unpack_limit(void **state) {
    (void)state;
    void *bytes, *out;
    size_t size, out_size;
    run("cd %s && head -c 3000000 /dev/zero | xz > zeros.xz", folder);
    read_image(path_of("zeros.xz"), &bytes, &size);
    assert_false(ct_xz_unpack(bytes, size, 2999999, &out, &out_size));
    assert_true(ct_xz_unpack(bytes, size, 3000000, &out, &out_size) ||
                ct_xz_unpack(bytes, size, 3000001, &out, &out_size));
    assert_int_equal(out_size, 3000000);
    free(out);
    free(bytes);
}

/* ---- damage ---- */

/* What the module itself has is there as it is without the debug file; in the midst of its functions is nothing to be
 * hooked. */
static void expect_harmless(const struct ct_debug_search *search) {
    struct ct_functions *own, *full;
    void *bytes;
    size_t size, at = 0;
    read_image(library, &bytes, &size);
    assert_int_equal(ct_functions_open_image(&own, bytes, size), 0);
    assert_int_equal(ct_functions_open_image_full(&full, bytes, size, search), 0);
    free(bytes);
    uint64_t reach = 0;
    for (size_t i = 0; i < ct_functions_count(full); i++) {
        const struct ct_func *f = ct_functions_at(full, i);
        const struct ct_func *known = at < ct_functions_count(own) ? ct_functions_at(own, at) : NULL;
        if (known && known->offset == f->offset) {
            if (known->flags & CT_FUNC_FDE) {
                assert_int_equal(f->size, known->size);
                reach = known->offset + known->size;
            }
            assert_int_equal(f->flags & CT_FUNC_FDE, known->flags & CT_FUNC_FDE);
            at++;
            continue;
        }
        assert_false(f->flags & CT_FUNC_FDE);
        assert_true(f->offset >= reach || (f->flags & CT_FUNC_DOUBTFUL));
        assert_true(f->size > 0 && (f->offset >= reach || f->offset + f->size <= reach));
    }
    assert_int_equal(at, ct_functions_count(own));
    assert_non_null(ct_functions_by_name(full, "debug_sample_global"));
    ct_functions_close(own);
    ct_functions_close(full);
}

/* Moves all functions that the debug file names, and makes them long. */
static void move_symbols(uint8_t *file, int64_t by) {
    const Elf64_Ehdr *header = (const void *)file;
    const Elf64_Shdr *sections = (const void *)(file + header->e_shoff);
    size_t moved = 0;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        Elf64_Sym *entries = (void *)(file + sections[i].sh_offset);
        for (size_t k = 0; sections[i].sh_type == SHT_SYMTAB && k < sections[i].sh_size / sizeof *entries; k++)
            if (ELF64_ST_TYPE(entries[k].st_info) == STT_FUNC && entries[k].st_shndx != SHN_UNDEF) {
                entries[k].st_value += (uint64_t)by;
                entries[k].st_size = 5000;
                moved++;
            }
    }
    assert_true(moved > 2);
}

/* A debug file that fits the module by its build-id, and not otherwise. */
static void test_moved_symbols(void **state) {
    (void)state;
    prepare(with_id);
    void *bytes;
    size_t size;
    const char *directories[] = {symbols, NULL};
    struct ct_debug_search search = search_in(directories);
    for (int by = 0; by < 12; by++) {
        read_image(path_of("lib.debug"), &bytes, &size);
        move_symbols(bytes, by);
        FILE *file = fopen(path_of("moved.debug"), "wb");
        assert_int_equal(fwrite(bytes, 1, size, file), size);
        fclose(file);
        put_by_build_id(directories[0], path_of("moved.debug"));
        assert_true(by || finds(&search));
        expect_harmless(&search);
        free(bytes);
    }
}

/* Whatever the debug file holds. */
static void test_damaged_files(void **state) {
    (void)state;
    prepare(with_id);
    void *good;
    size_t size;
    const char *directories[] = {symbols, NULL};
    struct ct_debug_search search = search_in(directories);
    read_image(path_of("lib.debug"), &good, &size);
    put_by_build_id(directories[0], path_of("lib.debug"));
    char command[1024], path[600] = "";
    snprintf(command, sizeof command, "find %s -name '*.debug'", directories[0]);
    FILE *pipe = popen(command, "r");
    assert_non_null(fgets(path, sizeof path, pipe));
    pclose(pipe);
    path[strcspn(path, "\n")] = 0;
    uint64_t seed = 12345;
    for (int i = 0; i < 400; i++) {
        uint8_t *bad = malloc(size);
        memcpy(bad, good, size);
        for (int k = 0; k < 1 + i % 30; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            size_t at = (size_t)(seed >> 20) % size;
            if (i % 3 == 0) /* section headers, mostly */
                at = size - 1 - (size_t)(seed >> 20) % (size < 3000 ? size : 3000);
            bad[at] = (uint8_t)(seed >> 56);
        }
        FILE *file = fopen(path, "wb");
        fwrite(bad, 1, i % 5 ? size : size / 2 + (size_t)i, file);
        fclose(file);
        expect_harmless(&search);
        free(bad);
    }
    free(good);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_there),
        cmocka_unit_test(test_debuglink_beside),
        cmocka_unit_test(test_debuglink_in_directories),
        cmocka_unit_test(test_wrong_checksum),
        cmocka_unit_test(test_checksum),
        cmocka_unit_test(test_build_id),
        cmocka_unit_test(test_root),
        cmocka_unit_test(test_own_symbols_suffice),
        cmocka_unit_test(test_debug_data),
        cmocka_unit_test(test_damaged_debug_data),
        cmocka_unit_test(test_unpack_limit),
        cmocka_unit_test(test_moved_symbols),
        cmocka_unit_test(test_damaged_files),
    };
    if (argc < 3)
        return 2;
    with_id = realpath(argv[1], NULL);
    without_id = realpath(argv[2], NULL);
    return cmocka_run_group_tests_name("debug_file", tests, make_folder, remove_folder);
}

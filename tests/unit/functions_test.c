/* SPDX-License-Identifier: Apache-2.0 */
/* Function tables on a sample library that has one function of each kind (programs/functions_sample_x64.S), whole and
 * with its headers taken away; bad files; the modules of this process. */
#include "symbols/functions.h"
#include <contrail/status.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *sample_path;

struct image {
    uint8_t *data;
    size_t size;
};

static struct image load(const char *path) {
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(fstat(file, &status), 0);
    struct image image = {malloc((size_t)status.st_size), (size_t)status.st_size};
    assert_int_equal(read(file, image.data, image.size), image.size);
    close(file);
    return image;
}

static struct ct_functions *open_sample(void) {
    struct ct_functions *table = NULL;
    assert_int_equal(ct_functions_open(&table, sample_path), 0);
    assert_non_null(table);
    return table;
}

static struct ct_functions *open_image(const struct image *image) {
    struct ct_functions *table = NULL;
    assert_int_equal(ct_functions_open_image(&table, image->data, image->size), 0);
    return table;
}

static const struct ct_func *get(const struct ct_functions *table, const char *name) {
    const struct ct_func *func = ct_functions_by_name(table, name);
    if (!func)
        fail_msg("%s is not in the table", name);
    return func;
}

static void assert_flags(const struct ct_functions *table, const char *name, uint32_t flags) {
    uint32_t actual = get(table, name)->flags;
    if (actual != flags)
        fail_msg("%s has flags %#x instead of %#x", name, actual, flags);
}

/* ---- kinds ---- */

#define GLOBAL (CT_FUNC_NAMED | CT_FUNC_GLOBAL)
#define LOCAL  CT_FUNC_NAMED

static void test_flags(void **state) {
    (void)state;
    struct ct_functions *table = open_sample();
    assert_flags(table, "sample_plain", GLOBAL | CT_FUNC_FDE);
    assert_flags(table, "sample_local", LOCAL | CT_FUNC_FDE);
    assert_flags(table, "sample_after_nameless", GLOBAL);
    assert_flags(table, "sample_label", GLOBAL | CT_FUNC_FDE);
    assert_flags(table, "sample_sizeless", GLOBAL);
    assert_flags(table, "sample_odd", GLOBAL | CT_FUNC_FDE | CT_FUNC_ODD_ENTRY);
    assert_flags(table, "sample_expression", GLOBAL | CT_FUNC_FDE | CT_FUNC_ODD_ENTRY);
    assert_flags(table, "sample_ra_elsewhere", GLOBAL | CT_FUNC_FDE | CT_FUNC_ODD_ENTRY);
    assert_flags(table, "sample_odd_undone", GLOBAL | CT_FUNC_FDE);
    assert_flags(table, "sample_spelled", GLOBAL | CT_FUNC_FDE);
    assert_flags(table, "sample_ra_kept", GLOBAL | CT_FUNC_FDE | CT_FUNC_ODD_ENTRY);
    assert_flags(table, "sample_ra_below", GLOBAL | CT_FUNC_FDE | CT_FUNC_ODD_ENTRY);
    assert_flags(table, "sample_unknown", GLOBAL | CT_FUNC_FDE);
    assert_flags(table, "sample_no_caller", GLOBAL | CT_FUNC_FDE | CT_FUNC_NO_RETURN_ADDRESS);
    assert_flags(table, "sample_signal", GLOBAL | CT_FUNC_FDE | CT_FUNC_ODD_ENTRY);
    assert_flags(table, "sample_outer", GLOBAL | CT_FUNC_FDE);
    assert_flags(table, "sample_inner_plain", GLOBAL);
    assert_flags(table, "sample_inner_odd", GLOBAL | CT_FUNC_ODD_ENTRY);
    assert_flags(table, "sample_part.cold", LOCAL | CT_FUNC_FDE | CT_FUNC_COLD);
    assert_flags(table, "sample_part.cold.12", LOCAL | CT_FUNC_FDE | CT_FUNC_COLD);
    assert_flags(table, "sample_colder.7", LOCAL | CT_FUNC_FDE);
    assert_flags(table, "sample_ifunc", GLOBAL | CT_FUNC_FDE | CT_FUNC_IFUNC);
    assert_null(ct_functions_by_name(table, "sample_label_bare"));
    assert_null(ct_functions_by_name(table, "sample_data_label"));
    assert_null(ct_functions_by_name(table, "sample_data_function"));
    ct_functions_close(table);
}

/* Linkers refuse what they do not know, so it is put in here. */
static void test_unknown_instruction(void **state) {
    (void)state;
    static const uint8_t known[] = {0x2e, 0xd5, 0xaa, 0xd5, 0x2a};
    struct image image = load(sample_path);
    uint8_t *place = memmem(image.data, image.size, known, sizeof known);
    assert_non_null(place);
    *place = 0x3f;
    struct ct_functions *table = open_image(&image);
    assert_flags(table, "sample_unknown", GLOBAL | CT_FUNC_FDE | CT_FUNC_ODD_ENTRY);
    ct_functions_close(table);
    free(image.data);
}

static void test_personalities(void **state) {
    (void)state;
    struct ct_functions *table = open_sample();
    assert_flags(table, "sample_handler_direct", LOCAL | CT_FUNC_PERSONALITY);
    assert_flags(table, "sample_handler_slot", GLOBAL | CT_FUNC_PERSONALITY);
    assert_flags(table, "rust_eh_personality", LOCAL | CT_FUNC_PERSONALITY);
    assert_flags(table, "sample_handled", LOCAL | CT_FUNC_FDE);
    assert_int_equal(ct_functions_personality_count(table), 2);
    assert_null(ct_functions_personality_at(table, 2));
    size_t indirect = 0;
    for (size_t i = 0; i < 2; i++) {
        const struct ct_personality *p = ct_functions_personality_at(table, i);
        indirect += p->indirect;
        if (!p->indirect)
            assert_int_equal(p->offset, get(table, "sample_handler_direct")->offset);
    }
    assert_int_equal(indirect, 1);
    ct_functions_close(table);
}

/* At run time the slot leads to the routine. */
static void test_personality_slot(void **state) {
    (void)state;
    struct ct_functions *table = open_sample();
    void *handle = dlopen(sample_path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    void *routine = dlsym(handle, "sample_handler_slot");
    uint64_t bias = (uint64_t)routine - get(table, "sample_handler_slot")->offset;
    for (size_t i = 0; i < ct_functions_personality_count(table); i++) {
        const struct ct_personality *p = ct_functions_personality_at(table, i);
        if (p->indirect)
            assert_ptr_equal(*(void **)(bias + p->offset), routine);
    }
    dlclose(handle);
    ct_functions_close(table);
}

static void test_sizes(void **state) {
    (void)state;
    struct ct_functions *table = open_sample();
    assert_int_equal(get(table, "sample_plain")->size, 8);
    assert_int_equal(get(table, "sample_local")->size, 2);
    assert_int_equal(get(table, "sample_label")->size, 3); /* from the FDE */
    assert_int_equal(get(table, "sample_inner_plain")->size, 2);
    assert_int_equal(get(table, "sample_outer")->size, 9);
    const struct ct_func *sizeless = get(table, "sample_sizeless");
    assert_int_equal(sizeless->offset + sizeless->size, get(table, "sample_odd")->offset);
    ct_functions_close(table);
}

static void test_names(void **state) {
    (void)state;
    struct ct_functions *table = open_sample();
    const struct ct_func *plain = get(table, "sample_plain");
    assert_string_equal(ct_functions_name(table, plain), "sample_plain");
    assert_ptr_equal(get(table, "sample_plain_too"), plain);
    assert_ptr_equal(get(table, "_plain"), plain);
    assert_ptr_equal(get(table, "a"), plain);

    const struct ct_func *versioned = get(table, "sample_versioned");
    assert_string_equal(ct_functions_name(table, versioned), "sample_versioned");
    assert_ptr_equal(get(table, "sample_version_old"), versioned);
    assert_string_equal(ct_functions_name(table, get(table, "sample_version_new")), "sample_versioned");
    assert_ptr_not_equal(get(table, "sample_version_new"), versioned);

    assert_null(ct_functions_by_name(table, ""));
    assert_null(ct_functions_by_name(table, "sample"));
    assert_null(ct_functions_by_name(table, "sample_plain_to"));
    ct_functions_close(table);
}

static void test_nameless(void **state) {
    (void)state;
    struct ct_functions *table = open_sample();
    const struct ct_func *local = get(table, "sample_local"), *nameless = local + 1;
    assert_true(nameless->offset > local->offset);
    assert_ptr_equal(nameless + 1, get(table, "sample_after_nameless"));
    assert_int_equal(nameless->flags, CT_FUNC_FDE);
    assert_int_equal(nameless->size, 3);
    assert_string_equal(ct_functions_name(table, nameless), "");
    ct_functions_close(table);
}

/* ---- order and searching ---- */

static void test_find(void **state) {
    (void)state;
    struct ct_functions *table = open_sample();
    const struct ct_func *outer = get(table, "sample_outer"), *inner = get(table, "sample_inner_plain");
    assert_ptr_equal(ct_functions_find(table, outer->offset), outer);
    assert_ptr_equal(ct_functions_find(table, inner->offset), inner);
    assert_ptr_equal(ct_functions_find(table, inner->offset + 1), inner);
    assert_ptr_equal(ct_functions_find(table, outer->offset + outer->size - 1), outer); /* beyond both inner ones */
    assert_ptr_not_equal(ct_functions_find(table, outer->offset + outer->size), outer);
    assert_null(ct_functions_find(table, get(table, "sample_after_nameless")->offset + 5));
    assert_null(ct_functions_find(table, 0));
    assert_null(ct_functions_find(table, UINT64_MAX));
    assert_null(ct_functions_at(table, ct_functions_count(table)));
    for (size_t i = 0; i < ct_functions_count(table); i++)
        assert_ptr_equal(ct_functions_find(table, ct_functions_at(table, i)->offset), ct_functions_at(table, i));
    ct_functions_close(table);
}

static void test_text(void **state) {
    (void)state;
    struct ct_functions *table = open_sample();
    size_t plt = 0, covered = 0;
    for (size_t i = 0; i < ct_functions_text_count(table); i++) {
        const struct ct_text_range *range = ct_functions_text_at(table, i);
        assert_true(range->start < range->end);
        if (i)
            assert_true(ct_functions_text_at(table, i - 1)->end <= range->start);
        for (size_t k = 0; k < ct_functions_count(table); k++) {
            const struct ct_func *func = ct_functions_at(table, k);
            if (func->offset < range->start || func->offset >= range->end)
                continue;
            covered++;
            assert_true(func->offset + func->size <= range->end);
            assert_false(range->plt); /* the FDE of .plt is no function, and nothing in it has a symbol */
        }
        plt += range->plt;
    }
    assert_true(plt >= 1);
    assert_int_equal(covered, ct_functions_count(table));
    assert_null(ct_functions_text_at(table, ct_functions_text_count(table)));
    ct_functions_close(table);
}

static void test_build_id(void **state) {
    (void)state;
    struct ct_functions *table = open_sample();
    const char *id = ct_functions_build_id(table);
    assert_int_equal(strlen(id), 40);
    assert_int_equal(strspn(id, "0123456789abcdef"), 40);
    ct_functions_close(table);
}

/* ---- with less in the file ---- */

/* Turns the dynamic entry with this tag into one that nobody knows. */
static void hide_dynamic(const struct image *image, int64_t tag) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image->data;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(image->data + header->e_phoff);
    for (size_t i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type != PT_DYNAMIC)
            continue;
        for (Elf64_Dyn *entry = (Elf64_Dyn *)(image->data + segments[i].p_offset); entry->d_tag != DT_NULL; entry++)
            if (entry->d_tag == tag)
                entry->d_tag = 0x6ffffe00;
    }
}

/* The same functions, as far as unwind information and exported symbols show them. */
static void check_without_sections(const struct image *image, const struct ct_functions *whole) {
    struct ct_functions *table = open_image(image);
    for (size_t i = 0; i < ct_functions_count(whole); i++) {
        const struct ct_func *func = ct_functions_at(whole, i), *other = ct_functions_find(table, func->offset);
        if (!(func->flags & (CT_FUNC_FDE | CT_FUNC_GLOBAL)))
            continue;
        assert_non_null(other);
        assert_int_equal(other->offset, func->offset);
        if (!(func->flags & CT_FUNC_GLOBAL))
            continue;
        assert_string_equal(ct_functions_name(table, other), ct_functions_name(whole, func));
        assert_int_equal(other->flags, func->flags);
    }
    assert_null(ct_functions_by_name(table, "sample_local"));
    assert_flags(table, "sample_handler_slot", GLOBAL | CT_FUNC_PERSONALITY);
    assert_string_equal(ct_functions_build_id(table), ct_functions_build_id(whole));
    assert_true(ct_functions_text_count(table) >= 1);
    ct_functions_close(table);
}

static void test_without_sections(void **state) {
    (void)state;
    struct image image = load(sample_path);
    struct ct_functions *whole = open_image(&image);
    Elf64_Ehdr *header = (Elf64_Ehdr *)image.data;
    header->e_shoff = 0;
    header->e_shnum = 0;
    check_without_sections(&image, whole);
    hide_dynamic(&image, DT_HASH); /* so that symbols are counted by DT_GNU_HASH */
    check_without_sections(&image, whole);
    hide_dynamic(&image, DT_GNU_HASH);
    struct ct_functions *table = open_image(&image);
    assert_true(ct_functions_count(table) > 0); /* the number of symbols is unknown: unwind information remains */
    assert_null(ct_functions_by_name(table, "sample_plain"));
    ct_functions_close(table);
    ct_functions_close(whole);
    free(image.data);
}

static Elf64_Shdr *sections_of(const struct image *image, size_t *count) {
    Elf64_Ehdr *header = (Elf64_Ehdr *)image->data;
    *count = header->e_shnum;
    return (Elf64_Shdr *)(image->data + header->e_shoff);
}

static void test_stripped(void **state) {
    (void)state;
    struct image image = load(sample_path);
    size_t count;
    Elf64_Shdr *sections = sections_of(&image, &count);
    for (size_t i = 0; i < count; i++)
        if (sections[i].sh_type == SHT_SYMTAB)
            sections[i].sh_type = SHT_NULL;
    struct ct_functions *table = open_image(&image);
    assert_null(ct_functions_by_name(table, "sample_local"));
    assert_flags(table, "sample_plain", GLOBAL | CT_FUNC_FDE);
    assert_flags(table, "sample_handler_slot", GLOBAL | CT_FUNC_PERSONALITY);
    ct_functions_close(table);
    free(image.data);
}

/* ---- bad files ---- */

static int status_of_path(const char *path) {
    struct ct_functions *table = NULL;
    int status = ct_functions_open(&table, path);
    assert_true(status || table);
    ct_functions_close(table);
    return status;
}

static int status_of_image(const void *data, size_t size) {
    struct ct_functions *table = NULL;
    int status = ct_functions_open_image(&table, data, size);
    ct_functions_close(table);
    return status;
}

static void test_bad_paths(void **state) {
    (void)state;
    assert_int_equal(status_of_path("/nonexistent/file"), CT_ERR_NOT_FOUND);
    assert_int_equal(status_of_path("/dev/null/file"), CT_ERR_NOT_FOUND);
    assert_int_equal(status_of_path("/"), CT_ERR_BAD_FILE);
    assert_int_equal(status_of_path("/dev/null"), CT_ERR_BAD_FILE);
    assert_int_equal(status_of_path("/etc/passwd"), CT_ERR_BAD_FILE);
}

static void test_bad_headers(void **state) {
    (void)state;
    struct image image = load(sample_path);
    Elf64_Ehdr *header = (Elf64_Ehdr *)image.data, saved = *header;
    assert_int_equal(status_of_image(image.data, 0), CT_ERR_BAD_FILE);
    assert_int_equal(status_of_image(image.data, sizeof *header - 1), CT_ERR_BAD_FILE);
    assert_int_equal(status_of_image(image.data, sizeof *header), 0); /* nothing after it: an empty table */
    header->e_type = ET_REL;
    assert_int_equal(status_of_image(image.data, image.size), CT_ERR_BAD_FILE);
    *header = saved;
    header->e_machine = EM_386;
    assert_int_equal(status_of_image(image.data, image.size), CT_ERR_UNSUPPORTED);
    *header = saved;
    header->e_ident[EI_CLASS] = ELFCLASS32;
    assert_int_equal(status_of_image(image.data, image.size), CT_ERR_UNSUPPORTED);
    free(image.data);
}

/* ---- this process ---- */

struct seen {
    size_t count;
    char first[PATH_MAX], libc[PATH_MAX];
    struct ct_module_info libc_info, program_info;
};

static int see(void *arg, const struct ct_module_info *module) {
    struct seen *seen = arg;
    if (seen->count++ == 0) {
        snprintf(seen->first, sizeof seen->first, "%s", module->path);
        seen->program_info = *module;
    }
    assert_int_equal(module->path[0], '/');
    assert_null(strstr(module->path, "vdso"));
    uint64_t puts_at = (uint64_t)dlsym(RTLD_DEFAULT, "strtoul");
    if (puts_at >= module->start && puts_at < module->end) {
        snprintf(seen->libc, sizeof seen->libc, "%s", module->path);
        seen->libc_info = *module;
    }
    return 0;
}

static void test_modules(void **state) {
    (void)state;
    struct seen *seen = calloc(1, sizeof *seen);
    char self[PATH_MAX] = "";
    assert_int_equal(ct_modules_each(see, seen), 0);
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    assert_string_equal(seen->first, self);
    assert_true(seen->count >= 3);
    uint64_t here = (uint64_t)test_modules;
    assert_true(here >= seen->program_info.start && here < seen->program_info.end);

    struct ct_functions *table;
    assert_int_equal(ct_functions_open(&table, self), 0);
    const struct ct_func *func = ct_functions_find(table, here - seen->program_info.bias);
    assert_string_equal(ct_functions_name(table, func), "test_modules");
    ct_functions_close(table);

    uint64_t strtoul_at = (uint64_t)dlsym(RTLD_DEFAULT, "strtoul");
    assert_int_equal(ct_functions_open(&table, seen->libc), 0);
    func = ct_functions_by_name(table, "strtoul");
    assert_non_null(func);
    if (strstr(seen->libc, "libc.so")) /* and not a sanitizer in front of it */
        assert_int_equal(func->offset + seen->libc_info.bias, strtoul_at);
    ct_functions_close(table);
    free(seen);
}

static int stop_at_second(void *arg, const struct ct_module_info *module) {
    (void)module;
    return ++*(int *)arg == 2 ? 77 : 0;
}

static void test_modules_stop(void **state) {
    (void)state;
    int calls = 0;
    assert_int_equal(ct_modules_each(stop_at_second, &calls), 77);
    assert_int_equal(calls, 2);
}

static int print_first(void *arg, const struct ct_module_info *module) {
    (void)arg;
    puts(module->path);
    return 1;
}

/* Started through the dynamic linker, the program is still itself. */
static void test_program_through_linker(void **state) {
    (void)state;
    const char *linker = "/lib64/ld-linux-x86-64.so.2";
    char self[PATH_MAX] = "", command[2 * PATH_MAX], answer[PATH_MAX] = "";
    if (access(linker, X_OK))
        skip();
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(command, sizeof command, "exec %s '%s' --program", linker, self);
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    assert_non_null(fgets(answer, sizeof answer, pipe));
    assert_int_equal(pclose(pipe), 0);
    answer[strcspn(answer, "\n")] = 0;
    assert_string_equal(answer, self);
}

/* The one module that is no file. */
static void test_vdso(void **state) {
    (void)state;
    const Elf64_Ehdr *vdso = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
    if (!vdso)
        skip();
    struct ct_functions *table;
    size_t size = vdso->e_shoff + vdso->e_shnum * sizeof(Elf64_Shdr);
    assert_int_equal(ct_functions_open_image(&table, vdso, size), 0);
    assert_non_null(ct_functions_by_name(table, "clock_gettime"));
    ct_functions_close(table);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_personalities),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_personality_slot),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_nameless),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_build_id),
        cmocka_unit_test(test_without_sections),
        cmocka_unit_test(test_stripped),
        cmocka_unit_test(test_bad_paths),
        cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_modules_stop),
        cmocka_unit_test(test_vdso),
        cmocka_unit_test(test_unknown_instruction),
        cmocka_unit_test(test_program_through_linker),
    };
    if (argc < 2)
        return 2;
    if (strcmp(argv[1], "--program") == 0)
        return ct_modules_each(print_first, NULL) != 1;
    sample_path = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Scripting a process: replaced and served functions, calls outside of callbacks, lists, what is refused. */
#include "script_util.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- replacements, callbacks, calls outside of callbacks ---- */

static void multiply(struct server *v, struct ct_script_request *r) {
    if (r->kind == CT_SCRIPT_CALLBACK)
        r->cpu.gpr[RESULT] = r->cpu.gpr[FIRST] * 10 + r->cpu.gpr[SECOND];
    v->call = r->id; /* before the answer, with which the target goes on */
    v->failures += ct_script_answer(v->script, r, true) != 0;
}

static void replaces_functions(void **state) {
    struct target t;
    struct server v;
    char line[128];
    uint64_t address = 0;
    uint32_t id = 99, first = 99;
    (void)state;
    start_target(&t);
    ask_line(&t, line, sizeof line, "add 5 6");
    char *before = read_maps(t.pid);
    begin_server(&v, &t, NULL, multiply);
    struct ct_script_hook h = {.address = t.add, .replacement = t.twin};
    assert_int_equal(ct_script_hook(v.script, &h, 1), 1);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "30");
    assert_int_equal(ct_script_unhook(v.script, &h.id, 1), 0);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "11");
    assert_int_equal(ct_script_callback(v.script, CT_SCRIPT_NO_SLOT, &address, &first), 0);
    assert_int_equal(ct_script_callback(v.script, CT_SCRIPT_NO_SLOT, &address, &id), 0);
    h.replacement = address;
    assert_int_equal(ct_script_hook(v.script, &h, 1), 1);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "56");
    assert_int_equal(v.call, id);
    struct ct_script_call c = {.function = h.original, .integers = {20, 3}};
    assert_int_equal(ct_script_run(v.script, NULL, &c, NULL, NULL), 0);
    assert_int_equal(c.result, 23);
    assert_int_equal(ct_script_unhook(v.script, &h.id, 1), 0);
    end_server(&v);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "11");
    char *after = read_maps(t.pid);
    assert_null(strstr(after, "contrail"));
    free(before);
    free(after);
    assert_int_equal(v.failures, 0);
    end_target(&t);
}

static void calls_outside_of_callbacks(void **state) {
    struct target t;
    struct server v;
    char line[128];
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, plain);
    for (int i = 0; i < 20; i++) {
        struct ct_script_call c = {.function = t.add, .integers = {1, (uint64_t)i}};
        assert_int_equal(ct_script_run(v.script, NULL, &c, NULL, NULL), 0);
        assert_int_equal(c.result, 1 + i);
    }
    hook(&v, t.inner, CT_SCRIPT_ON_ENTER);
    struct ct_script_call c = {.function = t.outer, .integers = {5}};
    assert_int_equal(ct_script_run(v.script, NULL, &c, answer_nested, &v), 0);
    assert_int_equal(c.result, 32);
    assert_int_equal(v.call, 1);
    ask_line(&t, line, sizeof line, "add 5 6");
    assert_string_equal(line, "11");
    ask_line(&t, line, sizeof line, "threads 4 50");
    assert_string_equal(line, "wrong 0");
    end_server(&v);
    ask_line(&t, line, sizeof line, "threads 4 50");
    assert_string_equal(line, "wrong 0");
    end_target(&t);
}

/* A program that has no memory for another thread now may have it later. */
static void calls_when_threads_cannot_be_made(void **state) {
    struct target t;
    struct server v;
    struct rlimit before, little;
    char path[64];
    unsigned long pages = 0;
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, plain);
    snprintf(path, sizeof path, "/proc/%d/statm", t.pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    assert_int_equal(prlimit(t.pid, RLIMIT_AS, NULL, &before), 0);
    little = before;
    little.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + (320 << 10); /* for the call, not for the thread */
    assert_int_equal(prlimit(t.pid, RLIMIT_AS, &little, NULL), 0);
    struct ct_script_call c = {.function = t.add, .integers = {1, 2}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(ct_script_run(v.script, NULL, &c, NULL, NULL), CT_ERR_BUSY);
    assert_int_equal(prlimit(t.pid, RLIMIT_AS, &before, NULL), 0);
    assert_int_equal(ct_script_run(v.script, NULL, &c, NULL, NULL), 0);
    assert_int_equal(c.result, 3);
    end_server(&v);
    end_target(&t);
}

static void look_at_stack(struct server *v, struct ct_script_request *r) {
    uint64_t frames[16];
    struct ct_script_place place;
    if (r->kind == CT_SCRIPT_LEAVE) {
        plain(v, r);
        return;
    }
    int count = ct_script_backtrace(v->script, r->slot, 0, false, frames, 16);
    v->failures += count < 3 || frames[0] != v->target->inner;
    v->failures += count > 1 && (ct_script_describe(v->script, frames[1], &place) || strcmp(place.name, "outer"));
    v->failures += ct_script_backtrace(v->script, r->slot, 0, true, frames, 16) < 3;
    v->failures += ct_script_answer(v->script, r, false) != 0;
}

static void lists_what_is_there(void **state) {
    struct target t;
    struct server v;
    char line[128];
    struct ct_script_thread *threads;
    struct ct_script_module *modules;
    struct ct_script_symbol *symbols;
    struct ct_script_range *ranges;
    struct ct_script_place place;
    size_t count, module_count;
    bool found = false;
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, look_at_stack);
    assert_int_equal(ct_script_threads(v.script, &threads, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(threads[0].tid, t.pid);
    free(threads);
    assert_int_equal(ct_script_modules(v.script, &modules, &module_count), 0);
    assert_true(module_count >= 1);
    assert_non_null(strstr(modules[0].path, strrchr(program, '/')));
    assert_int_equal(ct_script_symbols(v.script, modules[0].base, CT_SCRIPT_SYMBOLS, &symbols, &count), 0);
    for (size_t i = 0; i < count; i++)
        found |= !strcmp(symbols[i].name, "add") && symbols[i].address == t.add;
    assert_true(found);
    free(symbols);
    found = false;
    assert_int_equal(ct_script_symbols(v.script, modules[0].base, CT_SCRIPT_IMPORTS, &symbols, &count), 0);
    for (size_t i = 0; i < count; i++)
        found |= !strcmp(symbols[i].name, "longjmp") || !strcmp(symbols[i].name, "printf");
    assert_true(found || module_count == 1); /* a static program has none */
    free(symbols);
    found = false;
    for (size_t m = 0; m < module_count; m++) {
        assert_int_equal(ct_script_symbols(v.script, modules[m].base, CT_SCRIPT_EXPORTS, &symbols, &count), 0);
        for (size_t i = 0; i < count; i++)
            found |= !strcmp(symbols[i].name, "pthread_create");
        free(symbols);
    }
    assert_true(found || module_count == 1);
    ct_script_free_modules(modules, module_count);
    assert_int_equal(ct_script_ranges(v.script, &ranges, &count), 0);
    for (size_t i = 0; i < count; i++)
        assert_null(strstr(ranges[i].path, "contrail:"));
    free(ranges);
    assert_int_equal(ct_script_describe(v.script, t.add + 1, &place), 0);
    assert_string_equal(place.name, "add");
    assert_true(place.function == t.add);
    assert_non_null(strstr(place.file, "script_target.c"));
    assert_int_equal(ct_script_describe(v.script, 4096, &place), CT_ERR_NOT_FOUND);
    hook(&v, t.inner, CT_SCRIPT_ON_ENTER);
    hook(&v, t.outer, CT_SCRIPT_ON_LEAVE);
    ask_line(&t, line, sizeof line, "outer 1");
    assert_int_equal(v.enters, 1);
    end_server(&v);
    assert_int_equal(v.failures, 0);
    end_target(&t);
}

/* ---- a library whose symbol table is made to keep us busy ---- */

enum { NAME_SIZE = 4096, SHARING = 40000 }; /* names, 160 MiB in all, that share one text */

static uint8_t *read_library(const char *name, size_t *size) {
    char *maps = read_maps(getpid()), *at = strstr(maps, name), *path = at, *end;
    assert_non_null(at);
    while (path[-1] != ' ')
        path--;
    end = strchr(path, '\n');
    *end = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    uint8_t *bytes = malloc(64 << 20);
    *size = fread(bytes, 1, 32 << 20, file);
    fclose(file);
    free(maps);
    return bytes;
}

static size_t append(uint8_t *to, size_t *size, const void *bytes, size_t count) {
    size_t at = (*size + 15) & ~(size_t)15;
    memset(to + *size, 0, at - *size);
    memcpy(to + at, bytes, count);
    *size = at + count;
    return at;
}

/* A copy with another symbol table, in its place where the copy has one. */
static void write_library(int fd) {
    size_t size;
    uint8_t *bytes = read_library("libcmocka", &size);
    Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;
    Elf64_Shdr sections[80];
    assert_true(header->e_shnum + 2 < 80);
    memcpy(sections, bytes + header->e_shoff, header->e_shnum * sizeof *sections);
    for (int i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB)
            sections[i].sh_type = SHT_NULL;
    char name[NAME_SIZE] = {0};
    memset(name + 1, 'n', sizeof name - 2);
    Elf64_Sym *symbols = calloc(SHARING, sizeof *symbols);
    for (int i = 0; i < SHARING; i++)
        symbols[i] = (Elf64_Sym){1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 8, 0x1000, 1};
    sections[header->e_shnum] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_size = sizeof name, .sh_addralign = 1};
    sections[header->e_shnum].sh_offset = append(bytes, &size, name, sizeof name);
    sections[header->e_shnum + 1] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                                 .sh_size = SHARING * sizeof *symbols,
                                                 .sh_link = header->e_shnum,
                                                 .sh_entsize = sizeof *symbols};
    sections[header->e_shnum + 1].sh_offset = append(bytes, &size, symbols, SHARING * sizeof *symbols);
    header->e_shnum += 2;
    header->e_shoff = append(bytes, &size, sections, header->e_shnum * sizeof *sections);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    free(symbols);
    free(bytes);
}

static void symbols_that_are_too_much(void **state) {
    char path[] = "/tmp/contrail-symbols-XXXXXX", error[640];
    struct target t;
    struct server v;
    struct ct_script_module *modules;
    struct ct_script_symbol *symbols = NULL;
    size_t count, symbol_count;
    int status = 0;
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    write_library(fd);
    close(fd);
    setenv("LD_PRELOAD", path, 1);
    start_target(&t);
    unsetenv("LD_PRELOAD");
    begin_server(&v, &t, NULL, plain);
    assert_int_equal(ct_script_modules(v.script, &modules, &count), 0);
    for (size_t i = 0; i < count && !status; i++)
        if (!strcmp(modules[i].path, path))
            status = ct_script_symbols(v.script, modules[i].base, CT_SCRIPT_SYMBOLS, &symbols, &symbol_count);
    unlink(path);
    free(symbols);
    bool there = count > 2; /* programs without a loader have none of it */
    ct_script_free_modules(modules, count);
    if (there) {
        assert_int_equal(status, CT_ERR_BAD_FILE);
        ct_script_error(v.script, error, sizeof error);
        assert_non_null(strstr(error, "too long"));
    }
    end_server(&v);
    end_target(&t);
}

static void refuses_what_cannot_be(void **state) {
    struct target t;
    struct server v;
    char error[512];
    (void)state;
    start_target(&t);
    begin_server(&v, &t, NULL, plain);
    struct ct_script_hook h[3] = {
        {.address = t.add + 1, .flags = 1}, {.address = t.add, .flags = 1}, {.address = t.add, .flags = 1}};
    assert_int_equal(ct_script_hook(v.script, h, 3), 1);
    assert_int_equal(h[0].status, CT_ERR_NOT_FUNCTION);
    assert_int_equal(h[1].status, 0);
    assert_int_equal(h[2].status, CT_ERR_ALREADY_HOOKED);
    uint32_t id = 1u << 30;
    assert_int_equal(ct_script_unhook(v.script, &id, 1), CT_ERR_NOT_FOUND);
    struct ct_script *other;
    assert_int_equal(ct_script_attach(&other, t.pid, NULL, error, sizeof error), CT_ERR_BUSY);
    assert_non_null(strstr(error, "scripted"));
    end_server(&v);
    end_target(&t);
}
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaces_functions),
        cmocka_unit_test(calls_outside_of_callbacks),
        cmocka_unit_test(calls_when_threads_cannot_be_made),
        cmocka_unit_test(lists_what_is_there),
        cmocka_unit_test(symbols_that_are_too_much),
        cmocka_unit_test(refuses_what_cannot_be),
    };
    program = argv[1];
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Guesses of functions: right ones in a program whose names are known but hidden, and none that break a rule in code
 * and files that say anything. `target_guess_test PROGRAM`: a static program with its symbols. */
#include "plan/target_guess.h"
#include "random_util.h"
#include <contrail/status.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *program_path;

static uint64_t random_state = RANDOM_SEED;

/* ---- a module that is a file in memory ---- */

struct module {
    uint8_t *file;
    size_t size;
    struct ct_target_source source;
    struct ct_target_text texts[4];
    struct ct_target_segment segments[8];
    struct ct_functions *table;
    struct ct_guesses guesses;
};

/* Texts and segments as the loader would map them at their own addresses; whatever the file says lies inside it. */
static void map_segments(struct module *m) {
    Elf64_Ehdr header;
    Elf64_Phdr p;
    memcpy(&header, m->file, sizeof header);
    for (size_t i = 0; i < header.e_phnum; i++) {
        memcpy(&p, m->file + header.e_phoff + i * sizeof p, sizeof p);
        uint64_t end = p.p_vaddr + p.p_filesz;
        if (p.p_type != PT_LOAD || p.p_offset > m->size || p.p_filesz > m->size - p.p_offset)
            continue;
        if (p.p_flags & PF_X && m->source.text_count < 4)
            m->texts[m->source.text_count++] = (struct ct_target_text){p.p_vaddr, end, m->file + p.p_offset, 0};
        else if (m->source.segment_count < 8)
            m->segments[m->source.segment_count++] = (struct ct_target_segment){
                .start = p.p_vaddr, .end = end, .file_end = end, .offset = p.p_offset, .flags = p.p_flags};
    }
    m->source.texts = m->texts;
    m->source.segments = m->segments;
    m->source.file = m->file;
    m->source.file_size = m->size;
}

static int guess(struct module *m) {
    assert_int_equal(ct_target_source_prepare(&m->source), 0);
    return ct_target_guess(&m->source, m->table, &m->guesses);
}

static void end_module(struct module *m) {
    ct_target_source_drop_data(&m->source);
    ct_functions_close(m->table);
    free(m->guesses.items);
    m->guesses = (struct ct_guesses){0};
}

/* What holds for guesses, whatever the code is: they are in order, in the code, guessed, and no known function. */
static void check_guesses(const struct module *m) {
    for (size_t i = 0; i < m->guesses.count; i++) {
        const struct ct_func *g = &m->guesses.items[i];
        bool inside = false;
        for (size_t k = 0; k < m->source.text_count; k++) {
            const struct ct_target_text *t = &m->texts[k];
            inside |= g->offset >= t->start && g->offset < t->end && g->size <= t->end - g->offset;
        }
        assert_true(inside && g->size > 0);
        assert_int_equal(g->flags, CT_FUNC_GUESSED);
        assert_int_equal(g->name, 0);
        assert_true(i == 0 || g[-1].offset + g[-1].size <= g->offset);
        assert_null(ct_functions_find(m->table, g->offset));
    }
}

/* ---- a program whose names are known ---- */

static uint8_t *load(const char *path, size_t *size) {
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0 && fstat(file, &status) == 0);
    *size = (size_t)status.st_size;
    uint8_t *bytes = malloc(*size);
    assert_non_null(bytes);
    assert_int_equal(read(file, bytes, *size), *size);
    close(file);
    return bytes;
}

/* Takes away everything that names functions: sections, and the way to unwind information. */
static void strip(uint8_t *file) {
    Elf64_Ehdr header;
    Elf64_Phdr p;
    memcpy(&header, file, sizeof header);
    for (size_t i = 0; i < header.e_phnum; i++) {
        uint8_t *at = file + header.e_phoff + i * sizeof p;
        memcpy(&p, at, sizeof p);
        if (p.p_type == PT_GNU_EH_FRAME)
            memset(at, 0, sizeof p);
    }
    header.e_shoff = header.e_shnum = header.e_shstrndx = 0;
    memcpy(file, &header, sizeof header);
}

static void start_stripped(struct module *m) {
    *m = (struct module){0};
    m->file = load(program_path, &m->size);
    strip(m->file);
    assert_int_equal(ct_functions_open_image(&m->table, m->file, m->size), 0);
    map_segments(m);
}

static size_t count_right(const struct module *m, const struct ct_functions *truth) {
    size_t right = 0;
    for (size_t i = 0; i < m->guesses.count; i++) {
        const struct ct_func *f = ct_functions_find(truth, m->guesses.items[i].offset);
        right += f && f->offset == m->guesses.items[i].offset;
    }
    return right;
}

static size_t count_functions(const struct ct_functions *truth) {
    size_t count = 0;
    for (size_t i = 0; i < ct_functions_count(truth); i++)
        count += !(ct_functions_at(truth, i)->flags & (CT_FUNC_PLT | CT_FUNC_COLD));
    return count;
}

/* Nearly every guess is a function. Those that are called through pointers only are not found: in a static program with
 * its many implementations of memcpy, and in a C library, these are many. */
static void test_right(void **state) {
    (void)state;
    struct module m;
    struct ct_functions *truth;
    assert_int_equal(ct_functions_open(&truth, program_path), 0);
    start_stripped(&m);
    assert_int_equal(guess(&m), 0);
    check_guesses(&m);
    size_t right = count_right(&m, truth), all = count_functions(truth);
    printf("%zu functions, %zu guessed, %zu of them right: precision %.2f %%, recall %.1f %%\n", all, m.guesses.count,
           right, 100.0 * (double)right / (double)m.guesses.count, 100.0 * (double)right / (double)all);
    assert_true(m.guesses.count > 300);
    assert_true((m.guesses.count - right) * 100 <= m.guesses.count); /* 99 in 100 */
    assert_true(right * 4 > all);
    end_module(&m);
    free(m.file);
    ct_functions_close(truth);
}

/* Tables that name the functions leave nothing to guess. */
static void test_not_needed(void **state) {
    (void)state;
    struct module m = {0};
    m.file = load(program_path, &m.size);
    assert_int_equal(ct_functions_open_image(&m.table, m.file, m.size), 0);
    map_segments(&m);
    assert_int_equal(guess(&m), 0);
    assert_int_equal(m.guesses.count, 0);
    end_module(&m);
    free(m.file);
}

static void test_given_up(void **state) {
    (void)state;
    static const bool cancelled = true;
    struct module m;
    start_stripped(&m);
    m.source.cancelled = &cancelled;
    assert_int_equal(guess(&m), CT_ERR_TIMEOUT);
    assert_int_equal(m.guesses.count, 0);
    end_module(&m);
    free(m.file);
}

/* ---- code that is anything ---- */

/* A file of one executable segment, which ends where a page begins that cannot be read. */
enum { HEAD = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr), CODE = 8192 - HEAD, ADDRESS = 0x400000 };

static uint8_t *guarded; /* the file's bytes */

static void make_room(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (HEAD + CODE + page - 1) / page * page;
    uint8_t *bytes = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(bytes != MAP_FAILED);
    assert_int_equal(mprotect(bytes + room, page, PROT_NONE), 0);
    guarded = bytes + room - (HEAD + CODE);
}

static void start_code(struct module *m, uint16_t machine, uint64_t entry) {
    Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_EXEC,
        .e_machine = machine,
        .e_entry = entry,
        .e_phoff = sizeof header,
        .e_ehsize = sizeof header,
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = 1,
    };
    Elf64_Phdr p = {.p_type = PT_LOAD,
                    .p_flags = PF_R | PF_X,
                    .p_offset = HEAD,
                    .p_vaddr = ADDRESS,
                    .p_filesz = CODE,
                    .p_memsz = CODE};
    *m = (struct module){.file = guarded, .size = HEAD + CODE};
    memcpy(m->file, &header, sizeof header);
    memcpy(m->file + sizeof header, &p, sizeof p);
    assert_int_equal(ct_functions_open_image(&m->table, m->file, m->size), 0);
    map_segments(m);
    assert_int_equal(m->source.text_count, 1);
}

static void check_code(uint64_t entry) {
    struct module m;
    start_code(&m, EM_X86_64, entry);
    assert_int_equal(guess(&m), 0);
    check_guesses(&m);
    end_module(&m);
}

/* Random bytes with many branches in them, to anywhere nearby, also into the middle of instructions and to the end. */
static void fill_with_branches(uint8_t *code, unsigned per_cent) {
    for (size_t at = 0; at < CODE;) {
        int32_t to = (int32_t)random_below(&random_state, CODE + 64) - (int32_t)at - 5;
        uint8_t branch[6] = {(uint8_t)(random_next(&random_state) % 3 ? 0xe8 : 0xe9)};
        memcpy(branch + 1, &to, 4);
        if (random_below(&random_state, 100) >= per_cent || CODE - at < 5)
            code[at++] = (uint8_t)random_next(&random_state);
        else
            memcpy(code + at, branch, 5), at += 5;
    }
}

static void test_any_code(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        fill_with_branches(guarded + HEAD, i % 101);
        check_code(ADDRESS + random_below(&random_state, CODE));
    }
}

/* One instruction again and again: calls and branches to every place, and ones that lead out or nowhere. */
static void test_one_instruction(void **state) {
    (void)state;
    static const uint8_t forms[][5] = {
        {0xe8, 0, 0, 0, 0},             /* call of the next instruction: where am I? */
        {0xe8, 0xfc, 0xff, 0xff, 0xff}, /* into itself */
        {0xe8, 0xfb, 0xff, 0xff, 0xff}, /* of itself */
        {0xe8, 0xff, 0xff, 0xff, 0x7f}, /* far away */
        {0xe9, 1, 0, 0, 0},             /* jumps into the next one */
        {0x74, 0x80, 0x75, 0x7f, 0xc3}, /* conditional, far back and far on */
        {0x90, 0x90, 0x90, 0x90, 0x90},
        {0xcc, 0xcc, 0xcc, 0xcc, 0xcc},
        {0x00, 0x00, 0x00, 0x00, 0x00},
        {0xff, 0xff, 0xff, 0xff, 0xff},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        for (size_t at = 0; at < CODE; at++)
            guarded[HEAD + at] = forms[i][at % 5];
        for (unsigned k = 0; k < 7; k++)
            check_code(k < 5 ? ADDRESS + k : k == 5 ? ADDRESS + CODE - 1 : ADDRESS + CODE);
    }
}

/* Addresses at the ends of the address space, in the header of a file. */
static void test_odd_entries(void **state) {
    (void)state;
    static const uint64_t entries[] = {0, 1, ADDRESS - 1, UINT64_MAX, UINT64_MAX - 4, 1ull << 63, UINT32_MAX};
    memset(guarded + HEAD, 0xe8, CODE);
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        check_code(entries[i]);
}

/* Places that are called count, unless something falls into them, branches to them or they are no code. */
static void test_what_counts(void **state) {
    (void)state;
    static const uint8_t code[] = {
        0xe8, 0x1b, 0x00, 0x00, 0x00, /*  0 call 32: a function */
        0xe8, 0x26, 0x00, 0x00, 0x00, /*  5 call 48: one that is branched to as well */
        0xe8, 0x31, 0x00, 0x00, 0x00, /* 10 call 64: a linkage stub */
        0xe8, 0x3e, 0x00, 0x00, 0x00, /* 15 call 82: inside the function at 80 */
        0xe8, 0x37, 0x00, 0x00, 0x00, /* 20 call 80: a function with that inside it */
        0x74, 0x15,                   /* 25 je 48 */
        0xc3,                         /* 27 */
        0xcc, 0xcc, 0xcc, 0xcc,       /* 28 */
    };
    struct module m;
    memset(guarded + HEAD, 0xcc, CODE);
    memcpy(guarded + HEAD, code, sizeof code);
    memcpy(guarded + HEAD + 32, (const uint8_t[]){0x31, 0xc0, 0xc3}, 3);                         /* xor; ret */
    memcpy(guarded + HEAD + 48, (const uint8_t[]){0x31, 0xc0, 0xc3}, 3);                         /* xor; ret */
    memcpy(guarded + HEAD + 64, (const uint8_t[]){0xff, 0x25, 0x00, 0x00, 0x00, 0x00}, 6);       /* jmp [rip] */
    memcpy(guarded + HEAD + 80, (const uint8_t[]){0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, 0xc3}, 7); /* 82: xor ecx */
    start_code(&m, EM_X86_64, ADDRESS);
    assert_int_equal(guess(&m), 0);
    assert_int_equal(m.guesses.count, 2);
    assert_int_equal(m.guesses.items[0].offset, ADDRESS + 32);
    assert_int_equal(m.guesses.items[0].size, 3);
    assert_int_equal(m.guesses.items[1].offset, ADDRESS + 80);
    end_module(&m);
}

/* A file whose bytes were damaged: its code, and what its headers and dynamic section say. */
static void test_damaged(void **state) {
    (void)state;
    size_t size;
    uint8_t *original = load(program_path, &size);
    strip(original);
    for (unsigned i = 0; i < 40; i++) {
        struct module m = {.file = malloc(size), .size = size};
        assert_non_null(m.file);
        memcpy(m.file, original, size);
        for (unsigned k = 0; k < 2000; k++) /* the headers stay: they say what is mapped */
            m.file[4096 + random_below(&random_state, size - 4096)] = (uint8_t)random_next(&random_state);
        if (!ct_functions_open_image(&m.table, m.file, m.size)) {
            map_segments(&m);
            assert_int_equal(guess(&m), 0);
            check_guesses(&m);
            end_module(&m);
        }
        free(m.file);
    }
    free(original);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),       cmocka_unit_test(test_not_needed),      cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_any_code),    cmocka_unit_test(test_one_instruction), cmocka_unit_test(test_odd_entries),
        cmocka_unit_test(test_what_counts), cmocka_unit_test(test_damaged),
    };
    if (argc < 2)
        return 2;
    program_path = argv[1];
    make_room();
    return cmocka_run_group_tests_name("target_guess", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Function tables of damaged files: the sample library with bytes changed and ends cut off, 20,000 times, from a fixed
 * seed. The image ends at a page that cannot be read, or in a block of exact size that AddressSanitizer watches. */
#include "symbols/functions.h"
#include "random_util.h"
#include <contrail/status.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_ROUNDS 20000

static const char *sample_path;
static unsigned long rounds = DEFAULT_ROUNDS;

static uint64_t random_state = RANDOM_SEED;

struct image {
    uint8_t *original;
    size_t size;
    uint8_t *guarded; /* `room` bytes before a page without access */
    size_t room;
};

static void load(struct image *image, const char *path) {
    struct stat status;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0 && fstat(file, &status) == 0);
    image->size = (size_t)status.st_size;
    image->original = malloc(image->size);
    assert_int_equal(read(file, image->original, image->size), image->size);
    close(file);
    image->room = (image->size + page - 1) / page * page;
    image->guarded = mmap(NULL, image->room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(image->guarded != MAP_FAILED);
    assert_int_equal(mprotect(image->guarded + image->room, page, PROT_NONE), 0);
}

static void unload(struct image *image) {
    munmap(image->guarded, image->room + (size_t)sysconf(_SC_PAGESIZE));
    free(image->original);
}

/* A place worth damaging: in the headers, in a section's header, in a section that is read; or just anywhere. */
static size_t pick_place(const struct image *image) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image->original;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(image->original + header->e_shoff);
    const Elf64_Shdr *section = &sections[random_below(&random_state, header->e_shnum)];
    switch (random_next(&random_state) % 5) {
    case 0:
        return random_below(&random_state, sizeof *header);
    case 1:
        return header->e_phoff + random_below(&random_state, header->e_phnum * sizeof(Elf64_Phdr));
    case 2:
        return header->e_shoff + random_below(&random_state, header->e_shnum * sizeof(Elf64_Shdr));
    case 3:
        if (section->sh_type != SHT_NOBITS && section->sh_size)
            return section->sh_offset + random_below(&random_state, section->sh_size);
        return random_below(&random_state, image->size);
    default:
        return random_below(&random_state, image->size);
    }
}

static void damage(const struct image *image, uint8_t *data, size_t size) {
    static const uint8_t edges[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    for (size_t n = 1 + random_below(&random_state, 6); n; n--) {
        size_t place = pick_place(image), width = (size_t)1 << random_below(&random_state, 4);
        if (place >= size)
            continue;
        if (width > size - place)
            width = 1;
        switch (random_next(&random_state) % 3) {
        case 0:
            data[place] ^= (uint8_t)(1u << random_below(&random_state, 8));
            break;
        case 1:
            memset(data + place, edges[random_below(&random_state, sizeof edges)], width);
            break;
        default:
            for (size_t i = 0; i < width; i++)
                data[place + i] = (uint8_t)random_next(&random_state);
        }
    }
}

/* What holds for every table, whatever the file says. */
static void check_table(const struct ct_functions *table) {
    size_t total = 0;
    for (size_t i = 0; i < ct_functions_count(table); i++) {
        const struct ct_func *func = ct_functions_at(table, i);
        const char *name = ct_functions_name(table, func);
        total += strlen(name);
        assert_true(func->size > 0 && func->offset + func->size > func->offset);
        assert_true(i == 0 || func[-1].offset < func->offset);
        assert_ptr_equal(ct_functions_find(table, func->offset), func);
        assert_true(!(func->flags & CT_FUNC_NAMED) == !*name);
        if (*name && strlen(name) < 4096)
            assert_non_null(ct_functions_by_name(table, name));
    }
    for (size_t i = 0; i < ct_functions_text_count(table); i++)
        assert_true(ct_functions_text_at(table, i)->start < ct_functions_text_at(table, i)->end);
    total += strlen(ct_functions_build_id(table));
    assert_true(total < SIZE_MAX);
}

static bool try_image(const uint8_t *data, size_t size) {
    struct ct_functions *table = NULL;
    int status = ct_functions_open_image(&table, data, size);
    if (status) {
        assert_true(status == CT_ERR_BAD_FILE || status == CT_ERR_UNSUPPORTED);
        return false;
    }
    check_table(table);
    ct_functions_close(table);
    return true;
}

static void test_damaged(void **state) {
    (void)state;
    struct image image;
    unsigned long opened = 0;
    load(&image, sample_path);
    for (unsigned long i = 0; i < rounds; i++) {
        size_t size = i % 4 == 0 ? random_below(&random_state, image.size + 1) : image.size;
        uint8_t *block = i & 1 ? malloc(size + !size) : NULL;
        uint8_t *data = block ? block : image.guarded + image.room - size;
        memcpy(data, image.original, size);
        if (i % 8)
            damage(&image, data, size);
        opened += try_image(data, size);
        free(block);
    }
    unload(&image);
    assert_true(opened > rounds / 4); /* else the damage is too coarse to test anything */
}

/* Cut at every byte of the headers and in steps afterwards. */
static void test_truncated(void **state) {
    (void)state;
    struct image image;
    load(&image, sample_path);
    for (size_t size = 0; size <= image.size; size += size < 1024 ? 1 : 61) {
        uint8_t *data = image.guarded + image.room - size;
        memcpy(data, image.original, size);
        try_image(data, size);
    }
    unload(&image);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_damaged), cmocka_unit_test(test_truncated)};
    if (argc < 2)
        return 2;
    sample_path = argv[1];
    if (argc > 2)
        rounds = strtoul(argv[2], NULL, 0);
    if (argc > 3)
        random_state = strtoull(argv[3], NULL, 0) | 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of analyses: plans with it are the same bytes as without, whatever has happened to its files.
 * Arguments: the subject programs, dynamic, and static at any address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "plan/target_internal.h"
#include "target_util.h"

static const char *program, *static_program;
static char root[] = "/tmp/target_cache_XXXXXX";
static char directory[PATH_MAX]; /* of the cache */
static struct target target;
static struct ct_target_plan *cold; /* made without a cache */

static struct ct_target_plan *plan_cached(void) {
    struct ct_target_plan_options options = {.cache_dir = directory};
    return target_plan(&target, &options);
}

/* Every file of the cache; `each` may be NULL. */
static size_t for_files(void (*each)(const char *path)) {
    DIR *d = opendir(directory);
    struct dirent *e;
    size_t count = 0;
    if (!d)
        return 0;
    while ((e = readdir(d)))
        if (e->d_name[0] != '.') {
            char path[PATH_MAX + 300];
            snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
            count++;
            if (each)
                each(path);
        }
    closedir(d);
    return count;
}

static void remove_file(const char *path) {
    assert_int_equal(unlink(path), 0);
}

static int start(void **state) {
    (void)state;
    const char *arguments[] = {program, "libm.so.6", NULL};
    assert_non_null(mkdtemp(root));
    snprintf(directory, sizeof directory, "%s/some/where", root);
    target_start(&target, program, arguments);
    cold = target_plan(&target, NULL);
    return 0;
}

static int end(void **state) {
    (void)state;
    char above[PATH_MAX];
    for_files(remove_file);
    rmdir(directory);
    snprintf(above, sizeof above, "%s/some", root);
    rmdir(above);
    rmdir(root);
    ct_target_plan_free(cold);
    target_end(&target);
    return 0;
}

/* A plan from whatever is in the cache now: as without one; and then the cache is whole again. */
static void check_plan(size_t hits) {
    struct ct_target_plan *plan = plan_cached();
    target_check_same(plan, cold);
    assert_int_equal(plan->cache_hits, hits);
    assert_int_equal(plan->cache_hits + plan->cache_misses, plan->module_count);
    ct_target_plan_free(plan);
    assert_int_equal(for_files(NULL), cold->module_count);
}

static void test_cold_and_warm(void **state) {
    (void)state;
    size_t all = cold->module_count;
    assert_int_equal(cold->cache_hits + cold->cache_misses, 0);
    assert_true(all >= 4);
    assert_int_equal(for_files(NULL), 0);
    check_plan(0);
    check_plan(all);
    for_files(remove_file);
    check_plan(0);
    check_plan(all);
}

/* Where a module is loaded does not matter. */
static void test_another_process(void **state) {
    (void)state;
    struct target other = {0};
    const char *arguments[] = {program, NULL};
    struct ct_target_plan_options options = {.cache_dir = directory};
    check_plan(cold->module_count);
    target_start(&other, program, arguments);
    struct ct_target_plan *plain = target_plan(&other, NULL), *cached = target_plan(&other, &options);
    target_check_same(plain, cached);
    target_check(&other, cached);
    assert_int_equal(cached->cache_hits, cached->module_count);
    ct_target_plan_free(plain);
    ct_target_plan_free(cached);
    target_end(&other);
}

/* Names come from the cache too, and are those of a whole analysis. */
static void test_names_only(void **state) {
    (void)state;
    struct ct_target_plan_options options = {.cache_dir = directory, .names_only = true};
    check_plan(cold->module_count);
    struct ct_target_plan *names = target_plan(&target, &options);
    assert_int_equal(names->cache_hits, cold->module_count);
    for (size_t i = 0; i < cold->module_count; i++) {
        assert_int_equal(names->modules[i].table_hash, cold->modules[i].table_hash);
        assert_int_equal(names->modules[i].function_count, cold->modules[i].function_count);
    }
    ct_target_plan_free(names);
    for_files(remove_file);
    names = target_plan(&target, &options);
    assert_int_equal(names->cache_misses, cold->module_count);
    ct_target_plan_free(names);
    check_plan(cold->module_count); /* what was stored is whole */
}

/* The first file of the cache, which is then removed. */
static uint8_t *take_file(size_t *size) {
    char path[PATH_MAX + 300];
    DIR *d = opendir(directory);
    struct dirent *e;
    assert_non_null(d);
    do {
        e = readdir(d);
        assert_non_null(e);
    } while (e->d_name[0] == '.');
    snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
    closedir(d);
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = malloc(1 << 24);
    assert_true(f && bytes);
    *size = fread(bytes, 1, 1 << 24, f);
    fclose(f);
    assert_int_equal(unlink(path), 0);
    return bytes;
}

/* A static program relocates itself: when it is stopped at its first instruction, its tables are not what they will
 * be. */
static void test_before_relocation(void **state) {
    (void)state;
    struct ct_target_plan_options options = {.cache_dir = directory};
    char *const arguments[] = {(char *)static_program, NULL};
    struct ct_remote_spawn what = {.path = static_program, .argv = arguments};
    struct ct_remote_error error = {{0}};
    struct target early = {0}, late = {0};
    size_t early_size, late_size;
    for_files(remove_file);
    assert_int_equal(ct_remote_spawn(&early.remote, &what, 5000, &error), 0);
    early.pid = ct_remote_pid(early.remote);
    ct_target_plan_free(target_plan(&early, &options));
    uint8_t *early_bytes = take_file(&early_size);
    kill(early.pid, SIGKILL);
    target_end(&early);
    target_start(&late, static_program, (const char *const *)arguments);
    ct_target_plan_free(target_plan(&late, &options));
    uint8_t *late_bytes = take_file(&late_size);
    target_end(&late);
    assert_int_equal(early_size, late_size);
    assert_memory_equal(early_bytes, late_bytes, early_size);
    free(early_bytes);
    free(late_bytes);
}

/* ---- damage ---- */

static uint64_t seed = 12345;
static uint64_t random_below(uint64_t limit) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 20) % limit;
}

static size_t size_of(const char *path) {
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    return (size_t)s.st_size;
}

static void cut(const char *path) {
    assert_int_equal(truncate(path, (off_t)random_below(size_of(path))), 0);
}

static void empty(const char *path) {
    assert_int_equal(truncate(path, 0), 0);
}

static void lengthen(const char *path) {
    assert_int_equal(truncate(path, (off_t)size_of(path) + 8), 0);
}

static void change(const char *path, size_t at, uint8_t by) {
    uint8_t byte;
    int file = open(path, O_RDWR);
    assert_true(file >= 0);
    assert_int_equal(pread(file, &byte, 1, (off_t)at), 1);
    byte ^= by;
    assert_int_equal(pwrite(file, &byte, 1, (off_t)at), 1);
    close(file);
}

static void flip_somewhere(const char *path) {
    change(path, random_below(size_of(path)), (uint8_t)(1u << random_below(8)));
}

static void flip_in_header(const char *path) {
    change(path, random_below(sizeof(struct ct_target_image)), (uint8_t)(1u << random_below(8)));
}

static void other_version(const char *path) {
    change(path, offsetof(struct ct_target_image, tool), 1);
}

static void other_magic(const char *path) {
    change(path, 6, 3);
}

static void writable_by_others(const char *path) {
    assert_int_equal(chmod(path, 0666), 0);
}

static void make_unreadable(const char *path) {
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/passwd", path), 0);
}

static void test_damaged_files(void **state) {
    (void)state;
    static void (*const damages[])(const char *) = {
        cut,           empty,       lengthen,           flip_somewhere, flip_in_header,
        other_version, other_magic, writable_by_others, make_unreadable};
    check_plan(cold->module_count);
    for (size_t round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
            for_files(damages[i]);
            check_plan(0);
            check_plan(cold->module_count);
        }
}

/* A directory that cannot be written, or is none, is no reason to fail. */
static void test_bad_directories(void **state) {
    (void)state;
    static const char *const bad[] = {"/proc/1/nowhere", "/dev/null/x", "", "/dev/null"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ct_target_plan_options options = {.cache_dir = bad[i]};
        struct ct_target_plan *plan = target_plan(&target, &options);
        target_check_same(plan, cold);
        assert_int_equal(plan->cache_hits, 0);
        ct_target_plan_free(plan);
    }
}

/* ---- files that lie, with a right checksum ---- */

static char victim[PATH_MAX + 300];

static void smallest(const char *path) {
    if (!victim[0] || size_of(path) < size_of(victim))
        snprintf(victim, sizeof victim, "%s", path);
}

static void seal(struct ct_target_image *image, size_t size) {
    const size_t covered = offsetof(struct ct_target_image, tool);
    image->checksum = ct_target_hash((const uint8_t *)image + covered, size - covered, size);
}

static void write_victim(const void *bytes, size_t size) {
    FILE *f = fopen(victim, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* Numbers in the places where they hurt most. */
static void lie(const struct ct_target_image *image, uint8_t *bytes, size_t size) {
    static const uint64_t values[] = {0, 1, 7, 0x7fffffff, 0xffffffff, 1ull << 40, UINT64_MAX, UINT64_MAX - 7};
    uint64_t value = values[random_below(sizeof values / sizeof *values)];
    size_t width = random_below(2) ? 8 : 4, at;
    switch (random_below(4)) {
    case 0:
        at = random_below(sizeof *image);
        break;
    case 1:
        at = image->texts + random_below(sizeof(struct ct_image_text) * image->text_count);
        break;
    case 2:
        at = image->functions + random_below(sizeof(struct ct_image_function) * image->function_count);
        break;
    default:
        at = random_below(size);
    }
    at = at / width * width;
    if (random_below(2))
        value = size - random_below(64);
    if (at + width <= size && at >= offsetof(struct ct_target_image, tool) + 8)
        memcpy(bytes + at, &value, width);
}

/* They may give another plan, but not a crash. The plan is still one of the target's code. */
static void test_lies(void **state) {
    (void)state;
    for_files(remove_file);
    check_plan(0);
    for_files(smallest);
    size_t size = size_of(victim), accepted = 0;
    uint8_t *good = malloc(size), *bad = malloc(size);
    FILE *f = fopen(victim, "rb");
    assert_true(good && bad && f);
    assert_int_equal(fread(good, 1, size, f), size);
    fclose(f);
    assert_true(ct_target_image_valid((const struct ct_target_image *)good, size));
    for (int i = 0; i < 20000; i++) {
        memcpy(bad, good, size);
        for (uint64_t n = random_below(3) + 1; n > 0; n--)
            lie((const struct ct_target_image *)good, bad, size);
        seal((struct ct_target_image *)bad, size);
        if (!ct_target_image_valid((const struct ct_target_image *)bad, size))
            continue;
        if (accepted++ > 60)
            continue;
        write_victim(bad, size);
        struct ct_target_plan *plan = plan_cached();
        ct_target_plan_free(plan);
    }
    assert_true(accepted > 10);
    for_files(remove_file);
    check_plan(0);
    free(good);
    free(bad);
}

static void check_debug(const struct target *t, size_t misses, bool named) {
    struct ct_target_plan_options options = {.cache_dir = directory};
    struct ct_target_plan *plain = target_plan(t, NULL), *cached = target_plan(t, &options);
    target_check_same(plain, cached);
    assert_int_equal(cached->cache_misses, misses);
    assert_int_equal(target_function(&cached->modules[0], "subject_recursion") != NULL, named);
    ct_target_plan_free(plain);
    ct_target_plan_free(cached);
}

/* A debug file that comes, changes or goes makes what was cached without it, or with it, worthless. */
static void test_debug_files(void **state) {
    (void)state;
    char command[4 * PATH_MAX], copy[PATH_MAX];
    struct target other = {0};
    const char *arguments[] = {"copy", NULL};
    check_plan(cold->module_count);
    snprintf(copy, sizeof copy, "%s/copy", root);
    snprintf(command, sizeof command,
             "cp %s %s/copy && cd %s && objcopy --only-keep-debug copy copy.debug && strip copy && "
             "objcopy --add-gnu-debuglink=copy.debug copy && mv copy.debug away",
             program, root, root);
    assert_int_equal(system(command), 0);
    target_start(&other, copy, arguments);
    check_debug(&other, 1, false);
    check_debug(&other, 0, false);
    snprintf(command, sizeof command, "cp %s/away %s/copy.debug", root, root);
    assert_int_equal(system(command), 0);
    check_debug(&other, 1, true);
    check_debug(&other, 0, true);
    snprintf(command, sizeof command, "touch -d yesterday %s/copy.debug", root);
    assert_int_equal(system(command), 0);
    check_debug(&other, 1, true);
    snprintf(command, sizeof command, "rm %s/copy.debug %s/away %s/copy", root, root, root);
    assert_int_equal(system(command), 0);
    check_debug(&other, 1, false);
    target_end(&other);
    for_files(remove_file);
    check_plan(0);
}

static void test_hash(void **state) {
    (void)state;
    uint8_t bytes[100] = {0};
    uint64_t first = ct_target_hash(bytes, sizeof bytes, 1);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 1;
        assert_true(ct_target_hash(bytes, sizeof bytes, 1) != first);
        bytes[i] = 0;
        assert_true(ct_target_hash(bytes, i, 1) != first);
    }
    assert_int_equal(ct_target_hash(bytes, sizeof bytes, 1), first);
    assert_true(ct_target_hash(bytes, sizeof bytes, 2) != first);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_cold_and_warm),
        cmocka_unit_test(test_another_process),
        cmocka_unit_test(test_names_only),
        cmocka_unit_test(test_debug_files),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_bad_directories),
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_before_relocation),
    };
    program = argc > 1 ? argv[1] : "";
    static_program = argc > 2 ? argv[2] : "";
    return cmocka_run_group_tests_name("target_cache", tests, start, end);
}

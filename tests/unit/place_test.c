/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that are held by descriptors: what is followed, what is made, and what others cannot do to it. What needs
 * another user is tested by root alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "trace/place.h"
#include "trace_util.h"

#define OTHER 65534

static char root[300];

static int setup(void **state) {
    (void)state;
    make_directory(root, sizeof root);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    remove_directory(root);
    return 0;
}

static unsigned mode_of(const char *path) {
    struct stat status;
    assert_int_equal(lstat(path, &status), 0);
    return status.st_mode & 07777;
}

static bool is_there(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0;
}

static int try_open(const char *path, int flags) {
    struct ct_place *place;
    int error = ct_place_open(&place, path, flags, CT_PLACE_NO_GROUP);
    ct_place_drop(place);
    return error;
}

static struct ct_place *open_root(void) {
    struct ct_place *place;
    assert_int_equal(ct_place_open(&place, root, 0, CT_PLACE_NO_GROUP), 0);
    return place;
}

static void write_file(struct ct_place *place, const char *name, const char *text) {
    int fd = ct_place_open_file(place, name, O_WRONLY | O_CREAT | O_EXCL);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

/* ---- modes ---- */

static void check_modes(mode_t mask, gid_t group, unsigned directory, unsigned file) {
    struct ct_place *place, *made;
    mode_t old = umask(mask);
    assert_int_equal(ct_place_open(&place, in("%s/a/b", root), CT_PLACE_MAKE, group), 0);
    assert_int_equal(ct_place_make(&made, place, "c"), 0);
    assert_int_equal(ct_place_make_directory(made, "d"), 0);
    write_file(made, "d/file", "");
    umask(old);
    static const char *const directories[] = {"a", "a/b", "a/b/c", "a/b/c/d"};
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
        assert_int_equal(mode_of(in("%s/%s", root, directories[i])), directory);
    assert_int_equal(mode_of(in("%s/a/b/c/d/file", root)), file);
    ct_place_clear(made);
    ct_place_unmake(made);
    assert_false(is_there(in("%s/a", root)));
    ct_place_drop(made);
    ct_place_drop(place);
}

static void test_modes(void **state) {
    (void)state;
    static const mode_t masks[] = {0, 022, 077, 0777};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        check_modes(masks[i], CT_PLACE_NO_GROUP, 0700, 0600);
        check_modes(masks[i], getegid(), 0750, 0640);
    }
}

static void test_inherited_group_bit(void **state) {
    (void)state;
    assert_int_equal(chmod(root, 02755), 0);
    assert_int_equal(try_open(in("%s/a", root), CT_PLACE_MAKE), 0);
    assert_int_equal(mode_of(in("%s/a", root)), 0700);
}

/* ---- links ---- */

static void test_own_links(void **state) {
    (void)state;
    assert_int_equal(mkdir(in("%s/real", root), 0700), 0);
    assert_int_equal(symlink("real", in("%s/link", root)), 0);
    assert_int_equal(symlink(in("%s/link", root), in("%s/second", root)), 0);
    assert_int_equal(try_open(in("%s/second/below", root), CT_PLACE_MAKE), 0);
    assert_true(is_there(in("%s/real/below", root)));
    assert_int_equal(symlink("round", in("%s/round", root)), 0);
    assert_int_equal(try_open(in("%s/round", root), 0), CT_PLACE_LINK);
    assert_int_equal(symlink("nowhere", in("%s/dangling", root)), 0);
    assert_int_equal(try_open(in("%s/dangling", root), 0), ENOENT);
}

/* Where others can write, they can put another link of ours in its place; unless the directory is sticky. */
static void test_links_where_others_write(void **state) {
    (void)state;
    assert_int_equal(mkdir(in("%s/real", root), 0700), 0);
    assert_int_equal(mkdir(in("%s/open", root), 0700), 0);
    assert_int_equal(symlink("../real", in("%s/open/link", root)), 0);
    static const struct {
        mode_t mode;
        int error;
    } cases[] = {{0777, CT_PLACE_LINK}, {0770, CT_PLACE_LINK}, {0702, CT_PLACE_LINK}, {01777, 0}, {0755, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(chmod(in("%s/open", root), cases[i].mode), 0);
        assert_int_equal(try_open(in("%s/open/link", root), 0), cases[i].error);
        assert_int_equal(try_open(in("%s/open/link/x", root), CT_PLACE_MAKE), cases[i].error);
    }
}

static void test_links_of_others(void **state) {
    (void)state;
    if (geteuid())
        skip();
    assert_int_equal(mkdir(in("%s/real", root), 0700), 0);
    assert_int_equal(mkdir(in("%s/his", root), 0755), 0);
    assert_int_equal(symlink(in("%s/real", root), in("%s/link", root)), 0);
    assert_int_equal(symlink(in("%s/real", root), in("%s/his/link", root)), 0);
    assert_int_equal(lchown(in("%s/link", root), OTHER, OTHER), 0);
    assert_int_equal(chown(in("%s/his", root), OTHER, OTHER), 0);
    assert_int_equal(try_open(in("%s/link", root), 0), CT_PLACE_LINK);
    assert_int_equal(try_open(in("%s/his/link", root), 0), CT_PLACE_LINK); /* a link of ours that he may have moved */
    assert_int_equal(try_open(in("%s/his/new", root), CT_PLACE_MAKE), 0);  /* directories of others are walked */
    struct ct_place *place;
    char *name;
    assert_int_equal(symlink("/etc/hostname", in("%s/his/file", root)), 0);
    assert_int_equal(ct_place_find(&place, &name, in("%s/his/file", root)), CT_PLACE_LINK);
    assert_null(place);
    assert_null(name);
}

static void test_files_are_not_followed(void **state) {
    (void)state;
    struct ct_place *place = open_root();
    store(in("%s/victim", root), "old", 3);
    assert_int_equal(symlink("victim", in("%s/link", root)), 0);
    assert_int_equal(ct_place_open_file(place, "link", O_RDWR), -ELOOP);
    assert_int_equal(ct_place_open_file(place, "link", O_WRONLY | O_CREAT | O_EXCL), -EEXIST);
    assert_int_equal(ct_place_make_ordinary(place, "link"), -EEXIST);
    write_file(place, "fresh", "new");
    assert_int_equal(ct_place_replace(place, "fresh", "link"), 0);
    size_t size;
    uint8_t *text = load(in("%s/victim", root), &size);
    assert_int_equal(size, 3);
    assert_memory_equal(text, "old", 3);
    free(text);
    ct_place_drop(place);
}

static void test_find(void **state) {
    (void)state;
    struct ct_place *place;
    char *name;
    assert_int_equal(mkdir(in("%s/d", root), 0700), 0);
    assert_int_equal(symlink("d/file", in("%s/link", root)), 0);
    assert_int_equal(ct_place_find(&place, &name, in("%s/link", root)), 0);
    assert_string_equal(name, "file");
    write_file(place, name, "text");
    assert_true(is_there(in("%s/d/file", root)));
    ct_place_drop(place);
    free(name);
    assert_int_equal(ct_place_find(&place, &name, in("%s/none/file", root)), ENOENT);
    assert_int_equal(ct_place_find(&place, &name, in("%s/d/", root)), EISDIR);
    assert_int_equal(ct_place_find(&place, &name, ""), ENOENT);
}

/* ---- held ---- */

/* The directory is renamed away and a link is put in its place: what is written goes into the directory all the
 * same. */
static void test_moved_away(void **state) {
    (void)state;
    struct ct_place *place = open_root(), *session, *process;
    assert_int_equal(ct_place_make(&session, place, "session"), 0);
    assert_int_equal(ct_place_make_directory(session, "pid_1"), 0);
    assert_int_equal(ct_place_below(&process, session, "pid_1"), 0);
    assert_int_equal(rename(in("%s/session", root), in("%s/away", root)), 0);
    assert_int_equal(mkdir(in("%s/other", root), 0700), 0);
    assert_int_equal(mkdir(in("%s/other/pid_1", root), 0700), 0);
    assert_int_equal(symlink("other", in("%s/session", root)), 0);
    write_file(process, "file", "text");
    assert_int_equal(ct_place_replace(process, "file", "renamed"), 0);
    assert_int_equal(ct_place_make_directory(process, "thread_1"), 0);
    assert_true(is_there(in("%s/away/pid_1/renamed", root)));
    assert_true(is_there(in("%s/away/pid_1/thread_1", root)));
    assert_int_equal(rmdir(in("%s/other/pid_1", root)), 0); /* it is empty */
    ct_place_unmake(session);
    assert_true(is_there(in("%s/session", root))); /* not ours */
    ct_place_drop(process);
    ct_place_drop(session);
    ct_place_drop(place);
}

static void test_unmake(void **state) {
    (void)state;
    struct ct_place *place, *below;
    assert_int_equal(mkdir(in("%s/there", root), 0700), 0);
    assert_int_equal(ct_place_open(&place, in("%s/there/a/b", root), CT_PLACE_MAKE, CT_PLACE_NO_GROUP), 0);
    assert_true(ct_place_is_new(place));
    assert_int_equal(ct_place_make(&below, place, "c"), 0);
    write_file(below, "file", "");
    ct_place_unmake(below);
    assert_true(is_there(in("%s/there/a/b/c/file", root)));
    assert_int_equal(ct_place_remove(below, "file"), 0);
    ct_place_unmake(below);
    assert_false(is_there(in("%s/there/a", root)));
    assert_true(is_there(in("%s/there", root)));
    ct_place_drop(below);
    ct_place_drop(place);
    /* Of a walk that fails nothing is left. */
    assert_int_equal(try_open(in("%s/x/y/%0300d", root, 0), CT_PLACE_MAKE), ENAMETOOLONG);
    assert_false(is_there(in("%s/x", root)));
    store(in("%s/plain", root), "", 0);
    assert_int_equal(try_open(in("%s/plain/x", root), CT_PLACE_MAKE), ENOTDIR);
    assert_int_equal(try_open(in("%s/x/y", root), CT_PLACE_MAKE_LAST), ENOENT);
    assert_int_equal(try_open(in("%s/x", root), CT_PLACE_MAKE_LAST), 0);
}

/* ---- private ---- */

static void test_private(void **state) {
    (void)state;
    assert_int_equal(mkdir(in("%s/home", root), 0755), 0);
    assert_int_equal(try_open(in("%s/home/.cache/contrail", root), CT_PLACE_PRIVATE | CT_PLACE_MAKE), 0);
    static const mode_t open_modes[] = {0775, 0777, 0702};
    static const char *const places[] = {"home", "home/.cache", "home/.cache/contrail"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (size_t k = 0; k < sizeof open_modes / sizeof *open_modes; k++) {
            assert_int_equal(chmod(in("%s/%s", root, places[i]), open_modes[k]), 0);
            assert_int_equal(try_open(in("%s/home/.cache/contrail", root), CT_PLACE_PRIVATE), CT_PLACE_NOT_OURS);
            assert_int_equal(chmod(in("%s/%s", root, places[i]), 0700), 0);
        }
    assert_int_equal(try_open(in("%s/home/.cache/contrail", root), CT_PLACE_PRIVATE), 0);
    if (geteuid())
        return;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        assert_int_equal(chown(in("%s/%s", root, places[i]), OTHER, OTHER), 0);
        assert_int_equal(try_open(in("%s/home/.cache/contrail", root), CT_PLACE_PRIVATE), CT_PLACE_NOT_OURS);
        assert_int_equal(chown(in("%s/%s", root, places[i]), 0, 0), 0);
    }
    assert_int_equal(chown(in("%s/home", root), OTHER, OTHER), 0);
    assert_int_equal(try_open(in("%s/home/new", root), CT_PLACE_PRIVATE | CT_PLACE_MAKE), CT_PLACE_NOT_OURS);
    assert_false(is_there(in("%s/home/new", root)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_modes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_inherited_group_bit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_own_links, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links_where_others_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links_of_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files_are_not_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_find, setup, teardown),
        cmocka_unit_test_setup_teardown(test_moved_away, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unmake, setup, teardown),
        cmocka_unit_test_setup_teardown(test_private, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

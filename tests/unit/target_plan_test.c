/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of other processes: the same as a process makes for itself; everything in them leads where it should.
 * Arguments: subject programs (dynamic, fixed address, static, static-pie, stripped; with musl, dynamic and static). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "contrail/contrail.h"
#include "plan/target_internal.h"
#include "symbols/functions.h"
#include "target_util.h"

static const char *programs[8]; /* as the arguments name them */
enum { DYNAMIC, FIXED, STATIC, STATIC_PIE, STRIPPED, MUSL, MUSL_STATIC, PROGRAMS };

static const char *const libraries[] = {"libc.so.6", "libstdc++.so.6", "libcrypto.so.3", "libgcc_s.so.1", "libm.so.6"};
enum { LIBRARIES = sizeof libraries / sizeof libraries[0] };

static bool refuse_files; /* pretends that the files of modules cannot be had */
int __real_ct_remote_open_mapped(const struct ct_remote *remote, const struct ct_os_map *map);
int __wrap_ct_remote_open_mapped(const struct ct_remote *remote, const struct ct_os_map *map);
int __wrap_ct_remote_open_mapped(const struct ct_remote *remote, const struct ct_os_map *map) {
    return refuse_files ? CT_ERR_NOT_FOUND : __real_ct_remote_open_mapped(remote, map);
}

/* Pretends that stubs are so large that most do not fit their module's slot; that there is no place for stubs. */
static bool small_slots, no_place;
uint64_t __real_ct_target_slot_size(const struct ct_target_image *image);
uint64_t __wrap_ct_target_slot_size(const struct ct_target_image *image);
uint64_t __wrap_ct_target_slot_size(const struct ct_target_image *image) {
    uint64_t size = __real_ct_target_slot_size(image);
    return small_slots ? (size / 5 & ~63ull) : size;
}

uint64_t __real_ct_target_gap_find(const struct ct_target_maps *maps, uint64_t program_end, uint64_t start,
                                   uint64_t end, uint64_t reach, uint64_t size);
uint64_t __wrap_ct_target_gap_find(const struct ct_target_maps *maps, uint64_t program_end, uint64_t start,
                                   uint64_t end, uint64_t reach, uint64_t size);
uint64_t __wrap_ct_target_gap_find(const struct ct_target_maps *maps, uint64_t program_end, uint64_t start,
                                   uint64_t end, uint64_t reach, uint64_t size) {
    return no_place ? 0 : __real_ct_target_gap_find(maps, program_end, start, end, reach, size);
}

static struct target forked;

static void load_libraries(void) {
    for (int i = 0; i < LIBRARIES; i++)
        if (!dlopen(libraries[i], RTLD_NOW))
            print_message("%s is not there\n", libraries[i]);
}

static int start_forked(void **state) {
    (void)state;
    load_libraries();
    target_fork(&forked);
    return 0;
}

static int end_forked(void **state) {
    (void)state;
    target_end(&forked);
    return 0;
}

/* ---- a process like us ---- */

struct comparison {
    const struct ct_target_plan *plan;
    size_t seen, hooked;
    char difference[512];
};

static const struct ct_target_function *function_at(const struct ct_target_plan *plan, uint64_t address) {
    for (size_t i = 0; i < plan->module_count; i++) {
        const struct ct_target_module *m = &plan->modules[i];
        size_t low = 0, high = m->function_count;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (m->bias + m->functions[middle].offset < address)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < m->function_count && m->bias + m->functions[low].offset == address)
            return &m->functions[low];
    }
    return NULL;
}

/* False: they differ. A test fails when the transaction is over. */
static bool compare_function(struct comparison *c, const struct ct_hook_info *info) {
    const struct ct_target_function *f = function_at(c->plan, (uint64_t)info->function);
    if (!f || strcmp(f->name, info->name) || f->skip != info->skip || (!f->skip && f->entry_only != info->entry_only)) {
        snprintf(c->difference, sizeof c->difference, "%s at %p: %s from outside, %s from inside", info->name,
                 info->function, f ? ct_hook_skip_name(f->skip) : "unknown", ct_hook_skip_name(info->skip));
        return false;
    }
    /* of what is a function with an entry at all */
    c->seen += info->skip != CT_HOOK_SKIP_COLD && info->skip != CT_HOOK_SKIP_ODD_ENTRY &&
               info->skip != CT_HOOK_SKIP_FRAGMENT && info->skip != CT_HOOK_SKIP_PLT;
    c->hooked += info->hook >= 0;
    return true;
}

static void compare_library(const struct ct_target_plan *plan, const char *library) {
    struct comparison c = {.plan = plan};
    struct ct_hooks *hooks;
    assert_int_equal(ct_hooks_create(&hooks, NULL), 0);
    assert_int_equal(ct_hooks_begin(hooks), 0);
    const struct ct_hooks_module what = {.size = sizeof what, .module = library};
    assert_int_equal(ct_hooks_attach_module(hooks, &what), 0);
    struct ct_hook_info info = {.size = sizeof info};
    bool differs = false;
    for (uint64_t position = 0; !differs && ct_hooks_next(hooks, &position, &info) > 0;)
        differs = !compare_function(&c, &info);
    ct_hooks_abort(hooks);
    ct_hooks_destroy(hooks);
    if (differs)
        fail_msg("%s: %s", library, c.difference);
    if (c.seen < 50 || c.hooked * 100 < c.seen * 99)
        fail_msg("%s: only %zu of %zu functions are hooked", library, c.hooked, c.seen);
}

static void test_same_as_from_inside(void **state) {
    (void)state;
    struct ct_target_plan *plan = target_plan(&forked, NULL);
    for (int i = 0; i < LIBRARIES; i++)
        if (dlopen(libraries[i], RTLD_NOW | RTLD_NOLOAD))
            compare_library(plan, libraries[i]);
    ct_target_plan_free(plan);
}

static void test_everything_leads_where_it_should(void **state) {
    (void)state;
    struct ct_target_plan *plan = target_plan(&forked, NULL);
    assert_true(plan->hook_count > 5000);
    target_check(&forked, plan);
    ct_target_plan_free(plan);
}

static void test_special_functions(void **state) {
    (void)state;
    static const struct {
        const char *module, *name;
        enum ct_special special;
        enum ct_hook_entry_only_reason entry_only;
    } known[] = {
        {"libc.so.6", "prctl", CT_SPECIAL_SECCOMP, CT_HOOK_ENTRY_ONLY_NONE},
        {"libc.so.6", "syscall", CT_SPECIAL_SECCOMP, CT_HOOK_ENTRY_ONLY_NONE},
        {"libc.so.6", "vfork", CT_SPECIAL_VFORK, CT_HOOK_ENTRY_ONLY_RETURNS_TWICE},
        {"libc.so.6", "clone", CT_SPECIAL_CLONE, CT_HOOK_ENTRY_ONLY_NEW_THREAD},
        {"libgcc_s.so.1", "_Unwind_Backtrace", CT_SPECIAL_WALK, CT_HOOK_ENTRY_ONLY_UNWINDER},
        {"libgcc_s.so.1", "_Unwind_Resume", CT_SPECIAL_UNWIND, CT_HOOK_ENTRY_ONLY_UNWINDER},
        {"libgcc_s.so.1", "_Unwind_SetIP", CT_SPECIAL_LAND, CT_HOOK_ENTRY_ONLY_UNWINDER},
    };
    struct ct_target_plan *plan = target_plan(&forked, NULL);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct ct_target_hook *h = target_hook(plan, known[i].module, known[i].name);
        assert_non_null(h);
        assert_int_equal(h->special, known[i].special);
        assert_int_equal(h->entry_only, known[i].entry_only);
        assert_int_equal(h->action, CT_ACTION_RECORD);
        assert_true(h->service);
    }
    const struct ct_target_hook *plain = target_hook(plan, "libc.so.6", "qsort");
    assert_non_null(plain);
    assert_false(plain->service);
    assert_int_equal(plain->special, CT_SPECIAL_NONE);
    assert_int_equal(plan->get_cfa, (uint64_t)dlsym(RTLD_DEFAULT, "_Unwind_GetCFA"));
    ct_target_plan_free(plan);
}

/* ---- stub memory ---- */

static void test_stubs_that_do_not_fit(void **state) {
    (void)state;
    struct ct_target_plan *usual = target_plan(&forked, NULL);
    small_slots = true;
    struct ct_target_plan *plan = target_plan(&forked, NULL);
    small_slots = false;
    target_check(&forked, plan);
    assert_int_equal(plan->hook_count, usual->hook_count);
    for (size_t i = 0; i < plan->module_count; i++)
        for (int k = 0; k < CT_HOOK_SKIP_COUNT; k++)
            assert_int_equal(plan->modules[i].skipped[k], usual->modules[i].skipped[k]);
    ct_target_plan_free(plan);
    static const char *const only[] = {"str*", NULL};
    struct ct_target_plan_options options = {.filter = {.only = only}};
    small_slots = true;
    plan = target_plan(&forked, &options);
    small_slots = false;
    target_check(&forked, plan);
    ct_target_plan_free(plan);
    ct_target_plan_free(usual);
}

static void test_no_place_for_stubs(void **state) {
    (void)state;
    no_place = true;
    struct ct_target_plan *plan = target_plan(&forked, NULL);
    no_place = false;
    target_check(&forked, plan);
    assert_int_equal(plan->hook_count, 0);
    assert_int_equal(plan->region_count, 0);
    const struct ct_target_function *f = target_function(target_module(plan, "libc.so.6"), "qsort");
    assert_non_null(f);
    assert_int_equal(f->skip, CT_HOOK_SKIP_OUT_OF_REACH);
    ct_target_plan_free(plan);
}

/* Who only wants to know what functions there are gets all of them, as they are, and nothing to be patched. */
static void test_names_only(void **state) {
    (void)state;
    struct ct_target_plan_options options = {.names_only = true};
    struct ct_target_plan *all = target_plan(&forked, NULL), *plan = target_plan(&forked, &options);
    assert_int_equal(plan->hook_count + plan->region_count, 0);
    assert_int_equal(plan->module_count, all->module_count);
    for (size_t i = 0; i < all->module_count; i++) {
        const struct ct_target_module *m = &plan->modules[i], *same = &all->modules[i];
        assert_int_equal(m->table_hash, same->table_hash);
        assert_int_equal(m->function_count, same->function_count);
        assert_int_equal(m->skipped[CT_HOOK_SKIP_PLT], same->skipped[CT_HOOK_SKIP_PLT]);
        assert_int_equal(m->skipped[CT_HOOK_SKIP_COLD], same->skipped[CT_HOOK_SKIP_COLD]);
        assert_int_equal(m->skipped[CT_HOOK_SKIP_FRAGMENT], same->skipped[CT_HOOK_SKIP_FRAGMENT]);
        assert_int_equal(m->skipped[CT_HOOK_SKIP_ODD_ENTRY], same->skipped[CT_HOOK_SKIP_ODD_ENTRY]);
        for (size_t k = 0; k < m->function_count; k++) {
            assert_int_equal(m->functions[k].offset, same->functions[k].offset);
            assert_string_equal(m->functions[k].name, same->functions[k].name);
            assert_int_equal(m->functions[k].hook, -1);
        }
    }
    ct_target_plan_free(all);
    ct_target_plan_free(plan);
}

/* ---- filters ---- */

static void test_only(void **state) {
    (void)state;
    static const char *const only[] = {"qsor?", "*libm.so*", NULL}, *const exclude[] = {"cos*", NULL};
    struct ct_target_plan_options options = {.filter = {.only = only, .exclude = exclude}};
    struct ct_target_plan *plan = target_plan(&forked, &options);
    target_check(&forked, plan);
    assert_int_equal(target_hook(plan, "libc.so.6", "qsort")->action, CT_ACTION_RECORD);
    assert_null(target_hook(plan, "libc.so.6", "malloc"));
    assert_int_equal(target_function(target_module(plan, "libc.so.6"), "malloc")->skip, CT_HOOK_SKIP_FILTERED);
    assert_non_null(target_hook(plan, "libm.so.6", "fmaf"));
    assert_null(target_hook(plan, "libm.so.6", "cosh"));
    assert_int_equal(target_module(plan, "libc.so.6")->hooked, 1);
    /* the engine's own needs */
    const struct ct_target_hook *service = target_hook(plan, "libc.so.6", "vfork");
    assert_non_null(service);
    assert_int_equal(service->action, CT_ACTION_NONE);
    assert_true(service->service);
    assert_int_equal(target_function(target_module(plan, "libc.so.6"), "vfork")->skip, CT_HOOK_SKIP_FILTERED);
    ct_target_plan_free(plan);
}

static void test_exclude(void **state) {
    (void)state;
    static const char *const exclude[] = {"libcrypto*", "mem*", "/nowhere/*", NULL};
    struct ct_target_plan_options options = {.filter = {.exclude = exclude}};
    struct ct_target_plan *all = target_plan(&forked, NULL), *plan = target_plan(&forked, &options);
    target_check(&forked, plan);
    assert_int_equal(target_module(plan, "libcrypto.so.3")->hooked, 0);
    assert_null(target_hook(plan, "libc.so.6", "memfrob"));
    assert_non_null(target_hook(plan, "libc.so.6", "malloc"));
    assert_int_equal(target_module(plan, "libm.so.6")->hooked, target_module(all, "libm.so.6")->hooked);
    /* which functions there are does not depend on the filter */
    for (size_t i = 0; i < all->module_count; i++) {
        assert_int_equal(all->modules[i].table_hash, plan->modules[i].table_hash);
        assert_int_equal(all->modules[i].function_count, plan->modules[i].function_count);
    }
    ct_target_plan_free(plan);
    ct_target_plan_free(all);
}

/* ---- other programs ---- */

static struct ct_target_plan *plan_program(struct target *t, int which) {
    const char *arguments[] = {programs[which], NULL};
    target_start(t, programs[which], arguments);
    struct ct_target_plan *plan = target_plan(t, NULL);
    target_check(t, plan);
    return plan;
}

static void check_program(int which, size_t modules) {
    struct target t = {0};
    struct ct_target_plan *plan = plan_program(&t, which);
    const struct ct_target_module *m = &plan->modules[0];
    assert_int_equal(plan->module_count, modules);
    assert_string_equal(strrchr(m->path, '/'), strrchr(programs[which], '/'));
    assert_true(*m->build_id);
    for (size_t i = 0; i < plan->module_count; i++)
        assert_true(plan->modules[i].hooked * 100 >= plan->modules[i].function_count * 50);
    if (which != STRIPPED) {
        const struct ct_target_hook *h = target_hook(plan, m->path, "subject_recursion");
        assert_non_null(h);
        assert_int_equal(h->action, CT_ACTION_RECORD);
        /* argc is on top of the stack there */
        const struct ct_target_function *start = target_function(m, "_start");
        assert_true(start || which == MUSL || which == MUSL_STATIC); /* a mere label there */
        assert_true(!start || start->skip == CT_HOOK_SKIP_ODD_ENTRY);
        assert_true(!start || (start->flags & CT_FUNC_NO_RETURN_ADDRESS));
    }
    ct_target_plan_free(plan);
    target_end(&t);
}

static void test_dynamic_program(void **state) {
    (void)state;
    check_program(DYNAMIC, 3); /* and libc, and the loader */
}

static void test_program_at_fixed_address(void **state) {
    (void)state;
    check_program(FIXED, 3);
    /* with a second executable segment */
    struct target t = {0};
    struct ct_target_plan *plan = plan_program(&t, FIXED);
    const struct ct_target_hook *near = target_hook(plan, plan->modules[0].path, "subject_recursion"),
                                *far = target_hook(plan, plan->modules[0].path, "subject_far");
    assert_true(near && far);
    assert_int_equal(far->plan.function, 0x2000000);
    assert_true(near->plan.function < 0x1000000);
    ct_target_plan_free(plan);
    target_end(&t);
}

static void test_static_program(void **state) {
    (void)state;
    check_program(STATIC, 1);
}

static void test_static_pie(void **state) {
    (void)state;
    check_program(STATIC_PIE, 1);
}

static void test_stripped_program(void **state) {
    (void)state;
    check_program(STRIPPED, 3);
}

static void test_musl(void **state) {
    (void)state;
    if (!programs[MUSL])
        skip();
    check_program(MUSL, 2);
    check_program(MUSL_STATIC, 1);
}

/* Without files, what is in memory must do: no local names, but nearly as many functions. */
static void test_without_files(void **state) {
    (void)state;
    struct ct_target_plan *with = target_plan(&forked, NULL);
    refuse_files = true;
    struct ct_target_plan *without = target_plan(&forked, NULL);
    refuse_files = false;
    target_check(&forked, without);
    assert_int_equal(with->module_count, without->module_count);
    for (size_t i = 0; i < with->module_count; i++) {
        const struct ct_target_module *a = &with->modules[i], *b = &without->modules[i];
        assert_string_equal(a->path, b->path);
        assert_int_equal(a->bias, b->bias);
        assert_string_equal(a->build_id, b->build_id);
        /* Without a symbol table, functions without unwind information cannot be known: the C runtime's few. */
        if (b->hooked * 100 < a->hooked * 95)
            fail_msg("%s: %zu hooked with the file, %zu without", a->path, a->hooked, b->hooked);
    }
    assert_non_null(target_hook(without, "libc.so.6", "qsort"));
    assert_int_equal(with->get_cfa, without->get_cfa);
    ct_target_plan_free(with);
    ct_target_plan_free(without);
}

static void copy_file(const char *from, const char *to) {
    static char buffer[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    size_t size;
    assert_true(in && out);
    while ((size = fread(buffer, 1, sizeof buffer, in)) > 0)
        assert_int_equal(fwrite(buffer, 1, size, out), size);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

/* Another file has taken the place of the one that runs. */
static void test_replaced_program(void **state) {
    (void)state;
    char path[] = "/tmp/target_plan_XXXXXX", other[64];
    const char *arguments[] = {path, NULL};
    struct target t = {0};
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    copy_file(programs[DYNAMIC], path);
    snprintf(other, sizeof other, "%s.new", path);
    copy_file(programs[FIXED], other);
    assert_int_equal(chmod(path, 0700), 0);
    target_start(&t, path, arguments);
    struct ct_target_plan *before = target_plan(&t, NULL);
    assert_int_equal(rename(other, path), 0);
    struct ct_target_plan *after = target_plan(&t, NULL);
    target_check(&t, after);
    assert_int_equal(after->modules[0].bias, before->modules[0].bias);
    assert_string_equal(after->modules[0].build_id, before->modules[0].build_id);
    if (geteuid() == 0) /* others cannot open it any more: functions without unwind information are not known then */
        assert_true(after->modules[0].hooked * 10 >= before->modules[0].hooked * 8);
    ct_target_plan_free(before);
    ct_target_plan_free(after);
    target_end(&t);
    unlink(path);
}

/* ---- threads that are in the way ---- */

/* What asking every hook gives, around hooks of all kinds. */
static void check_places(const struct ct_target_plan *plan, uint64_t pc, size_t *moved) {
    uint64_t move = 0, move_in_call = 0;
    for (size_t i = 0; i < plan->hook_count; i++) {
        move = move ? move : ct_plan_moved(&plan->hooks[i].plan, pc, false);
        move_in_call = move_in_call ? move_in_call : ct_plan_moved(&plan->hooks[i].plan, pc, true);
    }
    assert_int_equal(ct_target_plan_moved(plan, pc, false), move);
    assert_int_equal(ct_target_plan_moved(plan, pc, true), move_in_call);
    *moved += move != 0;
}

static void test_places(void **state) {
    (void)state;
    struct ct_target_plan *plan = target_plan(&forked, NULL);
    size_t moved = 0, whole = 0;
    for (size_t i = 0; i < plan->hook_count; i++) {
        const struct ct_plan *p = &plan->hooks[i].plan;
        bool odd = p->patch_count > 1 || p->whole || p->patches[0].size == CT_TWO_JUMPS;
        if (!(odd && whole < 40) && i % 1000)
            continue;
        whole += odd;
        for (uint64_t pc = p->function; pc < p->function + (p->whole ? 40 : 12); pc++)
            check_places(plan, pc, &moved);
        for (unsigned k = 0; k < p->patch_count; k++) {
            check_places(plan, p->patches[k].at, &moved);
            check_places(plan, p->patches[k].at + CT_TWO_JUMPS / 2, &moved);
        }
    }
    if (moved < 20)
        fail_msg("only %zu moved", moved);
    assert_int_equal(ct_target_plan_moved(plan, 0, true), 0);
    assert_int_equal(ct_target_plan_moved(plan, UINT64_MAX, true), 0);
    ct_target_plan_free(plan);
}

/* ---- failures ---- */

static void test_process_that_has_ended(void **state) {
    (void)state;
    struct target t = {0};
    struct ct_target_plan *plan = NULL;
    struct ct_remote_error error = {{0}};
    target_fork(&t);
    struct ct_remote *remote = t.remote;
    t.remote = NULL;
    target_end(&t);
    assert_true(ct_target_plan_make(&plan, remote, NULL, &error) < 0);
    assert_null(plan);
    assert_true(*error.text);
    ct_remote_close(remote);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_from_inside),
        cmocka_unit_test(test_everything_leads_where_it_should),
        cmocka_unit_test(test_special_functions),
        cmocka_unit_test(test_stubs_that_do_not_fit),
        cmocka_unit_test(test_no_place_for_stubs),
        cmocka_unit_test(test_names_only),
        cmocka_unit_test(test_only),
        cmocka_unit_test(test_exclude),
        cmocka_unit_test(test_dynamic_program),
        cmocka_unit_test(test_program_at_fixed_address),
        cmocka_unit_test(test_static_program),
        cmocka_unit_test(test_static_pie),
        cmocka_unit_test(test_stripped_program),
        cmocka_unit_test(test_musl),
        cmocka_unit_test(test_without_files),
        cmocka_unit_test(test_replaced_program),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_process_that_has_ended),
    };
    for (int i = 0; i < PROGRAMS && i + 1 < argc; i++)
        programs[i] = argv[i + 1];
    return cmocka_run_group_tests_name("target_plan", tests, start_forked, end_forked);
}

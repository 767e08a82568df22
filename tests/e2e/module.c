/* SPDX-License-Identifier: Apache-2.0 */
/* Whole modules: every function of a library, of the program itself, chosen by a filter; what was skipped is listed
 * with its reason; listeners for a whole module. */
#include "harness.h"
#include "module_library.h"
#include "text.h"
#include <stdlib.h>
#include <string.h>

static E2E_FN int program_leaf(int x) {
    E2E_BARRIER();
    return x * 2;
}

static E2E_FN int program_work(int x) {
    int y = library_callback(program_leaf, x);
    E2E_BARRIER();
    return y + library_work(x);
}

/* ---- what was hooked ---- */

struct found {
    size_t hooked, skipped, filtered, named;
    uint64_t seen_names;
    const char *module;
};

static const char *const expected_names[] = {"inner", "other_inner", "library_work", "library_indirect",
                                             "library_callback"};

static void look_at(struct found *f, const struct ct_hook_info *info) {
    if (f->module && !strstr(info->module, f->module))
        return;
    f->hooked += info->hook >= 0;
    f->skipped += info->hook < 0;
    f->filtered += info->skip == CT_HOOK_SKIP_FILTERED;
    f->named += info->name[0] != 0;
    if (info->hook >= 0)
        e2e_name(info->hook, strdup(info->name));
    if ((info->hook >= 0) != (info->skip == CT_HOOK_SKIP_NONE))
        e2e_fail(__FILE__, __LINE__, "%s is hooked and skipped, or neither", info->name);
    if (info->hook < 0 && (!*ct_hook_skip_name(info->skip) || !*ct_hook_skip_text(info->skip)))
        e2e_fail(__FILE__, __LINE__, "%s has a reason without words", info->name);
    for (int i = 0; i < 5; i++)
        if (strcmp(info->name, expected_names[i]) == 0 && info->hook >= 0)
            f->seen_names |= 1u << i;
}

static struct found look(const char *module) {
    struct found f = {.module = module};
    struct ct_hook_info info = {.size = sizeof info};
    uint64_t position = 0;
    int status;
    while ((status = ct_hooks_next(e2e_hooks, &position, &info)) > 0)
        look_at(&f, &info);
    E2E_EQUAL(status, 0);
    return f;
}

/* Two walks at once do not disturb each other; the end stays the end; what is wrong is refused. */
static void check_walks(void) {
    struct ct_hook_info first = {.size = sizeof first}, second = first, none = {0};
    uint64_t a = 0, b = 0;
    E2E_EQUAL(ct_hooks_next(e2e_hooks, &a, &first), 1);
    E2E_EQUAL(ct_hooks_next(e2e_hooks, &a, &second), 1);
    E2E_CHECK(first.function != second.function);
    E2E_EQUAL(ct_hooks_next(e2e_hooks, &b, &second), 1);
    E2E_CHECK(first.function == second.function);
    while (ct_hooks_next(e2e_hooks, &b, &second) > 0)
        ;
    E2E_EQUAL(ct_hooks_next(e2e_hooks, &b, &second), 0);
    E2E_EQUAL(ct_hooks_next(e2e_hooks, &b, &none), CT_ERR_INVALID_ARGUMENT);
}

static void check_statistics(void) {
    struct ct_hooks_statistics s = {.size = sizeof s};
    struct found f = look(NULL);
    uint64_t sum = 0;
    ct_hooks_statistics(e2e_hooks, &s);
    E2E_EQUAL(s.hooked, f.hooked);
    E2E_EQUAL(s.skipped, f.skipped);
    for (int i = 0; i < CT_HOOK_SKIP_COUNT; i++)
        sum += s.skipped_by[i];
    E2E_EQUAL(sum, s.skipped);
}

static void restart(int argc, char **argv) {
    ct_hooks_destroy(e2e_hooks);
    e2e_begin(argc, argv);
}

static void check_library(void) {
    struct ct_hooks_module what = {.size = sizeof what, .module = "libe2e_module.so", .flavor = CT_HOOK_FLAVOR_RECORD};
    E2E_CHECK(ct_hooks_attach_module(e2e_hooks, &what) >= 0);
    struct found f = look("libe2e_module");
    E2E_EQUAL(f.seen_names, 31);
    check_walks();
    check_statistics();
    E2E_EQUAL(library_work(1), 4);
    E2E_EXPECT("library_work(inner() other_inner())");
    E2E_EQUAL(library_indirect(1), 2);
    E2E_EXPECT("library_indirect(inner())");
    E2E_EQUAL(program_work(3), 7 + 6);
    E2E_EXPECT("library_callback() library_work(inner() other_inner())");
}

static int only_inner(void *arg, const char *name, void *address, size_t size) {
    ++*(int *)arg;
    return address && size && strstr(name, "inner") != NULL;
}

static void check_filter(void) {
    int asked = 0;
    struct ct_hooks_module what = {.size = sizeof what,
                                   .module = "libe2e_module.so",
                                   .flavor = CT_HOOK_FLAVOR_RECORD,
                                   .filter = only_inner,
                                   .filter_arg = &asked};
    E2E_CHECK(ct_hooks_attach_module(e2e_hooks, &what) >= 0);
    struct found f = look("libe2e_module");
    E2E_EQUAL(f.hooked, 2);
    E2E_CHECK(f.filtered >= 3);
    E2E_CHECK(asked >= 5);
    E2E_EQUAL(library_work(1), 4);
    E2E_EXPECT("inner() other_inner()");
}

/* Listeners for all of it */
static int listened;
static void count_call(struct ct_cpu_context *cpu, struct ct_hook_call *call) {
    (void)cpu;
    ++*(int *)call->user;
}

static void check_listener(void) {
    const struct ct_hook_listener listener = {.size = sizeof listener, .on_call = count_call, .on_return = count_call};
    struct ct_hooks_module what = {.size = sizeof what,
                                   .module = "libe2e_module.so",
                                   .flavor = CT_HOOK_FLAVOR_LISTEN,
                                   .listener = &listener,
                                   .user = &listened};
    E2E_CHECK(ct_hooks_attach_module(e2e_hooks, &what) >= 0);
    listened = 0;
    E2E_EQUAL(library_work(1), 4);
    E2E_EQUAL(listened, 6);
}

/* The program itself, with harness and all. Its events are whatever they are; the two functions are among them. */
static void check_program(void) {
    struct ct_hooks_module what = {.size = sizeof what, .module = NULL, .flavor = CT_HOOK_FLAVOR_RECORD};
    E2E_CHECK(ct_hooks_attach_module(e2e_hooks, &what) >= 0);
    look(NULL);
    e2e_forget();
    E2E_EQUAL(program_work(3), 13);
    const char *tree = e2e_tree(0);
    E2E_CHECK(strstr(tree, "program_work(program_leaf())") != NULL);
}

/* In one transaction with other changes, aborted: as if nothing had been. */
static void check_aborted(void) {
    uint64_t before = text_fingerprint();
    struct ct_hooks_module what = {.size = sizeof what, .module = "libc.so.6", .flavor = CT_HOOK_FLAVOR_RECORD};
    E2E_EQUAL(ct_hooks_begin(e2e_hooks), 0);
    E2E_CHECK(ct_hooks_attach_module(e2e_hooks, &what) >= 0);
    E2E_CHECK(ct_hooks_record(e2e_hooks, (void *)program_leaf) >= 0);
    ct_hooks_abort(e2e_hooks);
    E2E_EQUAL(text_fingerprint(), before);
    E2E_EQUAL(program_work(3), 13);
    struct ct_hooks_statistics s = {.size = sizeof s};
    ct_hooks_statistics(e2e_hooks, &s);
    E2E_EQUAL(s.hooked, 0);
}

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    E2E_EQUAL(program_work(3), 13);
    if (e2e_plain())
        return e2e_end();
    uint64_t before = text_fingerprint();
    check_library();
    restart(argc, argv);
    E2E_EQUAL(text_fingerprint(), before);
    check_filter();
    restart(argc, argv);
    check_listener();
    restart(argc, argv);
    check_aborted();
    restart(argc, argv);
    check_program();
    restart(argc, argv);
    E2E_EQUAL(text_fingerprint(), before);
    return e2e_end();
}

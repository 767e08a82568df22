/* SPDX-License-Identifier: Apache-2.0 */
/* Runs every compiled form of compiled_subject.c, unhooked and hooked: equal results and equal call trees. The list of
 * forms is on the command line of this file's compilation: FORMS is X(gcc_O0) X(gcc_O1)... */
#include "harness.h"
#include <string.h>

/* clang-format off */
#define FUNCTIONS(X, form) \
    X(form, leaf) X(form, tail) X(form, floats) X(form, structs) X(form, recursive) X(form, switches) \
    X(form, loops) X(form, variadic) X(form, callback) X(form, stack_user) X(form, run)
/* clang-format on */

/* Only addresses matter, but for run. */
#define DECLARE(form, name) extern char form##_##name[];
#define DECLARE_FORM(form)  FUNCTIONS(DECLARE, form)
FORMS(DECLARE_FORM)

struct form {
    const char *name;
    struct {
        const char *name;
        char *address;
    } functions[11];
};

#define LIST(form, name) {#name, form##_##name},
#define LIST_FORM(form)  {#form, {FUNCTIONS(LIST, form)}},
static struct form forms[] = {FORMS(LIST_FORM)};
#define COUNT (sizeof forms / sizeof *forms)

static const char tree[] = "run(switches(leaf()) switches() switches(tail(leaf())) switches()"
                           "switches(recursive(recursive(recursive()))) switches()*3"
                           "floats() structs() loops() variadic() callback(leaf()*2) callback(tail(leaf())*2)"
                           "stack_user(leaf()))";

int main(int argc, char **argv) {
    e2e_begin(argc, argv);
    long expected = 0;
    for (size_t i = 0; i < COUNT; i++) {
        long (*run)(long) = (long (*)(long))(void *)forms[i].functions[10].address;
        long plain = run(11);
        if (i == 0)
            expected = plain;
        E2E_EQUAL(plain, expected);
        for (int k = 0; k < 11; k++)
            e2e_record(forms[i].functions[k].name, forms[i].functions[k].address);
        E2E_EQUAL(run(11), expected);
        bool before = e2e_passed();
        E2E_EXPECT(tree);
        if (before && !e2e_passed())
            fprintf(stderr, "  (compiled as %s)\n", forms[i].name);
    }
    printf("%zu forms\n", COUNT);
    return e2e_end();
}

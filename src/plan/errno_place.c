/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the C library of a target, and errno by it. See errno_place.h. */
#include "plan/errno_place.h"
#include "symbols/library_calls.h"
#include <contrail/status.h>
#include <string.h>

enum { CODE = 64, MOST_OFFSET = 1 << 30 };

static bool read_word(void *remote, uint64_t address, uint64_t *word) {
    return ct_remote_read(remote, address, word, sizeof *word) == 0;
}

static const struct ct_target_function *function_of(const struct ct_target_module *m) {
    for (size_t i = 0; i < m->function_count; i++)
        if (!strcmp(m->functions[i].name, "__errno_location") || !strcmp(m->functions[i].name, "___errno_location"))
            return &m->functions[i];
    return NULL;
}

/* The run address of the function, that of the C library where another module has one too; 0: there is none. */
static uint64_t find_function(const struct ct_target_plan *plan) {
    uint64_t found = 0;
    for (size_t i = 0; i < plan->module_count; i++) {
        const struct ct_target_module *m = &plan->modules[i];
        const struct ct_target_function *f = !found || ct_library_is_c(m->path) ? function_of(m) : NULL;
        if (!f)
            continue;
        found = m->bias + f->offset;
        if (ct_library_is_c(m->path))
            break;
    }
    return found;
}

void ct_errno_find(struct ct_target_plan *plan, struct ct_remote *remote) {
    uint8_t code[CODE];
    uint64_t at = find_function(plan);
    int64_t offset = 0;
    plan->errno_unknown = NULL;
    if (!at)
        plan->errno_unknown = "no module has a function __errno_location";
    else if (!ct_remote_read(remote, at, code, sizeof code))
        offset = ct_errno_follow(code, sizeof code, at, read_word, remote);
    if (at && (!offset || offset % 4 || offset > MOST_OFFSET || offset < -MOST_OFFSET)) {
        plan->errno_unknown = "the code of __errno_location is not understood";
        offset = 0;
    }
    plan->errno_offset = offset;
}

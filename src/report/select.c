/* SPDX-License-Identifier: Apache-2.0 */
/* Which threads and functions the user asked for. */
#include "report/select.h"
#include "symbols/name_match.h"
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

bool ct_select_by(const char *const *globs, const char *text) {
    if (!globs)
        return true;
    for (; *globs; globs++)
        if (!fnmatch(*globs, text, 0))
            return true;
    return false;
}

bool ct_select_function(const char *const *globs, const struct ct_trace_function *function) {
    return !globs || ct_select_by(globs, function->name) || ct_name_fits(globs, function->linkage_name);
}

bool ct_select_thread(const struct ct_select *select, const struct ct_trace_thread *thread) {
    if (!select->threads)
        return true;
    for (const char *const *word = select->threads; *word; word++) {
        bool number = **word && strspn(*word, "0123456789") == strlen(*word);
        if (number && strtoull(*word, NULL, 10) == thread->tid)
            return true;
        if (!fnmatch(*word, thread->name, 0))
            return true;
    }
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the user asked for: see select.h. */
#include "report/select.h"
#include "symbols/name_match.h"
#include "trace/reader.h"
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

bool ct_select_numbered(const char *const *words, uint64_t number, const char *name) {
    if (!words)
        return true;
    for (const char *const *word = words; *word; word++) {
        bool is_number = **word && strspn(*word, "0123456789") == strlen(*word);
        if (is_number && strtoull(*word, NULL, 10) == number)
            return true;
        if (!fnmatch(*word, name, 0))
            return true;
    }
    return false;
}

bool ct_select_process(const struct ct_select *select, const struct ct_trace *trace, size_t process) {
    return !select->processes ||
           ct_select_numbered(select->processes, (uint64_t)ct_trace_process_at(trace, process)->pid,
                              ct_trace_program(trace, process));
}

bool ct_select_thread(const struct ct_select *select, const struct ct_trace *trace, size_t thread) {
    const struct ct_trace_thread *info = ct_trace_thread_at(trace, thread);
    return ct_select_numbered(select->threads, info->tid, info->name) &&
           ct_select_process(select, trace, info->process);
}

/* Which threads and functions the user asked for. */
#include "report/select.h"
#include "symbols/demangle.h"
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
    if (!globs || ct_select_by(globs, function->name) ||
        (*function->linkage_name && ct_select_by(globs, function->linkage_name)))
        return true;
    /* Where names are shown mangled, globs on others fit all the same. */
    char *display = strcmp(function->name, function->linkage_name) ? NULL : ct_demangle(function->name);
    const char *name = display ? display : function->name;
    size_t start, length = ct_demangled_base(name, &start);
    char *base = strndup(name + start, length);
    bool fits = (display && ct_select_by(globs, display)) || (base && ct_select_by(globs, base));
    free(base);
    free(display);
    return fits;
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

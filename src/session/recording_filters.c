/* SPDX-License-Identifier: Apache-2.0 */
/* Globs of --only and --exclude that fit nothing in the process, for the user. They stay in force: a library that is
 * loaded later may have such a function. */
#include "plan/hot.h"
#include "session/recording.h"
#include "session/recording_policy.h"
#include "symbols/name_match.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_GLOB 100 /* characters that are shown */
#define LAST_PART    96  /* bytes of the sentence's end */

/* Globs that fit nothing so far: first those of --only, then those of --exclude. */
struct idle_globs {
    const char **globs; /* NULL-terminated */
    size_t count, only;
};

static size_t count_globs(const char *const *globs) {
    size_t count = 0;
    while (globs && globs[count])
        count++;
    return count;
}

static void remove_glob(struct idle_globs *idle, size_t i) {
    idle->only -= i < idle->only;
    memmove(&idle->globs[i], &idle->globs[i + 1], (idle->count - i) * sizeof *idle->globs);
    idle->count--;
}

static void try_module(struct idle_globs *idle, const char *path) {
    for (size_t i = idle->count; i-- > 0;)
        if (ct_policy_fits_module(idle->globs[i], path))
            remove_glob(idle, i);
}

/* Most names fit none: a name is demangled once, for all globs together. */
static void try_function(struct idle_globs *idle, const char *name) {
    if (!ct_name_fits(idle->globs, name))
        return;
    for (size_t i = idle->count; i-- > 0;)
        if (ct_name_fits((const char *[]){idle->globs[i], NULL}, name))
            remove_glob(idle, i);
}

static void try_modules(struct idle_globs *idle, const struct ct_target_plan *plan) {
    for (size_t i = 0; i < plan->module_count; i++)
        try_module(idle, plan->modules[i].path);
    for (size_t i = 0; i < plan->module_count; i++)
        for (size_t k = 0; k < plan->modules[i].function_count && idle->count; k++)
            try_function(idle, plan->modules[i].functions[k].name);
}

/* One sentence with as many globs as it has room for. */
static void put_sentence(const struct idle_globs *idle, char *text, size_t size) {
    size_t used = 0, i = 0;
    for (; i < idle->count && used + LONGEST_GLOB + LAST_PART + 16 < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s '%.*s'", i ? ", " : "",
                                 i < idle->only ? "--only" : "--exclude", LONGEST_GLOB, idle->globs[i]);
    if (i < idle->count)
        used += (size_t)snprintf(text + used, size - used, " and %zu more", idle->count - i);
    if (idle->count)
        snprintf(text + used, size - used, " %s no function so far; %s for libraries to come",
                 idle->count == 1 ? "fits" : "fit", idle->count == 1 ? "it stays" : "they stay");
}

void ct_recording_note_filters(struct ct_recording *r) {
    const struct ct_session_options *o = &r->session->options;
    size_t only = count_globs(o->only), count = only + count_globs(o->exclude);
    struct idle_globs idle = {.globs = calloc(count + 1, sizeof *idle.globs), .count = count, .only = only};
    r->session->idle_filters[0] = 0;
    if (!idle.globs)
        return;
    for (size_t i = 0; i < count; i++)
        idle.globs[i] = i < only ? o->only[i] : o->exclude[i - only];
    for (size_t i = count; i-- > only;) /* of @hot, no program has all */
        if (ct_hot_is_glob(idle.globs[i]))
            remove_glob(&idle, i);
    try_modules(&idle, r->plan);
    put_sentence(&idle, r->session->idle_filters, sizeof r->session->idle_filters);
    free(idle.globs);
}

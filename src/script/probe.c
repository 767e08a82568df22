/* SPDX-License-Identifier: Apache-2.0 */
/* See probe.h. To the recording's agent the probes are a script beside the recording whose listeners are all native. */
#include "script/probe.h"
#include "base/grow.h"
#include "script/script_guest.h"
#include "session/policy.h"
#include "symbols/functions.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTER     "ct_probe_enter_"
#define LEAVE     "ct_probe_leave_"
#define MOST_NAME 512u

struct ct_probes {
    struct ct_script *script;
    struct ct_script_hook *hooks; /* by address */
    size_t hook_count, hook_room;
};

/* As the C code has it (bindings/node/include/contrail/probe.h). */
struct probe {
    uint64_t functions, listener;
};

static bool is_named(const char *name, const char *prefix) {
    return !strncmp(name, prefix, strlen(prefix));
}

/* ---- which functions ---- */

static int by_address(const void *a, const void *b) {
    const struct ct_script_hook *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static int listen(struct ct_probes *p, uint64_t address, const struct probe *probe, bool enter, const char *name) {
    const struct ct_script_hook wanted = {.address = address};
    struct ct_script_hook *h =
        p->hook_count ? bsearch(&wanted, p->hooks, p->hook_count, sizeof wanted, by_address) : NULL;
    if (!h) {
        if (!ct_grow(&p->hooks, &p->hook_room, p->hook_count, sizeof *p->hooks, 64))
            return CT_ERR_NO_MEMORY;
        size_t at = p->hook_count++;
        for (; at && p->hooks[at - 1].address > address; at--)
            p->hooks[at] = p->hooks[at - 1];
        p->hooks[at] = wanted;
        h = &p->hooks[at];
    }
    uint64_t *place = enter ? &h->native_enter : &h->native_leave;
    if (*place && *place != probe->listener)
        return ct_script_fail(p->script, CT_ERR_ALREADY_HOOKED,
                              "--probe: two listeners want to hear when %s %s: one of them is possible", name,
                              enter ? "is called" : "returns");
    *place = probe->listener;
    return 0;
}

static int listen_in(struct ct_probes *p, const struct ct_target_module *m, const char *functions,
                     const struct probe *probe, bool enter, size_t *found) {
    const char *mark = strchr(functions, '!');
    char module[MOST_NAME];
    int status = 0;
    snprintf(module, sizeof module, "%.*s", mark ? (int)(mark - functions) : 0, functions);
    for (size_t i = 0; !status && i < m->function_count; i++) {
        const struct ct_target_function *f = &m->functions[i];
        uint64_t address = m->bias + f->offset;
        if (!f->name[0] || (f->flags & CT_FUNC_PLT) ||
            !ct_policy_fits(module, mark ? mark + 1 : functions, f->name, m->path) ||
            !ct_script_guest_records(p->script, address))
            continue;
        ++*found;
        status = listen(p, address, probe, enter, f->name);
    }
    return status;
}

/* "GLOB" or "MODULE!GLOB", among what is loaded and recorded. */
static int listen_to(struct ct_probes *p, const char *file, const char *functions, const struct probe *probe,
                     bool enter) {
    struct ct_script *s = p->script;
    size_t found = 0;
    int status = 0;
    for (size_t k = 0; k < s->plan_count; k++)
        for (size_t i = 0; !status && i < s->plans[k].plan->module_count; i++)
            status = listen_in(p, &s->plans[k].plan->modules[i], functions, probe, enter, &found);
    if (status || found)
        return status;
    return ct_script_fail(s, CT_ERR_NOT_FOUND,
                          "--probe: %s listens to \"%s\", but no function that is recorded has such a name; `contrail "
                          "modules PID --functions` lists functions",
                          file, functions);
}

static int connect_one(struct ct_probes *p, const char *file, const char *name, uint64_t address) {
    bool enter = is_named(name, ENTER);
    char functions[MOST_NAME] = "";
    struct probe probe;
    if (!enter && !is_named(name, LEAVE))
        return 0;
    int status = ct_script_read(p->script, address, &probe, sizeof probe);
    if (!status && ct_script_read_some(p->script, probe.functions, functions, sizeof functions - 1) <= 0)
        status = CT_ERR_BAD_FILE;
    return status ? status : listen_to(p, file, functions, &probe, enter);
}

static int load(struct ct_probes *p, const struct ct_probe_code *code) {
    struct ct_script_object *object;
    size_t probes = 0;
    uint64_t address;
    int status = ct_script_load(p->script, code->bytes, code->size, NULL, 0, &object);
    if (status)
        return status;
    for (size_t i = 0; !status; i++) {
        const char *name = ct_script_object_next(object, i, &address);
        if (!name)
            break;
        probes += is_named(name, ENTER) || is_named(name, LEAVE);
        status = connect_one(p, code->file, name, address);
    }
    (void)ct_script_unload(p->script, object);
    if (!status && !probes)
        status = ct_script_fail(p->script, CT_ERR_NOT_FOUND,
                                "--probe: %s listens to nothing: it has neither CT_ON_ENTER nor CT_ON_LEAVE of "
                                "contrail/probe.h",
                                code->file);
    return status;
}

static int hook(struct ct_probes *p) {
    int installed = ct_script_hook(p->script, p->hooks, p->hook_count);
    if (installed < 0)
        return installed;
    for (size_t i = 0; i < p->hook_count; i++)
        if (p->hooks[i].status)
            return p->hooks[i].status;
    return 0;
}

/* ---- the whole ---- */

int ct_probes_begin(struct ct_probes **out, struct ct_remote *remote, const struct ct_probe_code *codes, size_t count,
                    char *error, size_t error_size) {
    struct ct_probes *p = calloc(1, sizeof *p);
    snprintf(error, error_size, "%s", ct_status_text(CT_ERR_NO_MEMORY));
    if (!p)
        return CT_ERR_NO_MEMORY;
    int status = ct_script_join(&p->script, remote, error, error_size);
    if (status) {
        free(p);
        return status;
    }
    for (size_t i = 0; !status && i < count; i++)
        status = load(p, &codes[i]);
    if (!status)
        status = hook(p);
    if (!status) {
        *out = p;
        return 0;
    }
    ct_script_error(p->script, error, error_size);
    if (!error[0])
        snprintf(error, error_size, "--probe: %s", ct_status_text(status));
    ct_probes_end(p);
    return status;
}

size_t ct_probes_functions(const struct ct_probes *p) {
    return p->hook_count;
}

const char *ct_probes_counter(struct ct_probes *p, size_t index, uint64_t *value) {
    return ct_script_counter(p->script, index, value);
}

void ct_probes_end(struct ct_probes *p) {
    ct_script_abandon(p->script);
    free(p->hooks);
    free(p);
}

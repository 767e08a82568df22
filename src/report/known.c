/* Functions of a trace, looked up once. */
#include "report/known.h"
#include <stdio.h>

static void learn(const struct ct_known_table *t, struct ct_known *k) {
    uint64_t id = k->key.function;
    const struct ct_trace_function *f = ct_trace_function(t->trace, k->key.process, id);
    if (!f)
        snprintf(k->made_name, sizeof k->made_name, "function_%u_%u", (unsigned)(id >> 32), (unsigned)id);
    k->function = f;
    k->name = f ? f->name : k->made_name;
    k->module = f ? f->module : "";
    k->entry_only = f && f->entry_only;
    k->function_fits = f ? ct_select_function(t->select->functions, f) : ct_select_by(t->select->functions, k->name);
    k->module_fits = ct_select_by(t->select->modules, k->module);
}

const struct ct_known *ct_known_get(struct ct_known_table *t, size_t process, uint64_t function) {
    struct ct_known *known = ct_table_get(&t->table, process, function, sizeof *known);
    if (known && !known->name)
        learn(t, known);
    return known;
}

void ct_known_free(struct ct_known_table *t) {
    ct_table_free(&t->table, NULL);
}

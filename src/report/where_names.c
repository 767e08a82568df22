/* SPDX-License-Identifier: Apache-2.0 */
/* Names that a condition takes for arguments: which functions have such parameters. */
#include "isa/machine.h"
#include "report/where_internal.h"
#include "trace/reader.h"
#include <string.h>

struct search {
    struct ct_argument_reader *reader;
    struct ct_trace *trace;
    const struct ct_select *select;
    const char *name;
};

/* Of any machine: without debug information arguments have the names of registers. */
static bool is_register(const char *name) {
    for (unsigned arch = 0; arch <= UINT8_MAX; arch++) {
        const struct ct_machine *machine = ct_machine_by_arch((uint8_t)arch);
        for (size_t i = 0; machine && i < machine->argument_count; i++)
            if (!strcmp(machine->registers[machine->call[i]], name))
                return true;
    }
    return false;
}

static bool module_has(const struct search *s, size_t process, struct ct_symbols *symbols,
                       const struct ct_symbols_module *module) {
    for (uint64_t i = 0; i < module->functions; i++) {
        uint64_t id = (uint64_t)module->id << 32 | i;
        if (ct_symbols_is_skipped(symbols, id))
            continue;
        const struct ct_trace_function *function = ct_symbols_find(symbols, id);
        if (function && ct_select_function(s->select->functions, function) &&
            ct_select_by(s->select->modules, function->module) &&
            ct_argument_reader_has(s->reader, process, id, s->name))
            return true;
    }
    return false;
}

static bool any_has(const struct search *s) {
    for (size_t p = 0; p < ct_trace_process_count(s->trace); p++) {
        struct ct_symbols *symbols = ct_select_process(s->select, s->trace, p) ? ct_trace_symbols(s->trace, p) : NULL;
        for (size_t m = 0; symbols && m < ct_symbols_module_count(symbols); m++) {
            struct ct_symbols_module module = ct_symbols_module_at(symbols, m);
            if (module_has(s, p, symbols, &module))
                return true;
        }
    }
    return false;
}

int ct_where_find_stranger(const struct ct_where *w, struct ct_trace *trace, const struct ct_select *select,
                           const char *const *directories, const char **name) {
    struct search s = {.trace = trace, .select = select};
    *name = NULL;
    if (!w || !w->bare_count)
        return 0;
    int status = ct_argument_reader_open(&s.reader, trace, directories);
    for (size_t i = 0; !status && !*name && i < w->count; i++) {
        const struct ct_where_node *n = &w->nodes[i];
        s.name = n->argument;
        if (n->kind == CT_WHERE_COMPARE && n->bare && !is_register(s.name) && !any_has(&s))
            *name = s.name;
    }
    ct_argument_reader_close(s.reader);
    return status;
}

const char *ct_where_field_name(const void *arg, size_t i) {
    static const char *const names[] = {
#define NAME(name, text, kind) text,
        CT_WHERE_FIELD_LIST(NAME)
#undef NAME
    };
    (void)arg;
    return i < sizeof names / sizeof *names ? names[i] : NULL;
}

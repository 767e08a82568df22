/* SPDX-License-Identifier: Apache-2.0 */
/* `contrail info --skipped`: the name of each function that has no hook, and why. The manifest has the numbers, the
 * symbols file the names; what only the manifest has is reported as a number. */
#include "cli/info_skipped.h"
#include "base/json_write.h"
#include "trace/reader.h"
#include <inttypes.h>

enum { REASON = 14 }; /* width */

/* One list: functions, or parts of functions. */
struct list {
    const struct ct_trace *trace;
    const struct ct_info *info;
    size_t process;
    bool parts;
};

typedef void each_function(void *arg, const struct ct_info_module *module, const struct ct_trace_function *function);

/* Calls `each` for the list's functions of a module, by address. Returns how many there are. */
static uint64_t walk_module(const struct list *list, const struct ct_info_module *m, each_function *each, void *arg) {
    struct ct_symbols *symbols = ct_trace_symbols(list->trace, list->process);
    uint64_t count = 0, end = ct_symbols_module_of(symbols, m->module->id).functions;
    for (uint64_t i = 0; i < end; i++) {
        uint64_t id = (uint64_t)m->module->id << 32 | i;
        const struct ct_trace_function *f = ct_symbols_is_skipped(symbols, id) ? ct_symbols_find(symbols, id) : NULL;
        if (!f || ct_info_reason_is_part(f->skip) != list->parts)
            continue;
        each(arg, m, f);
        count++;
    }
    return count;
}

/* Returns how many functions the manifest counts and the symbols file does not name. */
static uint64_t walk(const struct list *list, each_function *each, void *arg) {
    uint64_t named = 0, all = list->parts ? list->info->parts : list->info->skipped;
    for (size_t i = 0; i < list->info->module_count; i++)
        named += walk_module(list, &list->info->modules[i], each, arg);
    return all > named ? all - named : 0;
}

static void print_function(void *arg, const struct ct_info_module *m, const struct ct_trace_function *f) {
    struct ct_printer *printer = arg;
    (void)m;
    if (!ct_printer_wanted(printer))
        return;
    ct_printer_text(printer, "  ");
    size_t took = ct_printer_name(printer, f->skip, 0);
    ct_printer_spaces(printer, took < REASON ? REASON - took : 0);
    ct_printer_format(printer, "  %8" PRIx64 "  %6" PRIu64 "  ", f->offset, f->length);
    ct_printer_name(printer, f->name, 0);
    ct_printer_text(printer, " [");
    ct_printer_name(printer, f->module, 0);
    ct_printer_text(printer, "]\n");
}

static void print_list(struct ct_printer *printer, const struct list *list, const char *title) {
    char text[CT_TEXT_SIZE];
    uint64_t all = list->parts ? list->info->parts : list->info->skipped;
    ct_printer_colour(printer, CT_COLOUR_BOLD);
    ct_printer_format(printer, "%s (%s)\n", title, ct_text_count(text, all));
    ct_printer_colour(printer, CT_COLOUR_PLAIN);
    if (all)
        ct_printer_format(printer, "  %-*s  %8s  %6s  %s\n", REASON, "REASON", "OFFSET", "SIZE", "FUNCTION");
    uint64_t missing = walk(list, print_function, printer);
    if (missing)
        ct_printer_format(printer, "  and %s more, which the trace does not name\n", ct_text_count(text, missing));
}

/* Each reason of the lists once. */
static void print_reasons(struct ct_printer *printer, const struct ct_info *info) {
#define ROW(reason, sentence) {#reason, sentence},
    static const struct { const char *name, *text; } rows[] = {CT_HOOK_SKIP_LIST(ROW)};
#undef ROW
    if (info->skipped || info->parts)
        ct_printer_text(printer, "\n");
    for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++)
        if (ct_info_reason_count(info, rows[n].name))
            ct_printer_format(printer, "%s: %s\n", rows[n].name, rows[n].text);
}

void ct_info_skipped_print(struct ct_printer *printer, const struct ct_trace *trace, const struct ct_info *info,
                           size_t process) {
    ct_printer_format(printer, "Process %d: ", info->process->pid);
    ct_printer_name(printer, info->command_line, 0);
    ct_printer_text(printer, "\n");
    print_list(printer, &(struct list){trace, info, process, false}, "Functions not hooked");
    ct_printer_text(printer, "\n");
    print_list(printer, &(struct list){trace, info, process, true}, "Not functions, so not hooked and not counted");
    print_reasons(printer, info);
}

static void function_json(void *arg, const struct ct_info_module *m, const struct ct_trace_function *f) {
    struct ct_json *json = arg;
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "module", m->module->path);
    ct_json_string(json, "name", f->name);
    ct_json_number(json, "id", f->id);
    ct_json_number(json, "offset", f->offset);
    ct_json_number(json, "size", f->length);
    ct_json_string(json, "reason", f->skip);
    ct_json_string(json, "text", ct_info_reason_text(f->skip));
    ct_json_end(json, '}');
}

void ct_info_skipped_json(struct ct_json *json, const struct ct_trace *trace, const struct ct_info *info,
                          size_t process) {
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "directory", info->process->directory);
    ct_json_signed(json, "pid", info->process->pid);
    ct_json_string(json, "command_line", info->command_line);
    ct_json_begin(json, "skipped", '[');
    uint64_t unnamed = walk(&(struct list){trace, info, process, false}, function_json, json);
    ct_json_end(json, ']');
    ct_json_number(json, "skipped_unnamed", unnamed);
    ct_json_begin(json, "parts", '[');
    unnamed = walk(&(struct list){trace, info, process, true}, function_json, json);
    ct_json_end(json, ']');
    ct_json_number(json, "parts_unnamed", unnamed);
    ct_json_end(json, '}');
}

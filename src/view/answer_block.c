/* SPDX-License-Identifier: Apache-2.0 */
/* /api/block: the instructions of one block that followed threads have executed. They are read from the module's file,
 * which must be the one that was recorded: it has the build-id that the trace has. */
#include "report/blocks.h"
#include "report/disasm.h"
#include "symbols/debug_file.h"
#include "symbols/lookup.h"
#include "trace/reader.h"
#include "view/answer.h"
#include <contrail/status.h>
#include <stdio.h>
#include <string.h>

enum { MOST_INSTRUCTIONS = 4096, MOST_BYTES = 64 << 10, MOST_INSTRUCTION = 16 };
#define CACHE_BYTES (1u << 16)

struct listing {
    struct ct_view_answer *a;
    const struct ct_block_row *row;
    struct ct_lookup *lookup;
    struct ct_lookup_module *module;
    struct ct_debug_file file;
    bool has_file, has_lines; /* has_lines: those of the file may be believed */
    uint64_t lines;           /* instructions with a line */
    char problem[512];
};

static void set_problem(struct listing *l, const char *text) {
    if (!l->problem[0])
        snprintf(l->problem, sizeof l->problem, "%s", text);
}

/* ---- the code ---- */

/* The file may have been exchanged since the lookup has seen it. */
static bool is_the_same(const struct listing *l, const char *build_id) {
    char found[CT_BUILD_ID_TEXT];
    ct_elf_build_id(&l->file.elf, found);
    return strcmp(found, build_id) == 0;
}

static void open_file(struct listing *l, const char *build_id) {
    enum ct_lookup_state state = ct_lookup_module_state(l->module);
    l->has_file = state == CT_LOOKUP_FOUND && ct_debug_file_map(&l->file, ct_lookup_module_file(l->module));
    if (state == CT_LOOKUP_OTHER_FILE || (l->has_file && !is_the_same(l, build_id)))
        set_problem(l, "The module's file has another build-id than the trace: it has changed since, so instructions "
                       "are not known.");
    else if (!l->has_file)
        set_problem(l, "The module's file is not here or cannot be read, so instructions are not known.");
}

static void check_machine(struct listing *l) {
    const char *missing = ct_disasm_missing(l->file.elf.machine);
    char text[256];
    if (!missing)
        return;
    snprintf(text, sizeof text, "The text of instructions needs %s.", missing);
    set_problem(l, text);
}

/* Finds the code; empty after a problem. */
static struct ct_span find_code(struct listing *l, const struct ct_symbols_module *m) {
    struct ct_span none = {0};
    open_file(l, m->build_id);
    if (!l->problem[0])
        check_machine(l);
    if (l->problem[0])
        return none;
    struct ct_span code = ct_elf_at(&l->file.elf, l->row->offset);
    if (code.size < l->row->size)
        set_problem(l, "The module's file does not have all of this code.");
    l->has_lines = *m->build_id || ct_lookup_has_function(l->lookup, l->module, l->row->offset - l->row->into);
    if (!*m->build_id)
        set_problem(l, "The module has no build-id: its file may have changed since.");
    code.size = code.size < l->row->size ? code.size : l->row->size;
    return code;
}

/* ---- writing ---- */

static void put_instruction(struct listing *l, uint64_t address, const uint8_t *bytes, size_t length,
                            const char *text) {
    struct ct_json *json = &l->a->json;
    char hex[2 * MOST_INSTRUCTION + 1] = "";
    for (size_t i = 0; i < length && i < MOST_INSTRUCTION; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    const char *line = l->has_lines ? ct_lookup_line_at(l->lookup, l->module, address) : "";
    l->lines += *line != 0;
    ct_json_begin(json, NULL, '{');
    ct_json_number(json, "address", address);
    ct_json_string(json, "bytes", hex);
    ct_json_string(json, "text", text);
    if (*line)
        ct_json_string(json, "line", line);
    else
        ct_json_null(json, "line");
    ct_json_end(json, '}');
}

static void put_code(struct listing *l, struct ct_span code) {
    char text[CT_INSN_TEXT_MAX];
    size_t at = 0, count = 0;
    for (size_t length; at < code.size && count < MOST_INSTRUCTIONS && at + MOST_INSTRUCTION <= MOST_BYTES;
         at += length, count++) {
        const uint8_t *bytes = code.data + at;
        length = ct_disasm_text(l->file.elf.machine, bytes, code.size - at, l->row->offset + at, text);
        if (!length) {
            set_problem(l, "What follows is no instruction that is known.");
            return;
        }
        put_instruction(l, l->row->offset + at, bytes, length, text);
    }
    if (at < code.size)
        set_problem(l, "The block is too large to be shown: only its beginning is here.");
}

static void explain_lines(struct listing *l) {
    const char *why = ct_lookup_module_problem(l->module);
    char text[256];
    if (l->lines)
        return;
    snprintf(text, sizeof text, "Source lines are not known: %s.",
             *why ? why : "the module has no debug information for this code, or it is not here");
    set_problem(l, text);
}

static void put_instructions(struct listing *l) {
    const struct ct_block_row *row = l->row;
    struct ct_symbols_module m = ct_symbols_module_of(ct_trace_symbols(l->a->reader->trace, row->process), row->module);
    if (!row->module || !m.path) {
        set_problem(l, "The code is of no file, so its instructions are not known.");
        return;
    }
    l->lookup = ct_lookup_create(
        &(struct ct_lookup_options){.directories = l->a->view->options.directories, .cache_bytes = CACHE_BYTES});
    l->module = l->lookup ? ct_lookup_module(l->lookup, m.path, m.build_id) : NULL;
    if (!l->module) {
        ct_view_fail(l->a, CT_ERR_NO_MEMORY);
        return;
    }
    put_code(l, find_code(l, &m));
    explain_lines(l);
}

static void put_block(struct ct_view_answer *a, const struct ct_block_row *row, uint64_t count) {
    struct listing l = {.a = a, .row = row};
    ct_json_begin(&a->json, "instructions", '[');
    put_instructions(&l);
    ct_json_end(&a->json, ']');
    ct_json_string(&a->json, "function", strlen(row->name) <= CT_VIEW_NAME ? row->name : "(a very long name)");
    ct_json_number(&a->json, "into", row->into);
    ct_json_number(&a->json, "count", count);
    if (l.problem[0])
        ct_json_string(&a->json, "problem", l.problem);
    else
        ct_json_null(&a->json, "problem");
    if (l.has_file)
        ct_debug_file_close(&l.file);
    ct_lookup_destroy(l.lookup);
}

/* ---- which one ---- */

static bool is_asked_for(const struct ct_view_answer *a, const struct ct_block_row *row) {
    return ct_view_number(a, "process", 1) == row->process + 1 && ct_view_number(a, "module", 0) == row->module &&
           ct_view_number(a, "address", UINT64_MAX) == row->offset && ct_view_number(a, "size", 0) == row->size;
}

void ct_view_answer_block(struct ct_view_answer *a) {
    struct ct_block_report *report = NULL;
    const struct ct_block_row *found = NULL;
    uint64_t count = 0;
    int status = ct_block_report_make(&report, a->reader->trace, &(struct ct_block_options){0});
    if (status) {
        ct_view_fail(a, status);
        return;
    }
    for (size_t i = 0; i < report->row_count; i++)
        if (is_asked_for(a, &report->rows[i])) {
            found = found ? found : &report->rows[i];
            count += report->rows[i].count;
        }
    if (found)
        put_block(a, found, count);
    else
        ct_view_refuse(a, 404, "there is no such block");
    ct_block_report_free(report);
}

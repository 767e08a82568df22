/* SPDX-License-Identifier: Apache-2.0 */
/* contrail symbolize: fills in names, source lines and inlined functions of a trace that was recorded without them. */
#include "cli/command.h"
#include "cli/reading.h"
#include "cli/rights.h"
#include "trace/symbolize.h"
#include "base/json_write.h"
#include <string.h>

struct options {
    struct ct_option_list directories;
    uint64_t cache;
    bool inlines, verbose, json, unfinished;
};

struct view {
    const struct options *options;
    struct ct_json *json; /* NULL: text */
    int pid;
    uint64_t mismatches;
};

/* ---- modules ---- */

static const char *state_name(enum ct_lookup_state state) {
    static const char *const names[] = {
        [CT_LOOKUP_FOUND] = "found", [CT_LOOKUP_MISSING] = "missing", [CT_LOOKUP_OTHER_FILE] = "other file"};
    return names[state];
}

static void module_json(struct ct_json *json, const struct ct_symbolize_module *m) {
    ct_json_begin(json, NULL, '{');
    ct_json_number(json, "id", m->id);
    ct_json_string(json, "path", m->path);
    ct_json_string(json, "build_id", m->build_id);
    ct_json_string(json, "state", state_name(m->state));
    ct_json_string(json, "file", m->file);
    ct_json_string(json, "line_file", m->line_file);
    ct_json_string(json, "problem", m->problem);
    ct_json_number(json, "functions", m->functions);
    ct_json_number(json, "named_before", m->named_before);
    ct_json_number(json, "named", m->named);
    ct_json_number(json, "lines", m->lines);
    ct_json_number(json, "inlines", m->inlines);
    ct_json_end(json, '}');
}

static void print_named(const char *before, const char *name, const char *after) {
    fputs(before, stdout);
    ct_message_print(stdout, name);
    fputs(after, stdout);
}

static void module_text(const struct ct_symbolize_module *m) {
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE];
    print_named("  ", m->path, "");
    printf(": %s of %s functions named, %s with a line\n", ct_text_count(a, m->named), ct_text_count(b, m->functions),
           ct_text_count(c, m->lines));
    if (*m->file && strcmp(m->file, m->path) != 0)
        print_named("    symbols from ", m->file, "\n");
    if (*m->line_file && strcmp(m->line_file, m->path) != 0)
        print_named("    lines from ", m->line_file, "\n");
    if (m->state == CT_LOOKUP_MISSING)
        print_named("    no file with build-id ", *m->build_id ? m->build_id : "(none)", " was found\n");
}

static void on_module(void *arg, const struct ct_symbolize_module *m) {
    struct view *v = arg;
    if (m->state == CT_LOOKUP_OTHER_FILE) {
        v->mismatches++;
        ct_message_error("process %d: %s is not the file that was recorded (%s%s); give the directory of the right one "
                         "or of its debug file with --debug-dir",
                         v->pid, m->path, *m->build_id ? "build-id " : "its functions differ",
                         *m->build_id ? m->build_id : "");
    }
    if (*m->problem)
        ct_message_error("%s: %s", m->path, m->problem);
    if (v->json)
        module_json(v->json, m);
    else if (v->options->verbose)
        module_text(m);
}

/* ---- processes ---- */

static void totals_text(const struct view *v, const struct ct_symbolize_totals *t) {
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE], d[CT_TEXT_SIZE];
    printf("process %d: %s functions, %s named (%s new), %s with a source line", v->pid, ct_text_count(a, t->functions),
           ct_text_count(b, t->named), ct_text_count(c, t->named - t->named_before), ct_text_count(d, t->lines));
    if (v->options->inlines)
        printf(", %s with inlined functions", ct_text_count(a, t->inlines));
    printf("; %s of %s modules found\n", ct_text_count(a, t->modules_found), ct_text_count(b, t->modules));
}

static void totals_json(struct ct_json *json, const struct ct_symbolize_totals *t) {
    ct_json_number(json, "modules_found", t->modules_found);
    ct_json_number(json, "functions", t->functions);
    ct_json_number(json, "named_before", t->named_before);
    ct_json_number(json, "named", t->named);
    ct_json_number(json, "lines", t->lines);
    ct_json_number(json, "inlines", t->inlines);
}

static int symbolize_process(struct view *v, const struct ct_trace_process *process, struct ct_lookup *lookup) {
    struct ct_symbolize_totals totals = {0};
    v->pid = process->pid;
    if (!process->complete && !v->options->unfinished) {
        ct_message_error("process %d: its recorder has not finished, or was killed; when it no longer runs, use "
                         "--unfinished",
                         process->pid);
        return CT_EXIT_UNAVAILABLE;
    }
    if (v->json) {
        ct_json_begin(v->json, NULL, '{');
        ct_json_signed(v->json, "pid", process->pid);
        ct_json_begin(v->json, "modules", '[');
    }
    int status = ct_symbolize(process->directory, lookup, &totals, on_module, v);
    if (v->json) {
        ct_json_end(v->json, ']');
        totals_json(v->json, &totals);
        ct_json_end(v->json, '}');
    }
    if (status) {
        ct_message_error("%s/symbols: %s", process->directory, ct_status_text(status));
        return ct_message_exit_code(status);
    }
    if (!v->json)
        totals_text(v, &totals);
    return 0;
}

static void cache_json(struct ct_json *json, const struct ct_lookup_cache_stats *s) {
    ct_json_begin(json, "cache", '{');
    ct_json_number(json, "limit", s->limit);
    ct_json_number(json, "bytes", s->bytes);
    ct_json_number(json, "entries", s->entries);
    ct_json_number(json, "hits", s->hits);
    ct_json_number(json, "misses", s->misses);
    ct_json_number(json, "evictions", s->evictions);
    ct_json_end(json, '}');
}

static void cache_text(const struct ct_lookup_cache_stats *s) {
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE], d[CT_TEXT_SIZE], e[CT_TEXT_SIZE];
    printf("symbol cache: %s hits, %s misses, %s evictions; %s of %s used\n", ct_text_count(a, s->hits),
           ct_text_count(b, s->misses), ct_text_count(c, s->evictions), ct_text_size(d, s->bytes),
           ct_text_size(e, s->limit));
}

static int symbolize_trace(const struct ct_trace *trace, const struct options *o) {
    struct ct_lookup_options what = {
        .directories = o->directories.items, .inlines = o->inlines, .cache_bytes = o->cache};
    struct ct_lookup *lookup = ct_lookup_create(&what);
    struct ct_json json = {.lines = true};
    struct view v = {.options = o, .json = o->json ? &json : NULL};
    int code = 0;
    if (!lookup)
        return ct_message_fail(CT_ERR_NO_MEMORY, NULL);
    if (o->json) {
        ct_json_begin(&json, NULL, '{');
        ct_json_string(&json, "trace", ct_trace_path(trace));
        ct_json_begin(&json, "processes", '[');
    }
    for (size_t i = 0; i < ct_trace_process_count(trace); i++) {
        int result = symbolize_process(&v, ct_trace_process_at(trace, i), lookup);
        code = code ? code : result;
    }
    struct ct_lookup_cache_stats stats = ct_lookup_stats(lookup);
    if (o->json) {
        ct_json_end(&json, ']');
        cache_json(&json, &stats);
        ct_json_end(&json, '}');
        int printed = ct_reading_print_json(&json, 0);
        code = code ? code : printed;
    } else if (o->verbose) {
        cache_text(&stats);
    }
    ct_lookup_destroy(lookup);
    int finished = ct_message_finish();
    return code ? code : finished;
}

static int run_symbolize(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    struct ct_trace *trace;
    int code = ct_options_parse(&ct_command_symbolize, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    const struct ct_operands traces = ct_reading_named(&operands);
    const struct ct_rights rights = ct_rights_to_write(traces.at, traces.count);
    ct_rights_drop(&rights, false);
    code = ct_reading_open_next(&trace, &operands);
    if (code < 0) {
        code = symbolize_trace(trace, &options);
        ct_trace_close(trace);
    }
    ct_options_release(&ct_command_symbolize, &options);
    return code;
}

static const struct ct_option option_table[] = {
    {"debug-dir", 'd', CT_OPTION_LIST, offsetof(struct options, directories), "DIR",
     "look for binaries and debug files in DIR too: DIR/.build-id/xx/yyyy.debug, DIR/path/of/module, DIR/name, "
     "DIR/name.debug"},
    {"inlines", 0, CT_OPTION_FLAG, offsetof(struct options, inlines), NULL,
     "also find the functions that were inlined into each"},
    {"symbol-cache", 0, CT_OPTION_SIZE, offsetof(struct options, cache), "SIZE",
     "memory for lookups, which other processes of the trace repeat", .initial = "4M"},
    {"unfinished", 0, CT_OPTION_FLAG, offsetof(struct options, unfinished), NULL,
     "also processes whose recorder was killed"},
    {"verbose", 'v', CT_OPTION_FLAG, offsetof(struct options, verbose), NULL,
     "print what was found for each module, and how well the cache worked"},
    {"json", 0, CT_OPTION_FLAG, offsetof(struct options, json), NULL, "print JSON"},
    {0},
};

const struct ct_command ct_command_symbolize = {
    .name = "symbolize",
    .group = CT_GROUP_READ,
    .run = run_symbolize,
    .summary = "fill in names, source lines and inlined functions of a trace",
    .operands = "[TRACE]",
    .max_operands = 1,
    .description =
        "Finds the binaries of a trace and their debug files, and fills in what was not known during recording: names "
        "of functions in stripped modules, file and line of each function. The trace's `symbols` files are replaced; "
        "nothing else is changed. TRACE is a session or a pid_N directory; without it, the newest under ./traces.\n\n"
        "This works on any machine and at any time. A file is used only when it has the build-id of the recorded "
        "module; for modules without a build-id, when their functions are at the same addresses. Files are searched "
        "for at the module's path, under /usr/lib/debug, and in the directories of --debug-dir.\n\n"
        "Source lines need libdw (Debian package libdw1). `contrail report --lines` and `--inlines` show what was "
        "found.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  0 done, whether or not everything was found; 64 usage;\n"
             "  69 there is no such trace, or it is unfinished; 77 the trace may not be written",
    .examples = "contrail symbolize\n"
                "contrail symbolize --inlines --verbose traces/session_20250102_030405\n"
                "contrail symbolize --debug-dir /mnt/server/usr/lib/debug --debug-dir ./build trace_from_server",
};

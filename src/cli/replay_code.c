/* See replay_code.h. Thread after thread, each in the order in which it ran. */
#include "cli/replay_code.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/reading.h"
#include "trace/code_file.h"
#include <contrail/status.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void name_place(struct ct_symbols *symbols, const struct ct_code_block *b, uint64_t offset, char *text,
                       size_t size) {
    struct ct_symbols_module m = ct_symbols_module_of(symbols, b->module);
    const char *slash = m.path ? strrchr(m.path, '/') : NULL;
    const struct ct_trace_function *f = m.path ? ct_symbols_at(symbols, b->module, offset) : NULL;
    int length = m.path && b->module ? snprintf(text, size, "%s+0x%" PRIx64, slash ? slash + 1 : m.path, offset)
                                     : snprintf(text, size, "0x%" PRIx64, offset);
    if (f && length > 0 && (size_t)length < size)
        snprintf(text + length, size - (size_t)length, "  %s+0x%" PRIx64, f->name, offset - f->offset);
}

static void print_line(struct ct_replay_code *v, struct ct_symbols *symbols, const struct ct_code_record *r,
                       uint64_t offset, const char *what) {
    char place[512], time[CT_TEXT_SIZE];
    name_place(symbols, &r->block, offset, place, sizeof place);
    uint64_t at = r->time_ns > v->start_ns ? r->time_ns - v->start_ns : 0;
    ct_printer_format(v->printer, "%12s  %s%s\n", ct_text_time(time, at), place, what);
    v->lines++;
}

static bool is_over(const struct ct_replay_code *v) {
    return v->limit && v->lines >= v->limit;
}

static void print_insns(struct ct_replay_code *v, struct ct_symbols *symbols, const struct ct_code_record *r) {
    uint64_t offset = r->block.offset;
    for (uint32_t i = 0; i < r->executed && !is_over(v); i++) {
        print_line(v, symbols, r, offset, "");
        offset += r->block.lengths[i];
    }
}

static void print_record(struct ct_replay_code *v, struct ct_symbols *symbols, const struct ct_code_record *r) {
    char what[96] = "";
    if (r->time_ns < v->from_ns || (v->to_ns && r->time_ns > v->to_ns))
        return;
    if (r->what == CT_CODE_LOST) {
        ct_printer_format(v->printer, "# %" PRIu64 " blocks were lost\n", r->count);
        return;
    }
    if (v->insns && r->what == CT_CODE_RAN) {
        print_insns(v, symbols, r);
        return;
    }
    if (r->what == CT_CODE_COMPILED)
        snprintf(what, sizeof what, "  (translated, %u bytes)", r->block.size);
    else if (r->executed < r->block.insns)
        snprintf(what, sizeof what, "  (%u of %u instructions)", r->executed, r->block.insns);
    else
        snprintf(what, sizeof what, "  (%u instruction%s)", r->executed, r->executed == 1 ? "" : "s");
    print_line(v, symbols, r, r->block.offset, what);
}

static int show_thread(struct ct_replay_code *v, const struct ct_trace_thread *t) {
    struct trace_process *process = &v->trace->processes[t->process];
    struct ct_code_reader *reader;
    struct ct_code_record record;
    int status = ct_code_reader_open(&reader, process->directory, t->id);
    if (status == CT_ERR_NOT_FOUND)
        return 0;
    if (status)
        return status;
    v->files++;
    ct_printer_format(v->printer, "# process %d, thread %u %s\n", process->info.pid, t->tid, t->name);
    while (!is_over(v) && (status = ct_code_reader_next(reader, &record)) > 0)
        print_record(v, ct_trace_symbols(v->trace, t->process), &record);
    if (status < 0)
        ct_message_error("%s/thread_%u/" CT_CODE_FILE ": %s", process->directory, t->id,
                         ct_code_reader_problem(reader));
    ct_code_reader_close(reader);
    return status < 0 ? status : 0;
}

int ct_replay_code_show(struct ct_replay_code *v) {
    int status = 0;
    ct_printer_open(v->printer, true);
    for (size_t i = 0; !status && i < ct_trace_thread_count(v->trace) && !is_over(v); i++)
        if (ct_select_thread(v->select, ct_trace_thread_at(v->trace, i)))
            status = show_thread(v, ct_trace_thread_at(v->trace, i));
    if (is_over(v))
        ct_printer_format(v->printer, "# stopped after %" PRIu64 " lines (--limit)\n", v->lines);
    int code = ct_printer_close(v->printer);
    if (!status && !v->files)
        ct_message_error("no blocks were recorded in %s; follow the program with contrail stalk --events block",
                         ct_trace_path(v->trace));
    return status || !v->files ? CT_EXIT_UNAVAILABLE : code;
}

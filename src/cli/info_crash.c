/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `contrail info` about signals and crashes. */
#include "cli/info_crash.h"
#include "cli/reading.h"
#include <inttypes.h>
#include <string.h>

enum { SHORT_CALLS = 16, SHORT_THREADS = 10, PER_LINE = 4 };

static void print_title(struct ct_printer *printer, const char *text, uint64_t count) {
    char number[CT_TEXT_SIZE];
    ct_printer_colour(printer, CT_COLOUR_BOLD);
    ct_printer_format(printer, "\n%s (%s)\n", text, ct_text_count(number, count));
    ct_printer_colour(printer, CT_COLOUR_PLAIN);
}

static void print_registers(struct ct_printer *printer, const struct ct_trace_detail *detail) {
    for (unsigned i = 0; ct_cpu_register(detail, i); i++)
        ct_printer_format(printer, "%s%-6s 0x%016" PRIx64 "%s", i % PER_LINE ? "  " : "    ",
                          ct_cpu_register(detail, i), detail->cpu[i],
                          i % PER_LINE == PER_LINE - 1 || !ct_cpu_register(detail, i + 1) ? "\n" : "");
}

static void print_frame(struct ct_printer *printer, const struct ct_trace *trace, size_t process, size_t number,
                        uint64_t function) {
    const struct ct_trace_function *f = ct_trace_function(trace, process, function);
    ct_printer_format(printer, "    #%-3zu ", number);
    if (!f) {
        ct_printer_format(printer, "%" PRIx64 "\n", function);
        return;
    }
    ct_printer_function(printer, f->name, 0);
    ct_printer_text(printer, " [");
    ct_printer_name(printer, f->module, 0);
    ct_printer_text(printer, "]");
    if (*f->line) {
        ct_printer_text(printer, " at ");
        ct_printer_name(printer, f->line, 0);
    }
    ct_printer_text(printer, "\n");
}

/* Prints the innermost calls, and the outermost one. */
static void print_calls(struct ct_printer *printer, const struct ct_trace *trace, size_t process,
                        const struct ct_open_calls *calls, bool all) {
    size_t shown = all || calls->shown <= SHORT_CALLS ? calls->shown : SHORT_CALLS;
    if (!calls->shown) {
        ct_printer_text(printer, "    no recorded call was open\n");
        return;
    }
    for (size_t i = 0; i + 1 < shown; i++)
        print_frame(printer, trace, process, i, calls->functions[i]);
    if (calls->count > shown)
        ct_printer_format(printer, "    … %zu more\n", calls->count - shown);
    print_frame(printer, trace, process, calls->count - 1, calls->functions[calls->shown - 1]);
}

static void print_thread(struct ct_printer *printer, const struct ct_trace *trace, size_t thread) {
    char text[256];
    ct_reading_thread_text(text, sizeof text, ct_trace_thread_at(trace, thread));
    ct_printer_name(printer, text, 0);
}

static void print_signal(struct ct_printer *printer, const struct ct_trace *trace, size_t process,
                         const struct ct_crash_signal *signal, bool all) {
    uint64_t start = ct_trace_process_at(trace, process)->time_start_ns;
    uint64_t since = signal->time_ns > start ? signal->time_ns - start : 0;
    char text[1024] = "a signal; nothing more was recorded about it";
    if (signal->has_detail)
        ct_signal_text(trace, process, &signal->detail, text, sizeof text);
    ct_printer_format(printer, "  %" PRIu64 ".%09" PRIu64 " s  ", since / 1000000000, since % 1000000000);
    print_thread(printer, trace, signal->calls.thread);
    ct_printer_text(printer, "  ");
    ct_printer_colour(printer, CT_COLOUR_RED);
    ct_printer_name(printer, text, 0);
    ct_printer_colour(printer, CT_COLOUR_PLAIN);
    ct_printer_text(printer, "\n");
    print_calls(printer, trace, process, &signal->calls, all);
    if (signal->has_detail)
        print_registers(printer, &signal->detail);
}

/* True when its calls were printed with its signal. */
static bool is_printed(const struct ct_crash *crash, const struct ct_open_calls *calls) {
    for (size_t i = 0; i < crash->signal_count; i++) {
        const struct ct_open_calls *printed = &crash->signals[i].calls;
        if (printed->thread == calls->thread && printed->count == calls->count &&
            !memcmp(printed->functions, calls->functions, calls->shown * sizeof *calls->functions))
            return true;
    }
    return false;
}

void ct_info_crash_print(struct ct_printer *printer, const struct ct_trace *trace, const struct ct_crash *crash,
                         bool all) {
    size_t process = crash->process, others = 0, printed = 0;
    if (crash->signal_count) {
        print_title(printer, "Signals", crash->all_signals);
        if (crash->all_signals > crash->signal_count)
            ct_printer_format(printer, "  the last %zu:\n", crash->signal_count);
        for (size_t i = 0; i < crash->signal_count; i++)
            print_signal(printer, trace, process, &crash->signals[i], all);
    }
    for (size_t i = 0; i < crash->thread_count; i++)
        others += !is_printed(crash, &crash->threads[i]);
    if (!others)
        return;
    print_title(printer, "Threads inside calls when the process died", others);
    for (size_t i = 0; i < crash->thread_count && (all || printed < SHORT_THREADS); i++) {
        if (is_printed(crash, &crash->threads[i]))
            continue;
        ct_printer_text(printer, "  ");
        print_thread(printer, trace, crash->threads[i].thread);
        ct_printer_text(printer, "\n");
        print_calls(printer, trace, process, &crash->threads[i], all);
        printed++;
    }
    if (printed < others)
        ct_printer_format(printer, "  … %zu more (--all)\n", others - printed);
    if (!crash->signal_count)
        ct_printer_text(printer, "  record with --trigger crash to see registers and the instruction too\n");
}

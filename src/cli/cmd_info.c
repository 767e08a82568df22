/* SPDX-License-Identifier: Apache-2.0 */
/* contrail info: shows what a trace contains. */
#include "cli/command.h"
#include "cli/info_crash.h"
#include "cli/info_damage.h"
#include "cli/info_idle.h"
#include "cli/info_skipped.h"
#include "cli/info_tree.h"
#include "cli/left_out.h"
#include "cli/reading.h"
#include "report/info.h"
#include "report/select.h"
#include "trace/reader.h"
#include "base/json_write.h"
#include <stdlib.h>
#include <string.h>

enum { SHORT_LIST = 10, LABEL = 11, MANY_PROCESSES = 3 };
/* traces up to this many events are read without --count, to count calls and returns */
#define COUNT_AT_ONCE UINT64_C(20000000)

struct options {
    bool json, all, count, skipped, allow_damaged, full_names;
    struct ct_option_list processes;
};

struct page {
    struct ct_printer *printer;
    const struct ct_trace *trace;
    const struct ct_facts *facts;
    const struct ct_info *info;
    const struct options *options;
};

/* ---- labelled lines ---- */

static void print_label(const struct page *p, const char *text) {
    ct_printer_colour(p->printer, CT_COLOUR_BOLD);
    ct_printer_format(p->printer, "%-*s", LABEL, text);
    ct_printer_colour(p->printer, CT_COLOUR_PLAIN);
}

static void print_line(const struct page *p, const char *title, const char *text) {
    if (!*text)
        return;
    print_label(p, title);
    ct_printer_name(p->printer, text, 0);
    ct_printer_text(p->printer, "\n");
}

static void print_end(const struct page *p) {
    const struct ct_info *info = p->info;
    const char *reason = info->end_reason, *signal = sigabbrev_np((int)info->signal);
    char text[128] = "";
    if (!info->process->complete)
        strcpy(text, "not finished: it is being recorded, or the recorder was killed; what is there can be read");
    else if (!strcmp(reason, "exit") && info->exit_code < 0)
        strcpy(text, "the process ended");
    else if (!strcmp(reason, "exit"))
        snprintf(text, sizeof text, "the process exited with code %d", (int)info->exit_code);
    else if (!strcmp(reason, "signal"))
        snprintf(text, sizeof text, "the process was killed by signal %d (SIG%s)", (int)info->signal,
                 signal ? signal : "?");
    else if (!strcmp(reason, "detach"))
        strcpy(text, "detached; the process continued");
    else if (!strcmp(reason, "exec"))
        strcpy(text, "the process executed another program");
    else if (!strcmp(reason, "disk"))
        strcpy(text, "the disk was full, or another write failed");
    else
        snprintf(text, sizeof text, "%.100s", reason);
    print_line(p, "Ended", text);
}

static void print_waits(const struct page *p) {
    const struct ct_info *info = p->info;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    if (info->waited_ns) {
        print_label(p, "Waited");
        ct_printer_format(p->printer, "%s of it a thread waited for the recorder: no call's time includes that\n",
                          ct_text_time(a, info->waited_ns));
    }
    if (info->memory_waited_ns) {
        print_label(p, "Waited");
        ct_printer_format(p->printer, "%s in all threads waited for memory: no call's time includes that\n",
                          ct_text_time(a, info->memory_waited_ns));
    }
    if (info->waits_more) {
        print_label(p, "Waited");
        ct_printer_format(p->printer, "%s more times, for %s in all, which the times of calls include\n",
                          ct_text_count(a, info->waits_more), ct_text_time(b, info->waits_more_ns));
    }
}

static void print_cpu(const struct page *p) {
    const struct ct_info *info = p->info;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    if (!*info->cpu)
        return;
    print_label(p, "CPU time");
    if (strcmp(info->cpu, "recorded") != 0)
        ct_printer_text(p->printer, "not recorded: ");
    ct_printer_name(p->printer, info->cpu, 0);
    if (info->switches)
        ct_printer_format(p->printer, ", %s switches", ct_text_count(a, info->switches));
    if (info->switches_lost)
        ct_printer_format(p->printer, ", %s LOST: the time around them is neither on nor off CPU",
                          ct_text_count(b, info->switches_lost));
    ct_printer_text(p->printer, "\n");
}

static void print_who(const struct page *p) {
    const struct ct_info *info = p->info;
    char text[1024], duration[CT_TEXT_SIZE];
    print_line(p, "Trace", info->process->directory);
    print_line(p, "Program", info->command_line);
    if (info->redacted)
        print_line(p, "Redacted", "stack bytes, vector registers and command lines were left out");
    int length = snprintf(text, sizeof text, "%d", info->process->pid);
    if (*info->host)
        snprintf(text + length, sizeof text - (size_t)length, " on %s (%s %s, %s)", info->host, info->os, info->kernel,
                 info->arch);
    print_line(p, "Process", text);
    snprintf(text, sizeof text, "%s%sfor %s%s%s%s", info->started, *info->started ? ", " : "",
             ct_text_time(duration, info->duration_ns), info->process->recording_known ? "" : " until the last event",
             *info->tool ? ", by " : "", info->tool);
    print_line(p, "Recorded", text);
    print_waits(p);
    print_cpu(p);
    print_end(p);
    ct_info_idle_print(p->printer, p->trace, info, LABEL, p->options->all);
}

/* ---- events ---- */

static void print_events(const struct page *p) {
    const struct ct_info *info = p->info;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE];
    print_label(p, "Events");
    ct_printer_text(p->printer, ct_text_count(a, info->events));
    if (info->duration_ns)
        ct_printer_format(p->printer, " (%s/s)",
                          ct_text_short(a, (double)info->events * 1e9 / (double)info->duration_ns));
    if (info->counted)
        ct_printer_format(p->printer, ": %s calls, %s returns, %s exceptions", ct_text_count(a, info->calls),
                          ct_text_count(b, info->returns), ct_text_count(c, info->exceptions));
    else
        ct_printer_text(p->printer, " (--count counts calls and returns)");
    if (info->signals)
        ct_printer_format(p->printer, ", %s signal%s", ct_text_count(a, info->signals), info->signals == 1 ? "" : "s");
    ct_printer_text(p->printer, "\n");
}

static void print_lost(const struct page *p) {
    const struct ct_info *info = p->info;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    print_label(p, "Lost");
    if (!info->lost) {
        ct_printer_text(p->printer, "nothing\n");
        return;
    }
    ct_printer_colour(p->printer, CT_COLOUR_RED);
    ct_printer_format(p->printer, "%s events, %s of all", ct_text_count(a, info->lost),
                      ct_text_percent(b, info->lost, info->lost + info->events));
    ct_printer_colour(p->printer, CT_COLOUR_PLAIN);
    ct_printer_text(p->printer, "\n");
    for (size_t i = 0; i < info->loss_count; i++)
        ct_printer_format(p->printer, "%*s%s: %s (%s)\n", LABEL, "", ct_text_count(a, info->losses[i].count),
                          info->losses[i].text, info->losses[i].name);
}

/* Counters that are mostly zero are printed only when they are not. */
static void print_counters(const struct page *p) {
    const struct ct_info *info = p->info;
    const struct {
        uint64_t n;
        const char *text;
    } counters[] = {
        {info->dropped, "older events, deleted to keep the newest (--keep)"},
        {info->left_frames, "calls left by an exception, a longjmp or the like"},
        {info->deep_calls, "calls not in the trace, because too many were open, or a stack ended"},
        {info->guarded_calls, "calls from the recorder's own code, not in the trace"},
        {info->abandoned, "events begun and never written, because a signal handler jumped away"},
    };
    char text[CT_TEXT_SIZE];
    const char *title = "Also";
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        if (!counters[i].n)
            continue;
        print_label(p, title);
        ct_printer_format(p->printer, "%s: %s\n", counters[i].text, ct_text_count(text, counters[i].n));
        title = "";
    }
}

static void print_coverage(const struct page *p) {
    const struct ct_info *info = p->info;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE];
    print_label(p, "Coverage");
    ct_printer_format(p->printer, "%s of %s functions hooked (%s)", ct_text_count(a, info->hooked),
                      ct_text_count(b, info->functions), ct_text_percent(c, info->hooked, info->functions));
    if (info->entry_only)
        ct_printer_format(p->printer, ", %s of them on entry only", ct_text_count(a, info->entry_only));
    if (info->guessed)
        ct_printer_format(p->printer, ", %s of them guessed", ct_text_count(a, info->guessed));
    if (info->code_bytes)
        ct_printer_format(p->printer, "; %s of the code's bytes",
                          ct_text_percent(c, info->hooked_bytes, info->code_bytes));
    ct_printer_text(p->printer, "\n");
}

static void print_stalk(const struct page *p) {
    const struct ct_info *info = p->info;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    print_label(p, "Followed");
    ct_printer_format(p->printer, "%s thread%s through translated code, %s blocks%s%s",
                      ct_text_count(a, info->stalk_threads), info->stalk_threads == 1 ? "" : "s",
                      ct_text_count(b, info->stalk_blocks), *info->stalk_events ? "; events: " : "",
                      info->stalk_events);
    if (info->stalk_left)
        ct_printer_format(p->printer, "; %s NOT to the end", ct_text_count(a, info->stalk_left));
    if (info->stalk_children)
        ct_printer_format(p->printer, "; %s forked processes were not", ct_text_count(a, info->stalk_children));
    ct_printer_text(p->printer, "\n");
}

static void print_numbers(const struct page *p) {
    const struct ct_info *info = p->info;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE];
    if (info->stalk)
        print_stalk(p);
    else
        print_coverage(p);
    if (info->sampled) {
        print_label(p, "Sampled");
        ct_printer_format(p->printer, "every %s call of a function was recorded, with all that it called\n",
                          ct_text_ordinal(a, info->sampled));
    }
    if (info->left_out.budget) {
        print_label(p, "Budget");
        ct_left_out_print_budget(p->printer, &info->left_out);
    }
    if (info->latency_samples) {
        print_label(p, "Latency");
        ct_printer_format(p->printer, "p50 %s, p99 %s, max %s from capture to disk\n",
                          ct_text_time(a, info->latency_p50_ns), ct_text_time(b, info->latency_p99_ns),
                          ct_text_time(c, info->latency_max_ns));
    }
    if (info->late_ns) {
        print_label(p, "Clock");
        ct_printer_format(p->printer, "fast: times of calls and returns are late by at most %s (99 %% by at most %s)\n",
                          ct_text_time(a, info->late_ns), ct_text_time(b, info->late_p99_ns));
    }
    if (info->drain_ran_ns) {
        print_label(p, "Writing");
        ct_printer_format(p->printer, "%s of a processor, %s of what it needed%s\n",
                          ct_text_time(a, info->drain_ran_ns),
                          ct_text_percent(b, info->drain_ran_ns, info->drain_ran_ns + info->drain_queued_ns),
                          info->drain_raised ? ", with a better priority" : "");
    }
    if (info->plan_ns || info->pause_ns) {
        print_label(p, "Start");
        ct_printer_format(p->printer, "planned in %s, the process was stopped for %s\n", ct_text_time(a, info->plan_ns),
                          ct_text_time(b, info->pause_ns));
    }
    if (info->lane_bytes) {
        print_label(p, "Memory");
        ct_printer_format(p->printer, "index lane %s\n", ct_text_size(a, info->lane_bytes));
    }
    print_label(p, "Size");
    ct_printer_format(p->printer, "%s on disk\n", ct_text_size(a, info->disk_bytes));
}

static void print_detail(const struct page *p) {
    const struct ct_info *info = p->info;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    if (!info->detail && !info->window_count)
        return;
    print_label(p, "Detail");
    ct_printer_format(p->printer, "%s calls and returns with arguments in %zu window%s", ct_text_count(a, info->detail),
                      info->window_count, info->window_count == 1 ? "" : "s");
    if (info->detail_lost)
        ct_printer_format(p->printer, ", %s in them lost", ct_text_count(b, info->detail_lost));
    ct_printer_text(p->printer, "\n");
}

/* ---- lists ---- */

static size_t shown_of(const struct page *p, size_t count) {
    return p->options->all || count <= SHORT_LIST + 1 ? count : SHORT_LIST;
}

static void print_title(const struct page *p, const char *text, size_t count) {
    char number[CT_TEXT_SIZE];
    ct_printer_colour(p->printer, CT_COLOUR_BOLD);
    ct_printer_format(p->printer, "\n%s (%s)\n", text, ct_text_count(number, count));
    ct_printer_colour(p->printer, CT_COLOUR_PLAIN);
}

static void print_more(const struct page *p, size_t shown, size_t count) {
    char number[CT_TEXT_SIZE];
    if (shown < count)
        ct_printer_format(p->printer, "  ... and %s more (--all)\n", ct_text_count(number, count - shown));
}

static void print_windows(const struct page *p) {
    const struct ct_info *info = p->info;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE];
    size_t shown = shown_of(p, info->window_count);
    if (!info->window_count)
        return;
    print_title(p, "Windows of detail", info->window_count);
    ct_printer_format(p->printer, "  %12s  %9s  %9s  %12s  %s\n", "MARK (s)", "BEFORE", "AFTER", "RECORDS", "WHY");
    for (size_t i = 0; i < shown; i++) {
        const struct ct_info_window *w = &info->windows[i];
        uint64_t start = info->process->time_start_ns;
        ct_printer_format(p->printer, "  %12.6f  %8s%s  %8s%s  %12s  ",
                          w->mark_ns > start ? (double)(w->mark_ns - start) / 1e9 : 0.0, ct_text_time(a, w->pre_ns),
                          strcmp(w->pre, "whole") ? "*" : " ", ct_text_time(b, w->post_ns),
                          strcmp(w->post, "whole") ? "*" : " ", ct_text_count(c, w->records));
        ct_printer_name(p->printer, w->reasons ? w->reasons : "", 0);
        ct_printer_text(p->printer, "\n");
    }
    print_more(p, shown, info->window_count);
    ct_printer_text(p->printer,
                    "  * less than asked for: cut by memory, by the start or end of the recording, or after "
                    "10,000 records (the default)\n");
    if (info->detail_thread)
        ct_printer_format(p->printer, "  a thread had up to %s of memory for detail",
                          ct_text_size(a, info->detail_thread));
    if (info->detail_thread && info->detail_needed)
        ct_printer_format(p->printer, "; --detail-mem %s would reach the whole pre-roll",
                          ct_text_memory(b, info->detail_needed));
    if (info->detail_thread)
        ct_printer_text(p->printer, "\n");
}

static void print_threads(const struct page *p) {
    const struct ct_info *info = p->info;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    size_t shown = shown_of(p, info->thread_count);
    print_title(p, "Threads", info->thread_count);
    ct_printer_format(p->printer, "  %5s  %8s  %14s  %12s  %s\n", "ID", "TID", "EVENTS", "LOST", "NAME");
    for (size_t i = 0; i < shown; i++) {
        const struct ct_trace_thread *t = ct_trace_thread_at(p->trace, info->threads[i]);
        ct_printer_format(p->printer, "  %5u  %8u  %14s  %12s  ", t->id, t->tid, ct_text_count(a, t->event_count),
                          ct_text_count(b, t->lost));
        ct_printer_name(p->printer, t->name, 0);
        ct_printer_text(p->printer, t->cut ? "  (its file ends early)\n" : "\n");
    }
    print_more(p, shown, info->thread_count);
}

static void print_module(const struct page *p, const struct ct_info_module *m) {
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE];
    ct_printer_format(p->printer, "  %5u  %9s  %7s  ", m->module->id, ct_text_count(a, m->functions),
                      ct_text_percent(b, m->module->hooked, m->functions));
    ct_printer_format(p->printer, "%10s  %7s  ", ct_text_count(a, m->module->entry_only), ct_text_count(c, m->skipped));
    ct_printer_name(p->printer, m->module->path, 0);
    ct_printer_text(p->printer, "\n");
    for (size_t i = 0; p->options->all && i < m->reason_count; i++)
        if (!m->reasons[i].part)
            ct_printer_format(p->printer, "%39s  %7s  %s\n", "", ct_text_count(a, m->reasons[i].count),
                              m->reasons[i].name);
}

static void print_modules(const struct page *p) {
    const struct ct_info *info = p->info;
    size_t shown = shown_of(p, info->module_count);
    print_title(p, "Modules", info->module_count);
    ct_printer_format(p->printer, "  %5s  %9s  %7s  %10s  %7s  %s\n", "ID", "FUNCTIONS", "HOOKED", "ENTRY ONLY",
                      "SKIPPED", "FILE");
    for (size_t i = 0; i < shown; i++)
        print_module(p, &info->modules[i]);
    print_more(p, shown, info->module_count);
}

/* All modules together: each reason once, with its explanation. */
static void print_reasons(const struct page *p, const char *heading, bool parts, uint64_t total) {
    const struct ct_info *info = p->info;
    char text[CT_TEXT_SIZE];
    if (!total)
        return;
    print_title(p, heading, total);
#define ROW(reason, sentence) #reason,
    static const char *const names[] = {CT_HOOK_SKIP_LIST(ROW)};
#undef ROW
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        const char *why = "";
        uint64_t sum = 0;
        for (size_t i = 0; i < info->module_count; i++)
            for (size_t k = 0; k < info->modules[i].reason_count; k++) {
                const struct ct_info_reason *reason = &info->modules[i].reasons[k];
                if (reason->part != parts || strcmp(reason->name, names[n]) != 0)
                    continue;
                sum += reason->count;
                why = reason->text;
            }
        if (sum)
            ct_printer_format(p->printer, "  %9s  %s: %s\n", ct_text_count(text, sum), names[n], why);
    }
}

static void print_left(const struct page *p) {
    const struct ct_info *info = p->info;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    size_t shown = shown_of(p, info->left_count);
    if (shown)
        print_title(p, "Code of no module", info->left_count);
    for (size_t i = 0; i < shown; i++) {
        const struct ct_info_left *left = &info->left[i];
        ct_printer_text(p->printer, "  ");
        ct_printer_name(p->printer, left->name, 0);
        if (left->mappings > 1 || left->name[0] != '[')
            ct_printer_format(p->printer, ": %s mapping%s, %s, left alone: ", ct_text_count(a, left->mappings),
                              left->mappings == 1 ? "" : "s", ct_text_size(b, left->bytes));
        else
            ct_printer_text(p->printer, ": left alone: ");
        ct_printer_name(p->printer, left->reason, 0);
        ct_printer_text(p->printer, "\n");
    }
    print_more(p, shown, info->left_count);
}

static void print_missed(const struct page *p) {
    const struct ct_info *info = p->info;
    size_t shown = shown_of(p, info->missed_count);
    if (shown)
        print_title(p, "Processes that are not in the trace", info->missed_count);
    for (size_t i = 0; i < shown; i++) {
        ct_printer_format(p->printer, "  %9d  ", info->missed[i].pid);
        ct_printer_name(p->printer, info->missed[i].reason, 0);
        ct_printer_text(p->printer, "\n");
    }
    print_more(p, shown, info->missed_count);
}

static void print_page(const struct page *p) {
    print_who(p);
    print_events(p);
    print_lost(p);
    print_counters(p);
    print_numbers(p);
    print_detail(p);
    ct_info_crash_print(p->printer, p->trace, p->info->crash, p->options->all);
    print_windows(p);
    print_threads(p);
    print_modules(p);
    print_reasons(p, "Functions not hooked", false, p->info->skipped);
    print_reasons(p, "Not functions, so not hooked and not counted", true, p->info->parts);
    print_left(p);
    print_missed(p);
}

/* ---- the command ---- */

static bool count_wanted(const struct ct_trace *trace, const struct options *options) {
    uint64_t events = 0;
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        events += ct_trace_thread_at(trace, i)->event_count;
    return !options->skipped && (options->count || events <= COUNT_AT_ONCE);
}

static bool is_selected(const struct ct_trace *trace, const struct options *options, size_t process) {
    const struct ct_select select = {.processes = options->processes.items};
    return ct_select_process(&select, trace, process);
}

static size_t count_selected(const struct ct_trace *trace, const struct options *options) {
    size_t count = 0;
    for (size_t i = 0; i < ct_trace_process_count(trace); i++)
        count += is_selected(trace, options, i);
    return count;
}

static int print_pages(struct ct_printer *printer, struct ct_trace *trace, const struct ct_facts *facts,
                       const struct options *options) {
    size_t printed = 0;
    for (size_t i = 0; i < facts->process_count; i++) {
        struct ct_info *info;
        if (!is_selected(trace, options, i))
            continue;
        int status = ct_info_make(&info, trace, facts, i, count_wanted(trace, options));
        if (status)
            return status;
        if (printed++)
            ct_printer_text(printer, "\n");
        if (options->skipped)
            ct_info_skipped_print(printer, trace, info, i);
        else
            print_page(&(struct page){printer, trace, facts, info, options});
        ct_info_free(info);
    }
    return 0;
}

/* Many processes: the tree, and what hangs. */
static int print_overview(struct ct_printer *printer, struct ct_trace *trace, const struct ct_facts *facts,
                          const struct options *options) {
    for (size_t i = 0; i < facts->process_count; i++) {
        struct ct_info *info;
        int status = ct_info_make(&info, trace, facts, i, false);
        if (status)
            return status;
        if (info->idle.count) {
            ct_printer_format(printer, "\nProcess %d\n", info->process->pid);
            ct_info_idle_print(printer, trace, info, LABEL, options->all);
        }
        ct_info_free(info);
    }
    ct_printer_text(printer, "\n--process PID or --process NAME shows one of them, --all shows all\n");
    return 0;
}

static int print_session(struct ct_printer *printer, struct ct_trace *trace, const struct ct_facts *facts,
                         const struct options *options) {
    struct ct_processes processes;
    int status = ct_processes_make(&processes, trace, facts);
    if (status)
        return status;
    ct_info_tree_print(printer, trace, &processes, options->all);
    ct_processes_free(&processes);
    if (facts->process_count > MANY_PROCESSES && !options->all)
        return print_overview(printer, trace, facts, options);
    ct_printer_text(printer, "\n");
    return print_pages(printer, trace, facts, options);
}

static int print_text(struct ct_trace *trace, const struct ct_facts *facts, const struct options *options) {
    static struct ct_printer printer;
    bool session = facts->process_count > 1 && !options->processes.count && !options->skipped;
    ct_printer_open(&printer, true);
    ct_info_damage_print(&printer, trace, options->all);
    int status = (session ? print_session : print_pages)(&printer, trace, facts, options);
    int code = ct_printer_close(&printer);
    return status ? ct_reading_fail(trace, status) : code;
}

static void session_json(struct ct_json *json, const struct ct_trace *trace, const struct ct_processes *processes) {
    ct_json_string(json, "trace", ct_trace_path(trace));
    ct_json_number(json, "recording_start_ns", processes->start_ns);
    ct_json_number(json, "recording_end_ns", processes->end_ns);
    ct_json_number(json, "disk_bytes", ct_find_disk_bytes(ct_trace_path(trace)));
}

static int print_json(struct ct_trace *trace, const struct ct_facts *facts, const struct options *options) {
    struct ct_json json = {0};
    struct ct_processes processes;
    int status = ct_processes_make(&processes, trace, facts);
    ct_json_begin(&json, NULL, '{');
    if (!status)
        session_json(&json, trace, &processes);
    ct_info_damage_json(&json, trace);
    ct_json_begin(&json, "processes", '[');
    for (size_t i = 0; i < facts->process_count && !status; i++) {
        struct ct_info *info;
        if (!is_selected(trace, options, i))
            continue;
        status = ct_info_make(&info, trace, facts, i, count_wanted(trace, options));
        if (status)
            break;
        if (options->skipped)
            ct_info_skipped_json(&json, trace, info, i);
        else
            ct_info_json(info, trace, facts, &json);
        ct_info_free(info);
    }
    ct_json_end(&json, ']');
    ct_json_end(&json, '}');
    ct_processes_free(&processes);
    return ct_reading_print_json(&json, status);
}

static int run_info(int argc, char **argv) {
    struct options options = {0};
    struct ct_operands operands;
    struct ct_trace *trace;
    struct ct_facts facts;
    int code = ct_options_parse(&ct_command_info, argc, argv, &options, &operands);
    if (code < 0)
        code = ct_reading_open_unchecked(&trace, &operands);
    if (code >= 0)
        return code;
    if (options.full_names)
        ct_printer_keep_names();
    int status = ct_facts_load(&facts, trace);
    if (status) {
        code = ct_reading_fail(trace, status);
    } else if (facts.process_count && !count_selected(trace, &options)) {
        ct_message_error(
            "no process of %s has the number or name that --process asks for; `contrail info %s` lists them",
            ct_trace_path(trace), ct_trace_path(trace));
        code = CT_EXIT_UNAVAILABLE;
        ct_facts_free(&facts);
    } else {
        code = (options.json ? print_json : print_text)(trace, &facts, &options);
        ct_facts_free(&facts);
    }
    code = ct_reading_close(trace, code, options.allow_damaged);
    ct_options_release(&ct_command_info, &options);
    return code;
}

static const struct ct_option option_table[] = {
    {"all", 'a', CT_OPTION_FLAG, offsetof(struct options, all), NULL,
     "list all processes, threads and modules, and each module's skipped functions by reason"},
    {"count", 0, CT_OPTION_FLAG, offsetof(struct options, count), NULL,
     "count calls, returns and exceptions even in a trace of more than 20 million events"},
    {"skipped", 0, CT_OPTION_FLAG, offsetof(struct options, skipped), NULL,
     "list each function that is not hooked instead, by module, with the reason"},
    {"json", 0, CT_OPTION_FLAG, offsetof(struct options, json), NULL, "print everything as JSON"},
    {"process", 'p', CT_OPTION_LIST, offsetof(struct options, processes), "PID|GLOB",
     "only processes with this number, or whose program's name matches"},
    CT_OPTION_FULL_NAMES(struct options),
    CT_OPTION_ALLOW_DAMAGED(struct options),
    {0},
};

const struct ct_command ct_command_info = {
    .name = "info",
    .group = CT_GROUP_READ,
    .run = run_info,
    .summary = "show what a trace contains",
    .operands = "[TRACE]",
    .max_operands = 1,
    .description =
        "Shows which program was recorded, where, when and how long, how it ended, which threads did nothing for long "
        "before that and what they were in (a hang, a deadlock), how many events there are, what "
        "was lost and why, how late events reached the disk, which threads and modules there are, and which functions "
        "could not be hooked and why. Of a session with several processes, first the tree of these; with more than "
        "three, "
        "--process picks one. TRACE is a session or a pid_N directory; without it, the newest under ./traces.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  0 done, 64 usage, 65 parts of the trace are missing, 69 there is no such trace",
    .examples = "contrail info\n"
                "contrail info --process make\n"
                "contrail info --all traces/session_20250102_030405\n"
                "contrail info --skipped | grep TOO_SHORT\n"
                "contrail info --json | python3 -m json.tool",
};

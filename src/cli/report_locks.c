/* SPDX-License-Identifier: Apache-2.0 */
/* `contrail report --locks`: threads that wait at the end, a row for each lock, a row for each function that waits. */
#include "cli/report_locks.h"
#include "cli/options.h"
#include "cli/printer.h"
#include "cli/reading.h"
#include "report/locks.h"
#include <inttypes.h>
#include <string.h>

enum { TIME_WIDTH = 8, COUNT_WIDTH = 7, GAP = 2, PAIRS = 4 };

struct page {
    struct ct_printer *printer;
    const struct ct_trace *trace;
    const struct ct_locks *locks;
    uint64_t limit;
    const struct ct_moment_clock *clock;
};

/* ---- words ---- */

/* Numbers of threads are those of `contrail info`. A name is worth a word when it is not the program's. */
static void print_thread(const struct page *p, size_t thread) {
    const struct ct_trace_thread *t = ct_trace_thread_at(p->trace, thread);
    const struct ct_trace_process *process = ct_trace_process_at(p->trace, t->process);
    const char *program = "";
    for (size_t i = 0; i < ct_trace_thread_count(p->trace); i++) {
        const struct ct_trace_thread *other = ct_trace_thread_at(p->trace, i);
        if (other->process == t->process && other->tid == (uint32_t)process->pid)
            program = other->name;
    }
    ct_printer_format(p->printer, "thread %u", t->id);
    if (ct_trace_process_count(p->trace) > 1)
        ct_printer_format(p->printer, " of process %d", process->pid);
    if (!*t->name || !strcmp(t->name, program))
        return;
    ct_printer_text(p->printer, " (");
    ct_printer_name(p->printer, t->name, 0);
    ct_printer_text(p->printer, ")");
}

static void print_lock(const struct page *p, const struct ct_lock *lock) {
    ct_printer_name(p->printer, lock->what, 0);
    ct_printer_text(p->printer, " ");
    if (*lock->name) {
        ct_printer_name(p->printer, lock->name, 0);
        ct_printer_format(p->printer, " (0x%" PRIx64 ")", lock->address);
    } else {
        ct_printer_format(p->printer, "0x%" PRIx64, lock->address);
    }
}

static void print_function(const struct page *p, const char *before, size_t process, uint64_t function,
                           const char *after) {
    const struct ct_trace_function *f = function ? ct_trace_function(p->trace, process, function) : NULL;
    if (!f)
        return;
    ct_printer_text(p->printer, before);
    ct_printer_function(p->printer, f->name, 0);
    ct_printer_text(p->printer, after);
}

static void print_when(const struct page *p, uint64_t time_ns) {
    char text[CT_WALL_TEXT];
    ct_printer_text(p->printer, ct_moment_text(p->clock, time_ns, text));
    ct_printer_text(p->printer, p->clock->clock == CT_CLOCK_WALL ? "" : " s");
}

/* ---- waits that are open at the end ---- */

static void print_wait(const struct page *p, const struct ct_lock_wait *wait) {
    const struct ct_lock *lock = &p->locks->locks[wait->lock];
    char text[CT_TEXT_SIZE];
    ct_printer_text(p->printer, "  ");
    print_thread(p, wait->thread);
    ct_printer_format(p->printer, " has waited %s for ", ct_text_time(text, wait->lasted_ns));
    print_lock(p, lock);
    print_function(p, " in ", lock->process, wait->caller, "");
    if (wait->holder == SIZE_MAX) {
        ct_printer_text(p->printer, "; its holder is not known\n");
        return;
    }
    const struct ct_lock_holder *holder = &lock->holders[wait->holder];
    ct_printer_text(p->printer, ", held by ");
    print_thread(p, holder->thread);
    ct_printer_text(p->printer, " since ");
    print_when(p, holder->since_ns);
    print_function(p, " (locked in ", lock->process, holder->caller, ")");
    ct_printer_text(p->printer, "\n");
}

static void print_waits(const struct page *p) {
    size_t cycle = SIZE_MAX;
    for (size_t i = 0; i < p->locks->wait_count; i++) {
        const struct ct_lock_wait *wait = &p->locks->waits[i];
        if (wait->cycle != cycle) {
            cycle = wait->cycle;
            ct_printer_colour(p->printer, cycle ? CT_COLOUR_RED : CT_COLOUR_BOLD);
            ct_printer_text(p->printer, cycle ? "Deadlock" : "Waiting at the end");
            ct_printer_colour(p->printer, CT_COLOUR_PLAIN);
            ct_printer_text(p->printer,
                            cycle ? ": each of these threads waits for the next, and the last for the first\n" : "\n");
        }
        print_wait(p, wait);
    }
    if (p->locks->wait_count)
        ct_printer_text(p->printer, "\n");
}

/* ---- locks ---- */

static void print_pairs(const struct page *p, const struct ct_lock *lock) {
    char count[CT_TEXT_SIZE], total[CT_TEXT_SIZE], most[CT_TEXT_SIZE];
    size_t shown = !p->limit || lock->pair_count < PAIRS ? lock->pair_count : PAIRS;
    for (size_t i = 0; i < shown; i++) {
        const struct ct_lock_pair *pair = &lock->pairs[i];
        ct_printer_spaces(p->printer, COUNT_WIDTH + GAP);
        print_thread(p, pair->waiter);
        ct_printer_format(p->printer, " waited %s time%s for ", ct_text_count(count, pair->count),
                          pair->count == 1 ? "" : "s");
        print_thread(p, pair->holder);
        ct_printer_format(p->printer, ": %s", ct_text_time(total, pair->total_ns));
        if (pair->count > 1)
            ct_printer_format(p->printer, ", longest %s", ct_text_time(most, pair->max_ns));
        ct_printer_text(p->printer, " at ");
        print_when(p, pair->max_at_ns);
        print_function(p, " in ", lock->process, pair->waiter_caller, "");
        ct_printer_text(p->printer, "\n");
    }
    if (shown < lock->pair_count)
        ct_printer_format(p->printer, "%*s... and %zu more pairs of threads (--limit 0)\n", COUNT_WIDTH + GAP, "",
                          lock->pair_count - shown);
}

static void print_locks(const struct page *p) {
    const struct ct_locks *locks = p->locks;
    char count[CT_TEXT_SIZE], waited[CT_TEXT_SIZE], total[CT_TEXT_SIZE], most[CT_TEXT_SIZE], held[CT_TEXT_SIZE];
    if (!locks->order_count)
        return;
    ct_printer_colour(p->printer, CT_COLOUR_BOLD);
    ct_printer_format(p->printer, "%*s  %*s  %*s  %*s  %*s  %s", COUNT_WIDTH, "CALLS", COUNT_WIDTH, "WAITED",
                      TIME_WIDTH, "TOTAL", TIME_WIDTH, "MAX", TIME_WIDTH, "MAX HELD", "LOCK");
    ct_printer_colour(p->printer, CT_COLOUR_PLAIN);
    ct_printer_text(p->printer, "\n");
    for (size_t i = 0; i < locks->order_count && (!p->limit || i < p->limit) && ct_printer_wanted(p->printer); i++) {
        const struct ct_lock *lock = &locks->locks[locks->order[i]];
        ct_printer_format(p->printer, "%*s  %*s  %*s  %*s  %*s  ", COUNT_WIDTH, ct_text_count(count, lock->locked),
                          COUNT_WIDTH, ct_text_count(waited, lock->waited), TIME_WIDTH,
                          ct_text_time(total, lock->total_ns), TIME_WIDTH, ct_text_time(most, lock->max_ns), TIME_WIDTH,
                          lock->held_max_ns ? ct_text_time(held, lock->held_max_ns) : "-");
        print_lock(p, lock);
        ct_printer_text(p->printer, "\n");
        print_pairs(p, lock);
    }
    if (p->limit && locks->order_count > p->limit)
        ct_printer_format(p->printer, "... and %zu more locks (--limit 0 shows all)\n",
                          locks->order_count - (size_t)p->limit);
    ct_printer_text(p->printer, "\n");
}

/* ---- functions ---- */

static void print_calls(const struct page *p) {
    const struct ct_locks *locks = p->locks;
    char count[CT_TEXT_SIZE], total[CT_TEXT_SIZE], most[CT_TEXT_SIZE];
    if (!locks->function_count)
        return;
    ct_printer_colour(p->printer, CT_COLOUR_BOLD);
    ct_printer_format(p->printer, "%*s  %*s  %*s  %s", COUNT_WIDTH, "CALLS", TIME_WIDTH, "TOTAL", TIME_WIDTH, "MAX",
                      "FUNCTION");
    ct_printer_colour(p->printer, CT_COLOUR_PLAIN);
    ct_printer_text(p->printer, "\n");
    for (size_t i = 0; i < locks->function_count && (!p->limit || i < p->limit); i++) {
        const struct ct_lock_calls *row = locks->functions[i];
        ct_printer_format(p->printer, "%*s  %*s  %*s  ", COUNT_WIDTH, ct_text_count(count, row->calls), TIME_WIDTH,
                          ct_text_time(total, row->total_ns), TIME_WIDTH, ct_text_time(most, row->max_ns));
        ct_printer_function(p->printer, row->function->name, 0);
        if (row->caller) {
            ct_printer_text(p->printer, ", called by ");
            ct_printer_function(p->printer, row->caller->name, 0);
        }
        if (row->open)
            ct_printer_format(p->printer, " (%s open)", ct_text_count(count, row->open));
        ct_printer_text(p->printer, "\n");
    }
    if (p->limit && locks->function_count > p->limit)
        ct_printer_format(p->printer, "... and %zu more functions and callers (--limit 0 shows all)\n",
                          locks->function_count - (size_t)p->limit);
}

static void print_notes(const struct page *p) {
    const struct ct_locks *locks = p->locks;
    char known[CT_TEXT_SIZE], calls[CT_TEXT_SIZE];
    if (!locks->function_count) {
        ct_printer_text(p->printer, "No call of a function that locks or waits was recorded.\n");
        return;
    }
    if (locks->known == locks->calls)
        return;
    ct_printer_format(
        p->printer,
        "\nThe lock is known of %s of %s calls: those whose arguments were recorded. Record with --detail "
        "always to know all,\nor mark a moment (contrail ctl PID mark, --trigger) to know those around it "
        "and the calls that are open then.\n",
        ct_text_count(known, locks->known), ct_text_count(calls, locks->calls));
}

int ct_report_locks(struct ct_trace *trace, const struct ct_select *select, uint64_t limit,
                    const char *const *directories, const struct ct_moment_clock *clock, bool json) {
    static struct ct_printer printer;
    struct ct_locks *locks;
    struct ct_json text = {0};
    int status = ct_locks_find(&locks, trace, select, directories);
    if (status)
        return ct_reading_fail(trace, status);
    int code;
    if (json) {
        ct_locks_json(locks, trace, ct_moment_wall(clock), &text);
        code = ct_reading_print_json(&text, 0);
    } else {
        const struct page p = {&printer, trace, locks, limit, clock};
        ct_printer_open(&printer, true);
        print_waits(&p);
        print_locks(&p);
        print_calls(&p);
        print_notes(&p);
        code = ct_printer_close(&printer);
    }
    ct_locks_free(locks);
    return code;
}

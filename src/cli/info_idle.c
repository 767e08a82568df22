/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `contrail info` about threads that did nothing for long: a line for each. Where many are in the same
 * calls they share one, so that a deadlock is seen among the workers of a pool. */
#include "cli/info_idle.h"
#include "cli/message.h"
#include "report/locks.h"
#include <inttypes.h>
#include <string.h>

enum { SHORT_LIST = 10, MANY = 4 };

struct page {
    struct ct_printer *printer;
    const struct ct_trace *trace;
    const struct ct_info *info;
};

static bool are_alike(const struct ct_idle *a, const struct ct_idle *b) {
    return a->call_count == b->call_count && a->inside == b->inside && a->unknown == b->unknown &&
           !a->open == !b->open && !memcmp(a->calls, b->calls, a->call_count * sizeof a->calls[0]);
}

/* How many threads are in the same calls as this one, from it on. */
static size_t count_alike(const struct ct_idle_list *list, size_t at) {
    size_t count = 0;
    for (size_t i = at; i < list->count; i++)
        count += are_alike(&list->items[at], &list->items[i]);
    return count;
}

/* The first thread that is in the same calls as this one. */
static size_t first_alike(const struct ct_idle_list *list, size_t at) {
    size_t i = 0;
    while (!are_alike(&list->items[i], &list->items[at]))
        i++;
    return i;
}

static void print_function(const struct page *p, uint64_t id) {
    const struct ct_trace_function *f = ct_trace_function(p->trace, p->info->crash->process, id);
    if (f)
        ct_printer_function(p->printer, f->name, 0);
    else
        ct_printer_format(p->printer, "%" PRIx64, id);
}

/* The name of a thread is worth a word when it is not the program's. */
static void print_thread(const struct page *p, size_t thread) {
    const struct ct_trace_thread *t = ct_trace_thread_at(p->trace, thread);
    const char *program = "";
    for (size_t i = 0; i < p->info->thread_count; i++) {
        const struct ct_trace_thread *other = ct_trace_thread_at(p->trace, p->info->threads[i]);
        if (other->tid == (uint32_t)p->info->process->pid)
            program = other->name;
    }
    ct_printer_format(p->printer, "%u", t->id);
    if (!*t->name || !strcmp(t->name, program))
        return;
    ct_printer_text(p->printer, " (");
    ct_printer_name(p->printer, t->name, 0);
    ct_printer_text(p->printer, ")");
}

/* Prints the numbers of `count` threads that are in the same calls. */
static void print_threads(const struct page *p, size_t first, size_t count) {
    const struct ct_idle_list *list = &p->info->idle;
    size_t shown = 0;
    ct_printer_text(p->printer, count == 1 ? "thread " : "threads ");
    for (size_t i = first; i < list->count && shown < MANY - 1 && shown < count; i++) {
        if (!are_alike(&list->items[first], &list->items[i]))
            continue;
        ct_printer_text(p->printer, shown++ ? ", " : "");
        print_thread(p, list->items[i].thread);
    }
    if (shown < count)
        ct_printer_format(p->printer, " and %zu more", count - shown);
    ct_printer_text(p->printer, count == 1 ? " has been in " : " have been in ");
}

static void print_calls(const struct page *p, const struct ct_idle *idle) {
    if (idle->unknown)
        ct_printer_text(p->printer, "a call that is not known");
    else if (!idle->call_count)
        ct_printer_text(p->printer, "no recorded call");
    else
        print_function(p, idle->calls[0]);
    for (size_t i = 1; i < idle->call_count; i++) {
        ct_printer_text(p->printer, i == 1 ? " (called by " : ", called by ");
        print_function(p, idle->calls[i]);
    }
    if (idle->call_count > 1)
        ct_printer_text(p->printer, ")");
    if (!idle->inside)
        return;
    ct_printer_text(p->printer, ", or in ");
    print_function(p, idle->inside);
    ct_printer_text(p->printer, " (recorded on entry only),");
}

static void print_line(const struct page *p, size_t first, size_t count) {
    const struct ct_idle *idle = &p->info->idle.items[first];
    char text[CT_TEXT_SIZE];
    print_threads(p, first, count);
    print_calls(p, idle);
    ct_printer_format(p->printer, " for %s%s%s\n", count > 1 ? "up to " : "", ct_text_time(text, idle->idle_ns),
                      p->info->process->recording_known ? "" : ", until the last event");
}

/* True when a thread waits for a lock. */
static bool has_wait(const struct page *p) {
    for (size_t i = 0; i < p->info->idle.count; i++) {
        const struct ct_idle *idle = &p->info->idle.items[i];
        for (size_t k = 0; k < idle->call_count; k++) {
            const struct ct_trace_function *f = ct_trace_function(p->trace, p->info->crash->process, idle->calls[k]);
            if (f && ct_locks_is_wait(f->name))
                return true;
        }
    }
    return false;
}

void ct_info_idle_print(struct ct_printer *printer, const struct ct_trace *trace, const struct ct_info *info, int label,
                        bool all) {
    const struct page p = {printer, trace, info};
    size_t lines = 0;
    for (size_t i = 0; i < info->idle.count; i++) {
        size_t first = first_alike(&info->idle, i), alike = count_alike(&info->idle, first);
        bool together = alike >= MANY && !all;
        if (together && first < i)
            continue;
        if (lines++ >= SHORT_LIST && !all)
            continue;
        ct_printer_colour(printer, CT_COLOUR_BOLD);
        ct_printer_format(printer, "%-*s", label, lines == 1 ? "Idle" : "");
        ct_printer_colour(printer, CT_COLOUR_PLAIN);
        print_line(&p, i, together ? alike : 1);
    }
    if (lines > SHORT_LIST && !all)
        ct_printer_format(printer, "%*s... and %zu more (--all)\n", label, "", lines - SHORT_LIST);
    if (has_wait(&p))
        ct_printer_format(printer,
                          "%*s`contrail report --locks` shows which threads wait for which lock, and which thread "
                          "holds it\n",
                          label, "");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How long single calls took: a bar for each power of two, and percentiles. */
#include "cli/report_histogram.h"
#include "cli/command.h"
#include "cli/reading.h"
#include <stdlib.h>
#include <string.h>

enum { TIME_WIDTH = 8, COUNT_WIDTH = 11, SHARE_WIDTH = 6, GAP = 2, LEAST_BAR = 10 };
enum { TABLE_WIDTH = 2 * TIME_WIDTH + COUNT_WIDTH + SHARE_WIDTH + 4 * GAP };

struct latency {
    struct ct_histogram times; /* of all functions together */
    uint64_t average_ns, open, functions;
    unsigned first, last; /* powers of two that have calls */
    uint64_t most;        /* calls of one of them */
};

static const struct {
    const char *title, *key;
    double fraction;
} percentiles[] = {
    {"p50", "p50_ns", 0.5},  {"p90", "p90_ns", 0.9},      {"p95", "p95_ns", 0.95},
    {"p99", "p99_ns", 0.99}, {"p99.9", "p999_ns", 0.999},
};
enum { PERCENTILES = sizeof percentiles / sizeof percentiles[0] };

/* ---- gathering ---- */

/* False: out of memory. */
static bool gather(struct latency *l, const struct ct_report *report) {
    double sum = 0;
    for (size_t i = 0; i < report->row_count; i++) {
        const struct ct_report_row *row = &report->rows[i];
        if (row->times && !ct_histogram_merge(&l->times, row->times))
            return false;
        sum += (double)row->avg_ns * (double)row->timed;
        l->open += row->open;
        l->functions++;
    }
    if (!l->times.count)
        return true;
    l->average_ns = (uint64_t)(sum / (double)l->times.count);
    l->first = ct_histogram_power(l->times.min);
    l->last = ct_histogram_power(l->times.max);
    for (unsigned power = l->first; power <= l->last; power++) {
        uint64_t count = ct_histogram_count(&l->times, power);
        l->most = count > l->most ? count : l->most;
    }
    return true;
}

/* Powers of two: the first one begins at 0. */
static uint64_t begin_of(unsigned power) {
    return power ? 1ull << power : 0;
}

static uint64_t end_of(unsigned power) {
    return power < 63 ? 2ull << power : UINT64_MAX;
}

/* ---- the picture ---- */

static void print_bar(struct ct_printer *p, uint64_t count, uint64_t most) {
    size_t columns = ct_printer_columns(p);
    size_t room = columns > TABLE_WIDTH + LEAST_BAR ? columns - TABLE_WIDTH : LEAST_BAR;
    size_t length = (size_t)((double)count / (double)most * (double)room);
    if (count && !length)
        length = 1;
    ct_printer_colour(p, CT_COLOUR_CYAN);
    while (length--)
        ct_printer_text(p, p->utf8 ? "█" : "#");
    ct_printer_colour(p, CT_COLOUR_PLAIN);
}

static void print_bucket(struct ct_printer *p, const struct latency *l, unsigned power) {
    char from[CT_TEXT_SIZE], to[CT_TEXT_SIZE], calls[CT_TEXT_SIZE], share[CT_TEXT_SIZE];
    uint64_t count = ct_histogram_count(&l->times, power);
    ct_printer_format(p, "%*s%*s%*s%*s%*s%*s%*s", TIME_WIDTH, ct_text_time(from, begin_of(power)), GAP, "", TIME_WIDTH,
                      ct_text_time(to, end_of(power)), GAP, "", COUNT_WIDTH, ct_text_count(calls, count), GAP, "",
                      SHARE_WIDTH, ct_text_percent(share, count, l->times.count));
    if (count) {
        ct_printer_spaces(p, GAP);
        print_bar(p, count, l->most);
    }
    ct_printer_text(p, "\n");
}

static void print_buckets(struct ct_printer *p, const struct latency *l) {
    ct_printer_colour(p, CT_COLOUR_BOLD);
    ct_printer_format(p, "%*s%*s%*s%*s%*s%*s%*s", TIME_WIDTH, "FROM", GAP, "", TIME_WIDTH, "BELOW", GAP, "",
                      COUNT_WIDTH, "CALLS", GAP, "", SHARE_WIDTH, "SHARE");
    ct_printer_colour(p, CT_COLOUR_PLAIN);
    ct_printer_text(p, "\n");
    for (unsigned power = l->first; power <= l->last && ct_printer_wanted(p); power++)
        print_bucket(p, l, power);
}

static int print_latency(const struct latency *l, const struct ct_report *report) {
    static struct ct_printer p;
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE];
    ct_printer_open(&p, true);
    if (l->times.count) {
        print_buckets(&p, l);
        ct_printer_format(&p, "\nmin %s; avg %s; max %s\n", ct_text_time(a, l->times.min),
                          ct_text_time(b, l->average_ns), ct_text_time(c, l->times.max));
        for (size_t i = 0; i < PERCENTILES; i++)
            ct_printer_format(&p, "%s%s %s", i ? "; " : "", percentiles[i].title,
                              ct_text_time(a, ct_histogram_at(&l->times, percentiles[i].fraction)));
        ct_printer_text(&p, "\n");
    } else {
        ct_printer_text(&p, "No call has a time\n");
    }
    ct_printer_format(&p, "Calls with a time: %s; functions: %s; threads: %s\n", ct_text_count(a, l->times.count),
                      ct_text_count(b, l->functions), ct_text_count(c, report->threads));
    if (l->open)
        ct_printer_format(&p, "Calls open at the end: %s; their time reaches until then\n", ct_text_count(a, l->open));
    if (report->gaps)
        ct_printer_format(&p, "Gaps: %s; events lost: %s; times do not include the time in gaps\n",
                          ct_text_count(a, report->gaps), ct_text_count(b, report->lost));
    return ct_printer_close(&p);
}

/* ---- JSON ---- */

static int print_json(const struct latency *l, const struct ct_report *report, const struct ct_trace *trace) {
    struct ct_json json = {0};
    ct_json_begin(&json, NULL, '{');
    ct_json_string(&json, "trace", ct_trace_path(trace));
    ct_json_number(&json, "threads", report->threads);
    ct_json_number(&json, "functions", l->functions);
    ct_json_number(&json, "calls", l->times.count);
    ct_json_number(&json, "open", l->open);
    ct_json_number(&json, "min_ns", l->times.min);
    ct_json_number(&json, "avg_ns", l->average_ns);
    ct_json_number(&json, "max_ns", l->times.max);
    for (size_t i = 0; i < PERCENTILES; i++)
        ct_json_number(&json, percentiles[i].key, ct_histogram_at(&l->times, percentiles[i].fraction));
    ct_json_begin(&json, "buckets", '[');
    for (unsigned power = l->first; l->times.count && power <= l->last; power++) {
        ct_json_begin(&json, NULL, '{');
        ct_json_number(&json, "from_ns", begin_of(power));
        ct_json_number(&json, "below_ns", end_of(power));
        ct_json_number(&json, "calls", ct_histogram_count(&l->times, power));
        ct_json_end(&json, '}');
    }
    ct_json_end(&json, ']');
    ct_json_end(&json, '}');
    return ct_reading_print_json(&json, 0);
}

/* ---- the command ---- */

static int show(const struct ct_report *report, const struct ct_trace *trace, const char *glob, bool json) {
    struct latency latency = {0};
    int code;
    if (!report->row_count) {
        ct_message_error("no function that was called matches \"%s\"; `contrail report` lists those that were", glob);
        return CT_EXIT_UNAVAILABLE;
    }
    if (!gather(&latency, report))
        code = ct_message_fail(CT_ERR_NO_MEMORY, NULL);
    else
        code = json ? print_json(&latency, report, trace) : print_latency(&latency, report);
    ct_histogram_free(&latency.times);
    return code;
}

int ct_report_histogram(struct ct_trace *trace, const struct ct_report_options *options, const char *glob, bool json) {
    struct ct_report_options wanted = *options;
    size_t count = 0;
    while (options->select.functions && options->select.functions[count])
        count++;
    const char **functions = calloc(count + 2, sizeof *functions);
    if (!functions)
        return ct_message_fail(CT_ERR_NO_MEMORY, NULL);
    for (size_t i = 0; i < count; i++)
        functions[i] = options->select.functions[i];
    functions[count] = glob;
    wanted.select.functions = functions;
    wanted.limit = 0;
    wanted.times = true;
    struct ct_report *report;
    int status = ct_report_make(&report, trace, &wanted);
    int code = status ? ct_reading_fail(trace, status) : show(report, trace, glob, json);
    if (!status)
        ct_report_free(report);
    free(functions);
    return code;
}

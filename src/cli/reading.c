/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that read traces share. */
#include "cli/reading.h"
#include "cli/command.h"
#include "cli/config.h"
#include "cli/rights.h"
#include "report/output.h"
#include "trace/manifests.h"
#include "trace/reader.h"
#include "base/json_write.h"
#include <stdlib.h>

const char *ct_reading_root(void) {
    static char *root; /* the current directory does not change */
    if (!root)
        root = ct_config_output();
    return root ? root : CT_CONFIG_OUTPUT;
}

struct ct_operands ct_reading_named(const struct ct_operands *operands) {
    static char *newest[1]; /* the trace is searched for there, by the user who recorded it */
    newest[0] = (char *)ct_reading_root();
    return operands->count ? *operands : (struct ct_operands){.count = 1, .at = newest};
}

void ct_reading_drop_rights(const struct ct_operands *operands) {
    const struct ct_operands traces = ct_reading_named(operands);
    struct ct_rights rights = ct_rights_to_read(traces.at, traces.count);
    ct_printer_prepare();
    ct_rights_drop(&rights, false);
}

int ct_reading_open_unchecked(struct ct_trace **out, const struct ct_operands *operands) {
    ct_reading_drop_rights(operands);
    return ct_reading_open_next(out, operands);
}

int ct_reading_open(struct ct_trace **out, const struct ct_operands *operands) {
    int code = ct_reading_open_unchecked(out, operands);
    if (code < 0) {
        ct_reading_report_damage(*out);
        ct_reading_report_clock(*out);
    }
    return code;
}

void ct_reading_report_clock(const struct ct_trace *trace) {
    char text[CT_TEXT_SIZE];
    uint64_t late = ct_manifests_late_ns(trace);
    if (late)
        ct_message_error("recorded with --clock fast: a time may be late by up to %s, so shorter durations are only "
                         "right on average; counts and order are exact",
                         ct_text_time(text, late));
}

void ct_reading_report_sampled(const struct ct_trace *trace) {
    uint64_t rate = ct_manifests_sample_rate(trace);
    if (rate)
        ct_message_error(
            "%s was recorded with --sample %llu: most calls were counted, but not recorded; times, callers and "
            "single calls are those of the sample",
            ct_trace_path(trace), (unsigned long long)rate);
}

/* ---- damage ---- */

enum { DAMAGE_LINES = 5 };

static void on_damage(void *arg, const char *sentence) {
    size_t *lines = arg;
    if ((*lines)++ < DAMAGE_LINES)
        ct_message_error("%s", sentence);
}

void ct_reading_report_damage(struct ct_trace *trace) {
    size_t lines = 0;
    ct_trace_damage(trace, on_damage, &lines);
    if (lines > DAMAGE_LINES)
        ct_message_error("%zu more such problems; `contrail info %s` and `contrail verify %s` list them",
                         lines - DAMAGE_LINES, ct_trace_path(trace), ct_trace_path(trace));
}

int ct_reading_close(struct ct_trace *trace, int code, bool allow_damaged) {
    uint64_t blocks = ct_trace_unreadable_blocks(trace);
    bool damaged = blocks || ct_trace_damage(trace, NULL, NULL);
    if (blocks)
        ct_message_error("%s: blocks of events are damaged, and these events are missing here; `contrail verify %s` "
                         "says which",
                         ct_trace_path(trace), ct_trace_path(trace));
    ct_trace_close(trace);
    /* What was not found may be in the part that is missing. */
    bool replaces = code == 0 || code == (int)CT_EXIT_UNAVAILABLE;
    return damaged && replaces && !allow_damaged ? (int)CT_EXIT_DAMAGED : code;
}

int ct_reading_open_next(struct ct_trace **out, const struct ct_operands *operands) {
    char error[1024], *newest = operands->count ? NULL : ct_find_newest_session(ct_reading_root());
    if (!operands->count && !newest) {
        ct_message_error("no trace found under %s; record one with contrail spawn PROG", ct_reading_root());
        return CT_EXIT_UNAVAILABLE;
    }
    int status = ct_trace_open(out, newest ? newest : operands->at[0], error, sizeof error);
    free(newest);
    return status ? ct_message_fail(status, error) : -1;
}

bool ct_reading_check_blocks(const struct ct_trace *trace, const struct ct_select *select) {
    for (size_t i = 0; i < ct_trace_thread_count(trace); i++)
        if (ct_select_thread(select, trace, i) && ct_trace_has_code(trace, i))
            return true;
    ct_message_error("no blocks were recorded in %s; follow the program with contrail stalk --events block",
                     ct_trace_path(trace));
    return false;
}

int ct_reading_thread_text(char *text, size_t size, const struct ct_trace_thread *thread) {
    return snprintf(text, size, "%s%s%u", thread->name, *thread->name ? "/" : "", thread->tid);
}

int ct_reading_fail(const struct ct_trace *trace, int status) {
    ct_message_error("%s: %s", ct_trace_path(trace), ct_status_text(status));
    return ct_message_exit_code(status);
}

int ct_reading_print_json(struct ct_json *json, int status) {
    static struct ct_printer printer;
    if (!status && json->failed)
        status = CT_ERR_NO_MEMORY;
    if (status) {
        ct_json_free(json);
        return ct_message_fail(status, NULL);
    }
    ct_printer_open(&printer, false);
    ct_printer_bytes(&printer, json->text, json->length);
    if (!json->length || json->text[json->length - 1] != '\n')
        ct_printer_text(&printer, "\n");
    ct_json_free(json);
    return ct_printer_close(&printer);
}

int ct_reading_print_text(struct ct_output *text) {
    static struct ct_printer printer;
    if (text->failed) {
        ct_output_free(text);
        return ct_message_fail(CT_ERR_NO_MEMORY, NULL);
    }
    ct_printer_open(&printer, false);
    ct_printer_bytes(&printer, text->data, text->length ? ct_message_clean_lines(text->data, text->length) : 0);
    ct_output_free(text);
    return ct_printer_close(&printer);
}

int ct_reading_put_json(struct ct_json *json, int status) {
    if (!status && json->failed)
        status = CT_ERR_NO_MEMORY;
    if (!status) {
        fwrite(json->text, 1, json->length, stdout);
        putchar('\n');
    }
    ct_json_free(json);
    return status;
}

const char *const ct_clock_names[] = {"start", "boot", "wall", NULL};

int ct_reading_wall(struct ct_wall *wall, const struct ct_trace *trace) {
    int status = ct_wall_load(wall, trace);
    if (status)
        return ct_reading_fail(trace, status);
    if (wall->count)
        return -1;
    ct_message_error("%s has no wall-clock times, since an older contrail recorded it; use times since the beginning",
                     ct_trace_path(trace));
    return CT_EXIT_UNAVAILABLE;
}

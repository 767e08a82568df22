/* SPDX-License-Identifier: Apache-2.0 */
/* What all answers share: see answer.h. */
#include "view/answer.h"
#include "base/grow.h"
#include "trace/reader.h"
#include <contrail/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- arguments ---- */

const char *ct_view_text(const struct ct_view_answer *a, const char *name, const char *otherwise) {
    const char *value = ct_http_argument(a->request, name);
    return value ? value : otherwise;
}

/* Digits alone; others are as if they were not there. */
static bool read_number(const char *text, uint64_t *number) {
    uint64_t value = 0;
    if (!text || !*text || strlen(text) > 18)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (uint64_t)(*text - '0');
    }
    *number = value;
    return true;
}

uint64_t ct_view_number(const struct ct_view_answer *a, const char *name, uint64_t otherwise) {
    uint64_t value;
    return read_number(ct_http_argument(a->request, name), &value) ? value : otherwise;
}

uint64_t ct_view_time(const struct ct_view_answer *a, const char *name, uint64_t otherwise) {
    const char *text = ct_http_argument(a->request, name);
    uint64_t value;
    if (text && *text == '-')
        return a->reader->source->start_ns;
    return read_number(text, &value) ? a->reader->source->start_ns + value : otherwise;
}

uint64_t ct_view_end(const struct ct_view_answer *a) {
    uint64_t end = a->reader->source->start_ns + 1;
    for (size_t i = 0; i < ct_trace_process_count(a->reader->trace); i++) {
        const struct ct_trace_process *p = ct_trace_process_at(a->reader->trace, i);
        end = p->time_end_ns >= end ? p->time_end_ns + 1 : end;
        end = p->complete && p->recording_end_ns > end ? p->recording_end_ns : end;
    }
    return end;
}

void ct_view_range(const struct ct_view_answer *a, uint64_t *from_ns, uint64_t *to_ns) {
    *from_ns = ct_view_time(a, "from", a->reader->source->start_ns);
    *to_ns = ct_view_time(a, "to", ct_view_end(a));
    if (*to_ns <= *from_ns)
        *to_ns = *from_ns + 1;
}

bool ct_view_thread(struct ct_view_answer *a, size_t *thread) {
    uint64_t number = ct_view_number(a, "thread", 0);
    if (!number || number > ct_trace_thread_count(a->reader->trace)) {
        ct_view_refuse(a, 404, "the trace has no such thread");
        return false;
    }
    *thread = (size_t)number - 1;
    return true;
}

/* ---- errors ---- */

void ct_view_refuse(struct ct_view_answer *a, unsigned status, const char *error) {
    a->status = status;
    a->error = error;
}

void ct_view_fail(struct ct_view_answer *a, int status) {
    if (status == CT_ERR_TIMEOUT)
        ct_view_refuse(a, 503, "the answer takes too long; choose a shorter range");
    else
        ct_view_refuse(a, status == CT_ERR_NOT_FOUND ? 404 : 500, ct_status_text(status));
}

/* ---- writing ---- */

void ct_view_put_time(struct ct_view_answer *a, const char *key, uint64_t boot_ns) {
    ct_json_signed(&a->json, key, ct_source_time(a->reader->source, boot_ns));
}

uint32_t ct_view_function(struct ct_view_answer *a, size_t process, uint64_t function) {
    return ct_view_names_number(&a->trace->names, process, function, &a->reader->source->names);
}

void ct_view_use(struct ct_view_used *used, uint32_t number) {
    if (number != UINT32_MAX && ct_grow(&used->numbers, &used->room, used->count, sizeof *used->numbers, 256))
        used->numbers[used->count++] = number;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void ct_view_put_functions(struct ct_view_answer *a, struct ct_view_used *used) {
    if (used->count)
        qsort(used->numbers, used->count, sizeof *used->numbers, by_number);
    ct_json_begin(&a->json, "functions", '{');
    for (size_t i = 0; i < used->count; i++) {
        const struct ct_view_name *name = ct_view_names_get(&a->trace->names, used->numbers[i]);
        char key[16];
        if (!name || (i && used->numbers[i] == used->numbers[i - 1]))
            continue;
        snprintf(key, sizeof key, "%u", used->numbers[i]);
        ct_json_begin(&a->json, key, '[');
        ct_json_string(&a->json, NULL, name->name);
        ct_json_string(&a->json, NULL, name->brief);
        ct_json_string(&a->json, NULL, name->module);
        ct_json_end(&a->json, ']');
    }
    ct_json_end(&a->json, '}');
    free(used->numbers);
}

void ct_view_put_cell(struct ct_view_answer *a, const char *key, struct ct_rows *rows, int column) {
    struct ct_cell cell;
    ct_rows_cell(rows, column, &cell);
    switch (cell.type) {
    case CT_CELL_INTEGER:
        return ct_json_signed(&a->json, key, cell.integer);
    case CT_CELL_REAL:
        return ct_json_real(&a->json, key, cell.real);
    case CT_CELL_TEXT:
        return ct_json_string(&a->json, key, cell.text);
    default:
        return ct_json_null(&a->json, key);
    }
}

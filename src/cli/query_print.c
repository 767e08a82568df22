/* SPDX-License-Identifier: Apache-2.0 */
/* Prints rows of a query: see query_print.h. */
#include "cli/query_print.h"
#include "base/grow.h"
#include "base/json_write.h"
#include "report/output.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HELD_ROWS = 1000, MOST_BARS = 10000, GAP = 2, LEAST_WIDTH = 8, LEAST_BAR = 10 };

/* ---- values as text ---- */

static char *text_of(const struct ct_cell *cell) {
    char text[64];
    switch (cell->type) {
    case CT_CELL_INTEGER:
        snprintf(text, sizeof text, "%" PRId64, cell->integer);
        return strdup(text);
    case CT_CELL_REAL:
        snprintf(text, sizeof text, "%.10g", cell->real);
        return strdup(text);
    case CT_CELL_TEXT:
        return strdup(cell->text);
    default:
        return NULL;
    }
}

/* Columns that a text takes on the terminal. */
static size_t width_of(const char *text) {
    size_t width = 0, length = strlen(text);
    bool shown;
    while (length) {
        size_t size = ct_message_character(text, length, &shown);
        text += size;
        length -= size;
        width++;
    }
    return width;
}

static void open_output(struct ct_query_print *p, bool page) {
    if (p->open)
        return;
    if (p->before)
        p->before(p->arg);
    ct_printer_open(&p->printer, page);
    p->open = true;
}

/* ---- tables ---- */

static const char *held_at(const struct ct_query_print *p, size_t row, int column) {
    return p->held[row * (size_t)p->columns + (size_t)column];
}

static size_t held_rows(const struct ct_query_print *p) {
    return p->columns ? p->held_count / (size_t)p->columns : 0;
}

static void measure(struct ct_query_print *p) {
    for (int i = 0; i < p->columns; i++) {
        p->widths[i] = width_of(ct_query_column(p->query, i));
        for (size_t k = 0; k < held_rows(p); k++) {
            size_t width = held_at(p, k, i) ? width_of(held_at(p, k, i)) : 0;
            p->widths[i] = width > p->widths[i] ? width : p->widths[i];
        }
    }
}

/* Makes the widest columns of text narrower until `room` columns are enough. */
static void shrink(struct ct_query_print *p, size_t room) {
    for (;;) {
        size_t total = 0, widest = SIZE_MAX;
        for (size_t i = 0; i < (size_t)p->columns; i++) {
            total += p->widths[i] + (i ? GAP : 0);
            if (!p->numbers[i] && p->widths[i] > LEAST_WIDTH &&
                (widest == SIZE_MAX || p->widths[i] > p->widths[widest]))
                widest = i;
        }
        if (total <= room || widest == SIZE_MAX)
            return;
        p->widths[widest] -= 1;
    }
}

static void print_value(struct ct_query_print *p, int column, const char *text, bool last) {
    size_t width = p->widths[column], own = text ? width_of(text) : 0;
    bool cut = p->printer.width && !p->numbers[column];
    if (p->numbers[column] && own < width)
        ct_printer_spaces(&p->printer, width - own);
    size_t took = text ? ct_printer_name(&p->printer, text, cut ? width : 0) : 0;
    if (!last && !p->numbers[column] && took < width)
        ct_printer_spaces(&p->printer, width - took);
    if (!last)
        ct_printer_spaces(&p->printer, GAP);
}

static void print_header(struct ct_query_print *p) {
    ct_printer_colour(&p->printer, CT_COLOUR_BOLD);
    for (int i = 0; i < p->columns; i++)
        print_value(p, i, ct_query_column(p->query, i), i + 1 == p->columns);
    ct_printer_colour(&p->printer, CT_COLOUR_PLAIN);
    ct_printer_text(&p->printer, "\n");
    p->headed = true;
}

static void print_held(struct ct_query_print *p) {
    open_output(p, true);
    if (!p->headed) {
        measure(p);
        if (p->printer.width)
            shrink(p, (size_t)p->printer.width);
        print_header(p);
    }
    for (size_t row = 0; row < held_rows(p) && ct_printer_wanted(&p->printer); row++) {
        for (int i = 0; i < p->columns; i++)
            print_value(p, i, held_at(p, row, i), i + 1 == p->columns);
        ct_printer_text(&p->printer, "\n");
    }
}

/* ---- bars ---- */

static double largest_value(const struct ct_query_print *p) {
    double largest = 0;
    for (size_t i = 0; i < held_rows(p); i++)
        largest = p->values[i] > largest ? p->values[i] : largest;
    return largest;
}

static void print_bar(struct ct_query_print *p, double part, size_t room) {
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    size_t steps = part > 0 ? (size_t)(part * (double)room * 8 + 0.5) : 0;
    for (size_t i = 0; i < steps / 8; i++)
        ct_printer_text(&p->printer, p->printer.utf8 ? "█" : "#");
    if (p->printer.utf8)
        ct_printer_text(&p->printer, eighths[steps % 8]);
}

/* The last column is the length of the bar. */
static void print_bars(struct ct_query_print *p) {
    open_output(p, true);
    measure(p);
    size_t columns = ct_printer_columns(&p->printer), used = GAP;
    shrink(p, columns > 2 * LEAST_BAR ? columns - LEAST_BAR - GAP : LEAST_BAR);
    for (int i = 0; i < p->columns; i++)
        used += p->widths[i] + (i ? GAP : 0);
    double largest = largest_value(p);
    for (size_t row = 0; row < held_rows(p) && ct_printer_wanted(&p->printer); row++) {
        for (int i = 0; i < p->columns; i++)
            print_value(p, i, held_at(p, row, i), false);
        print_bar(p, largest > 0 ? p->values[row] / largest : 0, columns > used ? columns - used : LEAST_BAR);
        ct_printer_text(&p->printer, "\n");
    }
}

/* ---- rows that are held ---- */

static void forget_held(struct ct_query_print *p) {
    for (size_t i = 0; i < p->held_count; i++)
        free(p->held[i]);
    p->held_count = 0;
}

static void hold_row(struct ct_query_print *p) {
    struct ct_cell cell = {0};
    if (!ct_grow(&p->held, &p->held_room, p->held_count + (size_t)p->columns, sizeof *p->held, 1024)) {
        p->failed = true;
        return;
    }
    for (int i = 0; i < p->columns; i++) {
        ct_query_value(p->query, i, &cell);
        char *text = text_of(&cell);
        p->failed |= cell.type != CT_CELL_NULL && !text;
        p->numbers[i] &= cell.type != CT_CELL_TEXT;
        p->held[p->held_count++] = text;
    }
    if (p->values)
        p->values[held_rows(p) - 1] = cell.type == CT_CELL_INTEGER ? (double)cell.integer
                                      : cell.type == CT_CELL_REAL  ? cell.real
                                                                   : 0;
}

/* ---- CSV and JSON ---- */

static void csv_line(struct ct_query_print *p, bool header) {
    struct ct_output line = {0};
    struct ct_cell cell;
    for (int i = 0; i < p->columns; i++) {
        if (i)
            ct_output_bytes(&line, ",", 1);
        if (!header)
            ct_query_value(p->query, i, &cell);
        char *text = header ? strdup(ct_query_column(p->query, i)) : text_of(&cell);
        if (text)
            ct_output_field(&line, text);
        free(text);
    }
    ct_output_bytes(&line, "\n", 1);
    p->failed |= line.failed;
    if (!line.failed)
        ct_printer_bytes(&p->printer, line.data, ct_message_clean_lines(line.data, line.length));
    ct_output_free(&line);
}

static void json_value(struct ct_json *json, const char *key, const struct ct_cell *cell) {
    switch (cell->type) {
    case CT_CELL_INTEGER:
        return ct_json_signed(json, key, cell->integer);
    case CT_CELL_REAL:
        return ct_json_real(json, key, cell->real);
    case CT_CELL_TEXT:
        return ct_json_string(json, key, cell->text);
    default:
        return ct_json_null(json, key);
    }
}

static void json_row(struct ct_query_print *p) {
    struct ct_json json = {0};
    struct ct_cell cell;
    ct_json_begin(&json, NULL, '{');
    for (int i = 0; i < p->columns; i++) {
        ct_query_value(p->query, i, &cell);
        json_value(&json, ct_query_column(p->query, i), &cell);
    }
    ct_json_end(&json, '}');
    p->failed |= json.failed;
    if (p->form == CT_QUERY_JSON)
        ct_printer_text(&p->printer, p->rows > 1 ? ",\n" : "[\n");
    if (!json.failed)
        ct_printer_bytes(&p->printer, json.text, json.length);
    if (p->form == CT_QUERY_NDJSON)
        ct_printer_text(&p->printer, "\n");
    ct_json_free(&json);
}

/* ---- all ---- */

void ct_query_print_begin(struct ct_query_print *p, const struct ct_query *query, enum ct_query_form form) {
    p->form = form;
    p->query = query;
    p->rows = 0;
    p->open = p->headed = p->failed = false;
    p->columns = ct_query_column_count(query);
    p->held = NULL;
    p->held_count = p->held_room = 0;
    p->numbers = malloc((size_t)p->columns * sizeof *p->numbers + 1);
    p->widths = calloc((size_t)p->columns + 1, sizeof *p->widths);
    p->values = form == CT_QUERY_BAR ? calloc(MOST_BARS, sizeof *p->values) : NULL;
    p->failed = !p->numbers || !p->widths || (form == CT_QUERY_BAR && !p->values);
    if (p->numbers)
        memset(p->numbers, 1, (size_t)p->columns * sizeof *p->numbers);
}

/* The header of CSV. */
static void begin_stream(struct ct_query_print *p) {
    open_output(p, false);
    if (p->form == CT_QUERY_CSV && !p->headed)
        csv_line(p, true);
    p->headed = true;
}

bool ct_query_print_row(struct ct_query_print *p) {
    p->rows++;
    if (p->failed)
        return false;
    if (p->form == CT_QUERY_BAR || p->form == CT_QUERY_TABLE) {
        hold_row(p);
        if (p->form == CT_QUERY_BAR)
            return held_rows(p) < MOST_BARS;
        if (held_rows(p) < HELD_ROWS)
            return true;
        print_held(p);
        forget_held(p);
        return ct_printer_wanted(&p->printer);
    }
    begin_stream(p);
    if (p->form == CT_QUERY_CSV)
        csv_line(p, false);
    else
        json_row(p);
    return ct_printer_wanted(&p->printer);
}

int ct_query_print_end(struct ct_query_print *p) {
    if (!p->failed && p->form == CT_QUERY_BAR)
        print_bars(p);
    else if (!p->failed && p->form == CT_QUERY_TABLE)
        print_held(p);
    else if (!p->failed)
        begin_stream(p);
    if (p->form == CT_QUERY_JSON && p->open)
        ct_printer_text(&p->printer, p->rows ? "\n]\n" : "[]\n");
    forget_held(p);
    free(p->held);
    free(p->numbers);
    free(p->widths);
    free(p->values);
    int code = p->open ? ct_printer_close(&p->printer) : 0;
    return p->failed ? ct_message_fail(CT_ERR_NO_MEMORY, NULL) : code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `contrail report --args` under each row. */
#include "cli/report_values.h"

enum { SHOWN = 4, SHORT_LIST = 6 };

static void print_value(struct ct_printer *printer, const struct ct_parameter_values *p, size_t index) {
    const struct ct_value_count *v = &p->kept[index];
    char text[CT_TEXT_SIZE];
    ct_printer_text(printer, index ? ", " : "");
    ct_printer_name(printer, v->text, 0);
    ct_printer_format(printer, " (%s%s)", v->error ? "at least " : "",
                      ct_text_percent(text, v->count - v->error, p->values));
}

/* Of many different values, counts only those that are known to be frequent. */
static size_t count_frequent(const struct ct_parameter_values *p) {
    size_t most = p->kept_count <= SHORT_LIST && !p->more ? p->kept_count : SHOWN, count = 0;
    while (count < most && count < p->kept_count && p->kept[count].count > p->kept[count].error &&
           (!p->more || (p->kept[count].count - p->kept[count].error) * 50 >= p->values))
        count++;
    return count;
}

static void print_parameter(struct ct_printer *printer, const struct ct_parameter_values *p, const char *name) {
    char text[128], number[CT_TEXT_SIZE];
    size_t shown = count_frequent(p);
    ct_printer_name(printer, name, 0);
    ct_printer_text(printer, ": ");
    if (!p->values) {
        ct_printer_text(printer, "?");
        return;
    }
    if (p->kept_count == 1 && !p->more) { /* only one value */
        ct_printer_text(printer, "always ");
        ct_printer_name(printer, p->kept[0].text, 0);
        return;
    }
    ct_values_range(p, text, sizeof text);
    ct_printer_text(printer, text);
    ct_printer_text(printer, *text && shown ? "; " : "");
    for (size_t i = 0; i < shown; i++)
        print_value(printer, p, i);
    if (p->more)
        ct_printer_format(printer, "%smore than %d different values", *text || shown ? "; " : "", CT_VALUES_KEPT);
    else if (p->kept_count > shown)
        ct_printer_format(printer, "%s%zu other values", shown ? ", " : *text ? "; " : "", p->kept_count - shown);
    if (p->unknown)
        ct_printer_format(printer, "; %s not known", ct_text_count(number, p->unknown));
}

/* Prints a line for each parameter, and one line for all registers. */
static void print_parameters(struct ct_printer *printer, const struct ct_function_values *values, size_t indent) {
    for (size_t i = 0; i < values->count; i++) {
        bool first = values->named || i == 0;
        if (first)
            ct_printer_spaces(printer, indent);
        ct_printer_text(printer, first ? "" : "; ");
        print_parameter(printer, &values->parameters[i],
                        values->parameters[i].name[0] ? values->parameters[i].name : "(unnamed)");
        if (values->named || i + 1 == values->count)
            ct_printer_text(printer, "\n");
    }
}

void ct_report_values_print(struct ct_printer *printer, const struct ct_function_values *values, uint64_t calls,
                            size_t indent) {
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    if (!values->calls && !values->returns)
        return;
    if (values->calls < calls) {
        ct_printer_spaces(printer, indent + 2);
        ct_printer_format(printer, "of %s of %s calls:\n", ct_text_count(a, values->calls), ct_text_count(b, calls));
    }
    print_parameters(printer, values, indent + 2);
    if (values->result.values + values->result.unknown) {
        ct_printer_spaces(printer, indent + 2);
        print_parameter(printer, &values->result, "returns");
        ct_printer_text(printer, "\n");
    }
}

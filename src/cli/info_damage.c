/* SPDX-License-Identifier: Apache-2.0 */
/* What is missing in a trace, for contrail info. */
#include "cli/info_damage.h"

enum { SHORT_LIST = 10 };

struct list {
    struct ct_printer *printer;
    size_t count, shown;
};

static void print_sentence(void *arg, const char *sentence) {
    struct list *list = arg;
    if (list->count++ >= list->shown)
        return;
    ct_printer_colour(list->printer, CT_COLOUR_RED);
    ct_printer_text(list->printer, "Damaged    ");
    ct_printer_colour(list->printer, CT_COLOUR_PLAIN);
    ct_printer_name(list->printer, sentence, 0);
    ct_printer_text(list->printer, "\n");
}

void ct_info_damage_print(struct ct_printer *printer, struct ct_trace *trace, bool all) {
    struct list list = {printer, 0, all ? SIZE_MAX : SHORT_LIST};
    ct_trace_damage(trace, print_sentence, &list);
    if (list.count > list.shown)
        ct_printer_format(printer, "           ... and %zu more (--all)\n", list.count - list.shown);
    if (list.count)
        ct_printer_text(printer, "\n");
}

static void put_sentence(void *arg, const char *sentence) {
    ct_json_string(arg, NULL, sentence);
}

void ct_info_damage_json(struct ct_json *json, struct ct_trace *trace) {
    ct_json_begin(json, "damage", '[');
    ct_trace_damage(trace, put_sentence, json);
    ct_json_end(json, ']');
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What is missing in a trace, for contrail info. */
#ifndef CT_CLI_INFO_DAMAGE_H
#define CT_CLI_INFO_DAMAGE_H

#include "base/json_write.h"
#include "cli/printer.h"
#include <contrail/trace.h>

/* Prints a line for each part that is missing or cannot be read; nothing when the trace is whole. */
void ct_info_damage_print(struct ct_printer *printer, struct ct_trace *trace, bool all);
/* Adds "damage": a list of sentences. */
void ct_info_damage_json(struct ct_json *json, struct ct_trace *trace);

#endif

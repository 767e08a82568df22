/* SPDX-License-Identifier: Apache-2.0 */
/* `contrail info --skipped`: the name of each function that has no hook, and why. */
#ifndef CT_CLI_INFO_SKIPPED_H
#define CT_CLI_INFO_SKIPPED_H

#include "cli/printer.h"
#include "report/info.h"

struct ct_json;

/* Prints a list of functions, then one of linkage stubs and parts of functions. `process` is an index. */
void ct_info_skipped_print(struct ct_printer *printer, const struct ct_trace *trace, const struct ct_info *info,
                           size_t process);
/* Writes one object. */
void ct_info_skipped_json(struct ct_json *json, const struct ct_trace *trace, const struct ct_info *info,
                          size_t process);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that read traces share. */
#ifndef CT_CLI_READING_H
#define CT_CLI_READING_H

#include "base/json_write.h"
#include "cli/options.h"
#include "cli/printer.h"
#include "report/select.h"
#include "trace/wall.h"
#include <contrail/trace.h>

/* Opens the trace that the operands name, or the newest. Gives up rights that reading does not need (rights.h). Says
 * what is missing in it. Returns -1 to continue, otherwise the exit code, after a message. */
int ct_reading_open(struct ct_trace **out, const struct ct_operands *operands);
/* Like ct_reading_open, for commands that show damage themselves. */
int ct_reading_open_unchecked(struct ct_trace **out, const struct ct_operands *operands);
/* Closes the trace. Returns `code`, or CT_EXIT_DAMAGED when that is 0 and parts of the trace are missing, unless that
 * is allowed. Says so when that was found only while reading. */
int ct_reading_close(struct ct_trace *trace, int code, bool allow_damaged);
/* Says what is missing in a trace. */
void ct_reading_report_damage(struct ct_trace *trace);
/* Says how late its times may be, if they are not exact. */
void ct_reading_report_clock(const struct ct_trace *trace);
/* Says that most calls were only counted, if they were sampled. */
void ct_reading_report_sampled(const struct ct_trace *trace);
/* The directory where the newest trace is searched for. */
const char *ct_reading_root(void);
/* ct_reading_open in steps: the files or directories whose owner is that of the traces; the rights; a trace. */
struct ct_operands ct_reading_named(const struct ct_operands *operands);
void ct_reading_drop_rights(const struct ct_operands *traces);
int ct_reading_open_next(struct ct_trace **out, const struct ct_operands *operands);
/* Prints that blocks were not recorded in any of these threads, and returns false. */
bool ct_reading_check_blocks(const struct ct_trace *trace, const struct ct_select *select);
/* Prints the text and frees it; `status` is the result of making it. Returns the exit code. */
int ct_reading_print_json(struct ct_json *json, int status);
/* Like ct_reading_print_json, on stdout after other output; returns the status, or CT_ERR_NO_MEMORY. */
int ct_reading_put_json(struct ct_json *json, int status);
struct ct_output;
/* Like ct_reading_print_json, with plain text. */
int ct_reading_print_text(struct ct_output *text);
/* Writes "name/tid", or the tid alone for a thread without a name; returns the length, as snprintf does. */
int ct_reading_thread_text(char *text, size_t size, const struct ct_trace_thread *thread);
/* Wall-clock times of the trace. Prints that it has none, and returns the exit code; -1: it has. */
int ct_reading_wall(struct ct_wall *wall, const struct ct_trace *trace);
/* Prints why, and returns the exit code. */
int ct_reading_fail(const struct ct_trace *trace, int status);

#endif

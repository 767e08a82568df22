/* What the commands that read traces share. */
#ifndef CT_CLI_READING_H
#define CT_CLI_READING_H

#include "base/json_write.h"
#include "cli/options.h"
#include "cli/printer.h"
#include "report/select.h"
#include <contrail/trace.h>

/* The trace that the operands name, or the newest. Rights that reading does not need are gone from then on (rights.h). Returns -1 to
 * go on, otherwise the exit code, after a message. */
int ct_reading_open(struct ct_trace **out, const struct ct_operands *operands);
/* In steps: files or directories whose owner is that of the traces; the rights; a trace. */
struct ct_operands ct_reading_named(const struct ct_operands *operands);
void ct_reading_drop_rights(const struct ct_operands *traces);
int ct_reading_open_next(struct ct_trace **out, const struct ct_operands *operands);
/* Says that no thread is named so, and returns the exit code; -1: one is. */
int ct_reading_check_threads(const struct ct_trace *trace, const struct ct_select *select);
/* Says that blocks were not recorded in any of these threads, and returns false. */
bool ct_reading_check_blocks(const struct ct_trace *trace, const struct ct_select *select);
/* Prints the text and frees it; `status` is what making it came to. Returns the exit code. */
int ct_reading_print_json(struct ct_json *json, int status);
/* The same on stdout, which others have printed to; returns the status, or CT_ERR_NO_MEMORY. */
int ct_reading_put_json(struct ct_json *json, int status);
struct ct_output;
/* As ct_reading_print_json, with plain text. */
int ct_reading_print_text(struct ct_output *text);
/* "name/tid", or the tid alone when it has no name, into `text`; returns the length, as snprintf does. */
int ct_reading_thread_text(char *text, size_t size, const struct ct_trace_thread *thread);
/* Says why, and returns the exit code. */
int ct_reading_fail(const struct ct_trace *trace, int status);

#endif

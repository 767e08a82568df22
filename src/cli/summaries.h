/* SPDX-License-Identifier: Apache-2.0 */
/* Summaries of a trace that was just recorded (trace/summary.h). */
#ifndef CT_CLI_SUMMARIES_H
#define CT_CLI_SUMMARIES_H

/* Makes them for the large threads of a session. Nothing is printed: a trace without them is as good, but slower to
 * read. Any signal ends it. */
void ct_summaries_make(const char *session);

#endif

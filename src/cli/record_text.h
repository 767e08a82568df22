/* SPDX-License-Identifier: Apache-2.0 */
/* The plain lines of a recording: what is recorded, and the result. */
#ifndef CT_CLI_RECORD_TEXT_H
#define CT_CLI_RECORD_TEXT_H

#include <contrail/session.h>
#include <stddef.h>

/* Writes "recording 42 prog: 12,345 functions in 14 modules (99.8 %), planned in 85 ms, paused 12 ms"; the pause only
 * when it is known. */
void ct_record_start_text(char *text, size_t size, int pid, const char *name, const struct ct_session_statistics *s);
/* Writes "1,234 events of 4 threads in 2.31 s, none lost, 12.0 MiB". */
void ct_record_end_text(char *text, size_t size, const struct ct_session_statistics *s, uint64_t disk_bytes);

/* Writes the arguments as one line, quoted as for a shell; cut when too long. */
void ct_record_command_line(char *text, size_t size, const char *const *argv);
/* Writes the arguments of a running process; "" when they cannot be read. */
void ct_record_command_line_of(char *text, size_t size, int pid);
/* Writes the name of a process as the kernel shows it; "" when it cannot be read. */
void ct_record_name_of(char *text, size_t size, int pid);

#endif

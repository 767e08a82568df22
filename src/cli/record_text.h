/* The plain lines of a recording: what is recorded, what came of it. */
#ifndef CT_CLI_RECORD_TEXT_H
#define CT_CLI_RECORD_TEXT_H

#include <contrail/session.h>
#include <stddef.h>

/* "recording 42 prog: 12,345 functions in 14 modules (99.8 %), planned in 85 ms, paused 12 ms"; the pause when it is known */
void ct_record_start_text(char *text, size_t size, int pid, const char *name, const struct ct_session_statistics *s);
/* "1,234 events of 4 threads in 2.31 s, none lost, 12.0 MiB" */
void ct_record_end_text(char *text, size_t size, const struct ct_session_statistics *s);

/* The arguments as one line that a shell would read the same way; cut when too long. */
void ct_record_command_line(char *text, size_t size, const char *const *argv);
/* The same of a running process; "" when it cannot be read. */
void ct_record_command_line_of(char *text, size_t size, int pid);
/* Its name as the kernel shows it, "" when it cannot be read. */
void ct_record_name_of(char *text, size_t size, int pid);

#endif

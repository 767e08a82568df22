/* SPDX-License-Identifier: Apache-2.0 */
/* Output of the reading commands: buffered, through a pager on a terminal, and quietly ended when the reader stops
 * reading (head, or q in the pager). */
#ifndef CT_CLI_PRINTER_H
#define CT_CLI_PRINTER_H

#include "cli/message.h"
#include <sys/types.h>

struct ct_printer {
    int fd;
    pid_t pager; /* 0: none; -1: one of several (pager.h) */
    bool colours;
    bool utf8;   /* characters beyond ASCII are shown */
    int width;   /* of the terminal, or COLUMNS; 0: not a terminal, lines may have any length */
    bool closed; /* the reader is gone */
    int error;   /* errno of a write that failed for another reason */
    size_t used, limit;
    char buffer[65536];
};

/* On a terminal, starts the pager that may be needed later. Call this before rights are given up. */
void ct_printer_prepare(void);
/* `page`: on a terminal, prints through $PAGER (less -R when it is not set). */
void ct_printer_open(struct ct_printer *printer, bool page);
void ct_printer_bytes(struct ct_printer *printer, const char *bytes, size_t count);
void ct_printer_text(struct ct_printer *printer, const char *text);
void ct_printer_spaces(struct ct_printer *printer, size_t count);
void ct_printer_format(struct ct_printer *printer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a name from a trace, cleaned as by ct_message_character. At most `room` columns when that is not 0: the end is
 * replaced by … then, or by ... without UTF-8. Returns the columns used. */
size_t ct_printer_name(struct ct_printer *printer, const char *name, size_t room);
/* Prints a function's name like ct_printer_name, shortened (short_name.h), and without its parameters, its result
 * and arguments of templates where there is no room for them. */
size_t ct_printer_function(struct ct_printer *printer, const char *name, size_t room);
/* From now on, ct_printer_function prints names whole. */
void ct_printer_keep_names(void);
/* Columns of a picture: the width; where there is none, COLUMNS, or 80. */
size_t ct_printer_columns(const struct ct_printer *printer);
/* Nothing without colours. */
void ct_printer_colour(struct ct_printer *printer, enum ct_colour colour);
/* Writes the buffer. */
void ct_printer_flush(struct ct_printer *printer);
/* False: there is no point in printing more. */
static inline bool ct_printer_wanted(const struct ct_printer *printer) {
    return !printer->closed && !printer->error;
}
/* Flushes, waits for the pager. Returns the exit code: 0, or CT_EXIT_UNAVAILABLE after a message when the output could
 * not be written. */
int ct_printer_close(struct ct_printer *printer);

#endif

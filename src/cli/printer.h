/* What the reading commands print goes through here: buffered, through a pager on a terminal, and quietly over when
 * the reader has seen enough (head, or q in the pager). */
#ifndef CT_CLI_PRINTER_H
#define CT_CLI_PRINTER_H

#include "cli/message.h"
#include <sys/types.h>

struct ct_printer {
    int fd;
    pid_t pager; /* 0: none */
    bool colours;
    int width;   /* of the terminal; 0: not one, lines may have any length */
    bool closed; /* the reader is gone */
    int error;   /* errno of a write that failed for another reason */
    size_t used, limit;
    char buffer[65536];
};

/* Before rights are given up: on a terminal, makes the pager that may be wanted later. */
void ct_printer_prepare(void);
/* `page`: on a terminal, through $PAGER (less -R when it is not set). */
void ct_printer_open(struct ct_printer *printer, bool page);
void ct_printer_bytes(struct ct_printer *printer, const char *bytes, size_t count);
void ct_printer_text(struct ct_printer *printer, const char *text);
void ct_printer_spaces(struct ct_printer *printer, size_t count);
void ct_printer_format(struct ct_printer *printer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A name from a trace, shown as ct_message_character says. At most `room` columns when that is not 0: the end is
 * cut off then. Returns the columns that it took. */
size_t ct_printer_name(struct ct_printer *printer, const char *name, size_t room);
/* "" without colours. */
void ct_printer_colour(struct ct_printer *printer, enum ct_colour colour);
/* Writes what was kept back so far. */
void ct_printer_flush(struct ct_printer *printer);
/* False: there is no use in printing more. */
static inline bool ct_printer_wanted(const struct ct_printer *printer) {
    return !printer->closed && !printer->error;
}
/* Flushes, waits for the pager. The exit code: 0, or that of output that could not be written, after a message. */
int ct_printer_close(struct ct_printer *printer);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that all commands print in one way: errors and their exit codes, numbers for people, colours. */
#ifndef CT_CLI_MESSAGE_H
#define CT_CLI_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Prints "contrail: sentence" and a line feed on stderr, in one write. The sentence has no line feeds and no full stop
 * at the end; control characters in it (from names of files) are shown as '?'. */
void ct_message_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints why (`sentence`, or the status's own text when it is NULL or empty) and returns the exit code of the
 * status. */
int ct_message_fail(int status, const char *sentence);
/* 64 usage, 69 unavailable, 70 internal, 77 permission; 0 for 0. */
int ct_message_exit_code(int status);
/* Untrusted text (names in traces and processes, answers of sessions) reaches a terminal only through these: one '?'
 * replaces each control character, C1 included, and each byte that is not UTF-8. */

/* Size of the first character, at least 1, and whether it may be shown. */
size_t ct_message_character(const char *text, size_t length, bool *shown);
/* Clean in place; return the new length. The second one keeps line feeds and tabs. */
size_t ct_message_clean(char *text, size_t length);
size_t ct_message_clean_lines(char *text, size_t length);
void ct_message_print(FILE *out, const char *text);
/* Flushes stdout. Returns 0, or CT_EXIT_UNAVAILABLE after a message when the output could not be written (disk
 * full). */
int ct_message_finish(void);

/* ---- numbers for people: each writes text into `buffer` and returns it ---- */

#define CT_TEXT_SIZE 32
/* 1,234,567 */
const char *ct_text_count(char buffer[CT_TEXT_SIZE], uint64_t n);
/* 1st, 2nd, 11th, 1,000th */
const char *ct_text_ordinal(char buffer[CT_TEXT_SIZE], uint64_t n);
/* 999, 1.23 k, 12.3 M, 123 G: three significant digits */
const char *ct_text_short(char buffer[CT_TEXT_SIZE], double n);
/* 0 ns, 85.0 us, 1.23 ms, 12.3 s, 2 m 05 s, 1 h 02 m */
const char *ct_text_time(char buffer[CT_TEXT_SIZE], uint64_t ns);
/* 512 B, 1.50 KiB, 32.0 MiB */
const char *ct_text_size(char buffer[CT_TEXT_SIZE], uint64_t bytes);
/* As an option takes it: 512M, 8G; whole mebibytes. */
const char *ct_text_memory(char buffer[CT_TEXT_SIZE], uint64_t bytes);
/* 99.8 %: rounds neither up to 100 nor down to 0; "-" when `whole` is 0 */
const char *ct_text_percent(char buffer[CT_TEXT_SIZE], uint64_t part, uint64_t whole);

/* ---- colours: "" unless the stream is a terminal that shows them and NO_COLOR is not set ---- */

enum ct_colour {
    CT_COLOUR_PLAIN,
    CT_COLOUR_BOLD,
    CT_COLOUR_DIM,
    CT_COLOUR_RED,
    CT_COLOUR_GREEN,
    CT_COLOUR_YELLOW,
    CT_COLOUR_CYAN
};
bool ct_colour_wanted(FILE *stream);
const char *ct_colour(FILE *stream, enum ct_colour colour);

#endif

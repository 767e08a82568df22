/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and numbers that all commands print in one way. Nothing here keeps state. */
#include "cli/message.h"
#include "base/utf8.h"
#include "cli/command.h"
#include <contrail/status.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- untrusted text ---- */

size_t ct_message_character(const char *text, size_t length, bool *shown) {
    size_t size = ct_utf8_character(text, length);
    *shown = size && !ct_utf8_is_control(text);
    return size ? size : 1;
}

static size_t clean(char *text, size_t length, bool lines) {
    size_t out = 0, size;
    for (size_t i = 0; i < length; i += size) {
        bool shown;
        size = ct_message_character(text + i, length - i, &shown);
        shown |= lines && (text[i] == '\n' || text[i] == '\t');
        memmove(text + out, shown ? text + i : "?", shown ? size : 1);
        out += shown ? size : 1;
    }
    return out;
}

size_t ct_message_clean(char *text, size_t length) {
    return clean(text, length, false);
}

size_t ct_message_clean_lines(char *text, size_t length) {
    return clean(text, length, true);
}

void ct_message_print(FILE *out, const char *text) {
    for (size_t length = strlen(text), size; length; text += size, length -= size) {
        bool shown;
        size = ct_message_character(text, length, &shown);
        fwrite(shown ? text : "?", 1, shown ? size : 1, out);
    }
}

/* ---- errors ---- */

/* One write, so that the line stays whole among the output of the target. */
static void write_line(char *line, size_t size) {
    size = ct_message_clean(line, size);
    line[size++] = '\n';
    while (size) {
        ssize_t n = write(STDERR_FILENO, line, size);
        if (n < 0 && errno != EINTR)
            return;
        if (n > 0) {
            line += n;
            size -= (size_t)n;
        }
    }
}

void ct_message_error(const char *format, ...) {
    char line[4096] = "contrail: ";
    size_t used = strlen(line), room = sizeof line - used - 1; /* for the line feed */
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line + used, room, format, list);
    va_end(list);
    fflush(stdout);
    if (n > 0)
        used += (size_t)n < room ? (size_t)n : room - 1;
    write_line(line, used);
}

int ct_message_exit_code(int status) {
    switch (status) {
    case CT_OK:
        return 0;
    case CT_ERR_INVALID_ARGUMENT:
        return CT_EXIT_USAGE;
    case CT_ERR_PERMISSION_DENIED:
        return CT_EXIT_PERMISSION;
    case CT_ERR_SPAWN_FAILED:
    case CT_ERR_ATTACH_FAILED:
    case CT_ERR_NOT_FOUND:
    case CT_ERR_BUSY:
    case CT_ERR_TIMEOUT:
    case CT_ERR_UNSUPPORTED:
    case CT_ERR_BAD_FILE:
    case CT_ERR_NO_MEMORY:
    case CT_ERR_NO_SPACE:
    case CT_ERR_FILE_LIMIT:
    case CT_ERR_QUOTA:
    case CT_ERR_NO_THREADS:
        return CT_EXIT_UNAVAILABLE;
    default:
        return CT_EXIT_INTERNAL;
    }
}

int ct_message_fail(int status, const char *sentence) {
    ct_message_error("%s", sentence && *sentence ? sentence : ct_status_text(status));
    return ct_message_exit_code(status);
}

int ct_message_finish(void) {
    if (!fflush(stdout) && !ferror(stdout))
        return 0;
    ct_message_error("the output could not be written: %s", strerror(errno));
    return CT_EXIT_UNAVAILABLE;
}

/* ---- numbers ---- */

const char *ct_text_count(char buffer[CT_TEXT_SIZE], uint64_t n) {
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    char *out = buffer;
    for (int i = 0; i < count; i++) {
        if (i && (count - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = 0;
    return buffer;
}

const char *ct_text_ordinal(char buffer[CT_TEXT_SIZE], uint64_t n) {
    static const char *const endings[] = {"th", "st", "nd", "rd"};
    bool teens = n / 10 % 10 == 1;
    ct_text_count(buffer, n);
    return strcat(buffer, endings[!teens && n % 10 < 4 ? n % 10 : 0]);
}

/* Writes three significant digits of a number below 1,000 (or so): a number that rounds up to 10.0 or 100 loses a
 * decimal. */
static void three_digits(char *buffer, double n) {
    int decimals = n < 9.995 ? 2 : n < 99.95 ? 1 : 0;
    snprintf(buffer, CT_TEXT_SIZE / 2, "%.*f", decimals, n);
}

/* Uses larger units while three digits of `n` would read as `limit` or more. */
static const char *scaled(char *buffer, double n, double limit, const char *const *units, size_t count, bool whole) {
    size_t unit = 0;
    char digits[CT_TEXT_SIZE / 2];
    while (unit + 1 < count && n >= limit - 0.5) {
        n /= limit;
        unit++;
    }
    if (n > 9e15)
        n = 9e15;
    if (unit == 0 && whole)
        snprintf(digits, sizeof digits, "%.0f", n);
    else
        three_digits(digits, n);
    snprintf(buffer, CT_TEXT_SIZE, "%s%s%s", digits, *units[unit] ? " " : "", units[unit]);
    return buffer;
}

const char *ct_text_short(char buffer[CT_TEXT_SIZE], double n) {
    static const char *const units[] = {"", "k", "M", "G", "T"};
    return scaled(buffer, n > 0 ? n : 0, 1000, units, 5, true);
}

const char *ct_text_memory(char buffer[CT_TEXT_SIZE], uint64_t bytes) {
    bool whole = bytes >= 1ull << 30 && !(bytes & ((1ull << 30) - 1));
    snprintf(buffer, CT_TEXT_SIZE, "%llu%c", (unsigned long long)(bytes >> (whole ? 30 : 20)), whole ? 'G' : 'M');
    return buffer;
}

const char *ct_text_size(char buffer[CT_TEXT_SIZE], uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    return scaled(buffer, (double)bytes, 1024, units, 6, true);
}

const char *ct_text_time(char buffer[CT_TEXT_SIZE], uint64_t ns) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    uint64_t seconds = (ns + 500000000) / 1000000000;
    if (ns < 99950000000)
        return scaled(buffer, (double)ns, 1000, units, 4, true);
    if (seconds < 3600)
        snprintf(buffer, CT_TEXT_SIZE, "%u m %02u s", (unsigned)(seconds / 60), (unsigned)(seconds % 60));
    else
        snprintf(buffer, CT_TEXT_SIZE, "%llu h %02u m", (unsigned long long)(seconds / 3600),
                 (unsigned)(seconds / 60 % 60));
    return buffer;
}

const char *ct_text_percent(char buffer[CT_TEXT_SIZE], uint64_t part, uint64_t whole) {
    if (!whole)
        return strcpy(buffer, "-");
    double percent = 100.0 * (double)part / (double)whole;
    if (part == whole)
        return strcpy(buffer, "100 %");
    if (part && percent < 0.1)
        return strcpy(buffer, "<0.1 %");
    if (part < whole && percent > 99.9)
        return strcpy(buffer, ">99.9 %");
    snprintf(buffer, CT_TEXT_SIZE, "%.1f %%", percent);
    return buffer;
}

/* ---- colours ---- */

bool ct_colour_wanted(FILE *stream) {
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(no && *no) && term && strcmp(term, "dumb") != 0 && isatty(fileno(stream));
}

const char *ct_colour(FILE *stream, enum ct_colour colour) {
    static const char *const codes[] = {
        [CT_COLOUR_PLAIN] = "\033[0m", [CT_COLOUR_BOLD] = "\033[1m",   [CT_COLOUR_DIM] = "\033[2m",
        [CT_COLOUR_RED] = "\033[31m",  [CT_COLOUR_GREEN] = "\033[32m", [CT_COLOUR_YELLOW] = "\033[33m",
        [CT_COLOUR_CYAN] = "\033[36m",
    };
    return ct_colour_wanted(stream) ? codes[colour] : "";
}

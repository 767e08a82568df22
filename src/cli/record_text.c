/* SPDX-License-Identifier: Apache-2.0 */
/* The plain lines of a recording. */
#include "cli/record_text.h"
#include "cli/message.h"
#include <contrail/stalker.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A text that grows and is cut at its end. */
struct text {
    char *at;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...) {
    va_list list;
    if (t->used + 1 >= t->size)
        return;
    va_start(list, format);
    int n = vsnprintf(t->at + t->used, t->size - t->used, format, list);
    va_end(list);
    if (n > 0)
        t->used += (size_t)n < t->size - t->used ? (size_t)n : t->size - t->used - 1;
}

static const char *plural(uint64_t n) {
    return n == 1 ? "" : "s";
}

void ct_record_start_text(char *text, size_t size, int pid, const char *name, const struct ct_session_statistics *s) {
    struct text t = {text, size, 0};
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE], d[CT_TEXT_SIZE];
    uint64_t done = s->functions > s->skipped ? s->functions - s->skipped : 0;
    if (s->stalk_on)
        add(&t, "following %s thread%s of %d %s, which has %s functions in %s module%s, read in %s",
            ct_text_count(a, s->stalk_threads), plural(s->stalk_threads), pid, name, ct_text_count(b, s->functions),
            ct_text_count(c, s->modules), plural(s->modules), ct_text_time(d, s->plan_ns));
    else
        add(&t, "recording %d %s: %s function%s in %s module%s (%s), planned in %s", pid, name, ct_text_count(a, done),
            plural(done), ct_text_count(b, s->modules), plural(s->modules), ct_text_percent(c, done, s->functions),
            ct_text_time(d, s->plan_ns));
    if (s->pause_ns)
        add(&t, ", paused %s", ct_text_time(a, s->pause_ns));
    if (s->traced)
        add(&t, "; it stays traced to see its signals, so no other program can trace it (gdb, strace, LeakSanitizer), "
                "and each signal takes about 20 us longer");
}

/* Adds the number of events of each kind, and of threads and processes that were not followed (to the end). */
static void add_stalk(struct text *t, const struct ct_session_statistics *s) {
    static const char *const names[] = {
#define NAME(name, bit, text) text,
        CT_STALKER_EVENT_LIST(NAME)
#undef NAME
    };
    char a[CT_TEXT_SIZE];
    const char *between = ": ";
    add(t, "followed %s thread%s", ct_text_count(a, s->stalk_threads), plural(s->stalk_threads));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (s->stalk_events[i]) {
            add(t, "%s%s %s", between, ct_text_count(a, s->stalk_events[i]), names[i]);
            between = ", ";
        }
    if (s->stalk_left)
        add(t, "; %s NOT to the end", ct_text_count(a, s->stalk_left));
    if (s->stalk_children)
        add(t, "; %s forked process%s not followed", ct_text_count(a, s->stalk_children),
            s->stalk_children == 1 ? "" : "es");
    add(t, "; ");
}

static uint64_t sum_of(const uint64_t lost[CT_SESSION_LOSS_ROOM]) {
    uint64_t sum = 0;
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        sum += lost[i];
    return sum;
}

/* Adds what was lost, by reason; nothing when nothing was. */
static void add_losses(struct text *t, const char *before, const uint64_t lost[CT_SESSION_LOSS_ROOM]) {
    char count[CT_TEXT_SIZE];
    const char *between = "";
    uint64_t sum = sum_of(lost);
    if (!sum)
        return;
    add(t, "%s%s LOST (", before, ct_text_count(count, sum));
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        if (lost[i]) {
            add(t, "%s%s %s: %s", between, ct_text_count(count, lost[i]), ct_loss_name((enum ct_loss_reason)i),
                ct_loss_text((enum ct_loss_reason)i));
            between = "; ";
        }
    add(t, ")");
}

void ct_record_end_text(char *text, size_t size, const struct ct_session_statistics *s, uint64_t disk_bytes) {
    struct text t = {text, size, 0};
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE];
    if (s->stalk_on)
        add_stalk(&t, s);
    add(&t, "%s event%s of %s thread%s", ct_text_count(a, s->events), plural(s->events),
        ct_text_count(b, s->threads_seen), plural(s->threads_seen));
    if (s->processes > 1)
        add(&t, " in %s processes", ct_text_count(a, s->processes));
    add(&t, " in %s, ", ct_text_time(c, s->recording_ns));
    add_losses(&t, "", s->lost);
    if (!sum_of(s->lost) && !s->deep_calls)
        add(&t, sum_of(s->detail_lost) ? "no event lost" : "none lost");
    if (s->deep_calls)
        add(&t, "%s%s calls left out, because too many were open, or a stack ended", sum_of(s->lost) ? ", " : "",
            ct_text_count(a, s->deep_calls));
    if (s->budget)
        add(&t, ", %s function%s left out at the end for the budget of %.4g%%", ct_text_count(a, s->left_out),
            plural(s->left_out), (double)s->budget / 100);
    if (s->abandoned)
        add(&t, ", %s abandoned", ct_text_count(a, s->abandoned));
    if (s->windows)
        add(&t, ", %s detail record%s in %s window%s", ct_text_count(a, s->detail_events), plural(s->detail_events),
            ct_text_count(b, s->windows), plural(s->windows));
    if (s->detail_needed)
        add(&t, " (memory cut the pre-roll: --detail-mem %s would reach it)", ct_text_memory(a, s->detail_needed));
    add_losses(&t, ", detail records: ", s->detail_lost);
    add(&t, ", %s on disk", ct_text_size(a, disk_bytes));
}

/* ---- command lines ---- */

static void add_word(struct text *t, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%^";
    if (t->used)
        add(t, " ");
    if (*word && strspn(word, plain) == strlen(word)) {
        add(t, "%s", word);
        return;
    }
    add(t, "'");
    for (; *word; word++)
        add(t, *word == '\'' ? "'\\''" : "%c", *word);
    add(t, "'");
}

void ct_record_command_line(char *text, size_t size, const char *const *argv) {
    struct text t = {text, size, 0};
    *text = 0;
    for (; *argv; argv++)
        add_word(&t, *argv);
}

/* Reads up to size - 1 bytes of a file of the process, and adds a zero. */
static size_t read_of(int pid, const char *file, char *bytes, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    FILE *in = fopen(path, "re");
    size_t n = in ? fread(bytes, 1, size - 1, in) : 0;
    bytes[n] = 0;
    if (in)
        fclose(in);
    return n;
}

/* Programs that set their title (setproctitle) fill the rest of their arguments' memory with zeros, which would be many
 * empty words. One empty word at the end may be an argument. */
static size_t without_padding(const char *words, size_t n) {
    if (n < 3 || words[n - 1] || words[n - 2] || words[n - 3])
        return n;
    while (n && !words[n - 1])
        n--;
    return n;
}

void ct_record_command_line_of(char *text, size_t size, int pid) {
    static char words[65536];
    struct text t = {text, size, 0};
    size_t n = read_of(pid, "cmdline", words, sizeof words);
    *text = 0;
    n = without_padding(words, n);
    for (const char *word = words; word < words + n; word += strlen(word) + 1)
        add_word(&t, word);
}

void ct_record_name_of(char *text, size_t size, int pid) {
    read_of(pid, "comm", text, size);
    text[strcspn(text, "\n")] = 0;
}

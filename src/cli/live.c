/* SPDX-License-Identifier: Apache-2.0 */
/* The live line. When only we write to the terminal, the line is rewritten in place. When the target writes there too,
 * it is drawn on the line below the cursor and the cursor is put back, so that prompts and half-written lines of the
 * target stay whole. */
#include "cli/live.h"
#include "cli/message.h"
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = 240 };

uint64_t ct_live_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void ct_live_init(struct ct_live *live, bool wanted, bool target_shares_terminal) {
    const char *term = getenv("TERM");
    *live = (struct ct_live){0};
    live->on = wanted && isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
    live->below = target_shares_terminal && isatty(STDOUT_FILENO);
    live->counted_ns = ct_live_now();
}

static size_t terminal_width(void) {
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col < 20)
        return 79;
    return size.ws_col - 1u < LONGEST ? size.ws_col - 1u : LONGEST;
}

/* False in the background: the terminal belongs to another process group then. */
static bool in_foreground(void) {
    return tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static void write_text(const char *before, const char *text, const char *after) {
    char all[LONGEST + 128];
    struct pollfd room = {STDERR_FILENO, POLLOUT, 0};
    if (poll(&room, 1, 0) <= 0)
        return; /* a terminal that was stopped (Ctrl-S), or that nobody reads, must not stop us */
    int n = snprintf(all, sizeof all, "%s%.*s%s", before, (int)terminal_width(), text, after);
    if (n > 0 && write(STDERR_FILENO, all, (size_t)n) < 0)
        return; /* the terminal is gone; the recording matters more */
}

static bool is_due(struct ct_live *live) {
    uint64_t now = ct_live_now(), pause = live->below ? 250000000 : 100000000;
    if (!live->on || (live->drawn && now - live->last_ns < pause) || !in_foreground())
        return false;
    live->last_ns = now;
    return true;
}

static void draw_line(struct ct_live *live, const char *text) {
    live->drawn = true;
    if (live->below) /* make sure there is a line below, save the cursor, go there, write, come back */
        write_text("\033D\033M\0337\033[B\r\033[2m", text, "\033[0m\033[K\0338");
    else
        write_text("\r", text, "\033[K");
}

void ct_live_text(char *text, size_t size, double rate, const struct ct_session_statistics *now) {
    char speed[CT_TEXT_SIZE], events[CT_TEXT_SIZE], lost[CT_TEXT_SIZE], used[CT_TEXT_SIZE], time[CT_TEXT_SIZE];
    char detail[2 * CT_TEXT_SIZE] = "", budget[96] = "";
    uint64_t sum = 0;
    for (int i = 0; i < CT_LOSS_COUNT; i++)
        sum += now->lost[i];
    if (now->stalk_on)
        snprintf(detail, sizeof detail, "following, %s blocks, ", ct_text_short(used, (double)now->stalk_blocks));
    else if (now->detail_reach_ns || now->windows) /* early, so that a narrow terminal still shows it */
        snprintf(detail, sizeof detail, "%s, %s back, ", ct_session_window_name(now->window_state),
                 ct_text_time(time, now->detail_reach_ns));
    if (now->budget)
        snprintf(budget, sizeof budget, "cost %.1f of %.4g%%, %s left out, ", (double)now->budget_used / 100,
                 (double)now->budget / 100, ct_text_short(used, (double)now->left_out));
    snprintf(text, size, "contrail: %s events/s, %s events, %s lost, %s%s%s%s memory, %llu thread%s, %s",
             ct_text_short(speed, rate), ct_text_short(events, (double)now->events), ct_text_short(lost, (double)sum),
             now->traced ? "ptrace held, " : "", budget, detail, ct_text_size(used, now->lane_used),
             (unsigned long long)now->threads_alive, now->threads_alive == 1 ? "" : "s",
             ct_text_time(time, now->recording_ns));
}

void ct_live_show(struct ct_live *live, const struct ct_session_statistics *now) {
    char text[LONGEST];
    if (!is_due(live))
        return;
    uint64_t span = live->last_ns - live->counted_ns;
    if (span >= 200000000) {
        live->rate = (double)(now->events - live->counted_events) * 1e9 / (double)span;
        live->counted_ns = live->last_ns;
        live->counted_events = now->events;
    }
    ct_live_text(text, sizeof text, live->rate, now);
    draw_line(live, text);
}

void ct_live_show_step(struct ct_live *live, const char *step, uint64_t done, uint64_t total) {
    char text[LONGEST], a[CT_TEXT_SIZE], b[CT_TEXT_SIZE];
    if (ct_live_now() - live->counted_ns < 300000000 || !is_due(live)) /* a quick start does not flicker */
        return;
    if (total)
        snprintf(text, sizeof text, "contrail: %s: %s of %s", step, ct_text_count(a, done), ct_text_count(b, total));
    else
        snprintf(text, sizeof text, "contrail: %s", step);
    draw_line(live, text);
}

void ct_live_erase(struct ct_live *live) {
    if (!live->drawn)
        return;
    live->drawn = false;
    if (live->below)
        write_text("\0337\033[B\r\033[K\0338", "", "");
    else
        write_text("\r\033[K", "", "");
}

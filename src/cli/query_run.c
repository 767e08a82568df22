/* SPDX-License-Identifier: Apache-2.0 */
/* Runs statements: see query_run.h. */
#include "cli/query_run.h"
#include "cli/command.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Ctrl-C ---- */

static volatile sig_atomic_t caught;

static void on_interrupt(int number) {
    (void)number;
    caught = 1;
}

void ct_query_run_catch(void) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    caught = 0;
    sigaction(SIGINT, &action, NULL);
}

bool ct_query_run_caught(void) {
    return caught;
}

/* ---- progress ---- */

static uint64_t rows_read(const struct ct_query_run *run) {
    uint64_t rows = 0;
    for (size_t i = 0; i < run->count; i++)
        rows += run->sources[i]->rows;
    return rows;
}

/* Called while a statement runs. Not 0: it stops. */
static int poll_run(void *arg) {
    struct ct_query_run *run = arg;
    char text[96], rows[CT_TEXT_SIZE], time[CT_TEXT_SIZE];
    uint64_t passed = ct_live_now() - run->began_ns;
    if (run->timeout_ns && passed >= run->timeout_ns)
        run->timed_out = true;
    if (run->live.on) {
        snprintf(text, sizeof text, "%s rows read, %s", ct_text_short(rows, (double)rows_read(run)),
                 ct_text_time(time, passed));
        ct_live_show_step(&run->live, text, 0, 0);
    }
    return caught || run->timed_out;
}

static void erase_progress(void *arg) {
    struct ct_query_run *run = arg;
    ct_live_erase(&run->live);
    run->live.on = false; /* the rows have the terminal now */
}

void ct_query_print_counters(const struct ct_query_run *run) {
    char a[CT_TEXT_SIZE], b[CT_TEXT_SIZE], c[CT_TEXT_SIZE], d[CT_TEXT_SIZE];
    for (size_t i = 0; i < run->count; i++) {
        struct ct_source_blocks blocks = ct_source_blocks(run->sources[i]);
        ct_message_error("%s: blocks in all: %s; unpacked: %s; events read one by one: %s; rows: %s",
                         ct_trace_path(run->traces[i]), ct_text_count(a, blocks.all), ct_text_count(b, blocks.unpacked),
                         ct_text_count(c, run->sources[i]->events), ct_text_count(d, run->sources[i]->rows));
    }
}

/* ---- opening ---- */

int ct_query_run_open(struct ct_query_run *run, const char *const *directories, bool often) {
    int status = 0;
    for (size_t i = 0; i < run->count && !status; i++)
        status = ct_source_open(&run->sources[i], &(struct ct_source_setup){.trace = run->traces[i],
                                                                            .directories = directories,
                                                                            .often = often,
                                                                            .poll = poll_run,
                                                                            .poll_arg = run});
    const struct ct_query_setup setup = {
        .sources = run->sources, .source_count = run->count, .memory = run->memory, .poll = poll_run, .poll_arg = run};
    return status ? status : ct_query_open(&run->query, &setup);
}

void ct_query_run_close(struct ct_query_run *run) {
    ct_query_close(run->query);
    for (size_t i = 0; i < run->count; i++)
        ct_source_close(run->sources[i]);
}

/* ---- statements ---- */

static int explain_stop(const struct ct_query_run *run, const struct ct_query_error *error, uint64_t rows) {
    char text[CT_TEXT_SIZE], time[CT_TEXT_SIZE];
    if (error->stopped && run->timed_out) {
        ct_message_error("stopped after %s (--timeout); rows so far: %s", ct_text_time(time, run->timeout_ns),
                         ct_text_count(text, rows));
        return CT_EXIT_UNAVAILABLE;
    }
    if (error->stopped) {
        ct_message_error("stopped; rows so far: %s", ct_text_count(text, rows));
        return CT_EXIT_INTERRUPTED;
    }
    if (error->no_memory && run->memory) {
        ct_message_error("the query needs more memory than %s; select fewer rows, or allow more with --memory",
                         ct_text_size(text, run->memory));
        return CT_EXIT_UNAVAILABLE;
    }
    if (error->at >= 0)
        ct_message_error("%s (at character %d)", error->text, error->at + 1);
    else
        ct_message_error("%s", error->text);
    return CT_EXIT_USAGE;
}

static int run_statement(struct ct_query_run *run) {
    static struct ct_query_print print; /* large */
    struct ct_query_error error;
    int status = 0;
    print.before = erase_progress;
    print.arg = run;
    ct_query_print_begin(&print, run->query, run->form);
    bool wanted = true;
    while (wanted && (status = ct_query_step(run->query, &error)) > 0)
        wanted = ct_query_print_row(&print);
    uint64_t rows = print.rows;
    ct_live_erase(&run->live);
    int code = ct_query_print_end(&print);
    return status < 0 ? explain_stop(run, &error, rows) : code;
}

static int run_statements(struct ct_query_run *run, const char *sql) {
    struct ct_query_error error;
    int ready, code = 0;
    while (!code && (ready = ct_query_prepare(run->query, sql, &sql, &error)) != 0) {
        if (ready < 0)
            return explain_stop(run, &error, 0);
        run->began_ns = ct_live_now();
        run->timed_out = false;
        ct_live_init(&run->live, true, false);
        run->live.counted_ns = run->began_ns;
        code = run_statement(run);
        if (run->counters)
            ct_query_print_counters(run);
    }
    return code;
}

int ct_query_run_text(struct ct_query_run *run, const char *text) {
    text += strspn(text, " \t\n");
    ct_query_run_catch();
    int code = *text == '.' ? ct_query_run_command(run, text) : run_statements(run, text);
    signal(SIGINT, SIG_DFL);
    return code;
}

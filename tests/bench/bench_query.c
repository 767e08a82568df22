/* SPDX-License-Identifier: Apache-2.0 */
/* SQL over a trace of 20 million events (one thread, packed): full scans, with SQLite reading the same rows from a
 * table of its own beside them, and questions for which few blocks are unpacked. Scans are seconds of one processor,
 * questions and sums over all calls seconds on the clock; the best of three counts.
 *
 *   bench_query [MILLIONS OF EVENTS] [--keep DIRECTORY]
 *
 * Files go to TMPDIR (default /tmp); --keep leaves a trace with its summary in a new directory, and measures
 * nothing. */
#include "parts_trace.h"
#include "query/query.h"
#include "trace/reader.h"
#include "trace_bench.h"
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>

enum { ROUNDS = 3 };

static char directory[300];

/* ---- our rows ---- */

struct asked {
    struct ct_trace *trace;
    struct ct_source *source;
    struct ct_query *query;
};

static void open_query(struct asked *a, unsigned jobs) {
    must(ct_trace_open(&a->trace, directory, NULL, 0), "trace");
    a->trace->jobs = jobs;
    must(ct_source_open(&a->source, &(struct ct_source_setup){.trace = a->trace}), "source");
    must(ct_query_open(&a->query, &(struct ct_query_setup){.sources = &a->source, .source_count = 1}), "query");
}

static void close_query(struct asked *a) {
    ct_query_close(a->query);
    ct_source_close(a->source);
    ct_trace_close(a->trace);
}

static int64_t first_value(struct ct_query *query, const char *sql) {
    struct ct_query_error error;
    struct ct_cell cell = {0};
    const char *rest;
    int status = ct_query_prepare(query, sql, &rest, &error);
    int64_t value = 0;
    while (status > 0 && (status = ct_query_step(query, &error)) > 0) {
        ct_query_value(query, 0, &cell);
        value = cell.type == CT_CELL_INTEGER ? cell.integer : 0;
    }
    if (status < 0)
        fprintf(stderr, "%s: %s\n", sql, error.text);
    must(status < 0 ? CT_ERR_INVALID_ARGUMENT : 0, "query");
    return value;
}

/* Seconds for a statement, with a query of its own: nothing is known from before. */
static double ask(const char *sql, unsigned jobs, clockid_t clock, int64_t *answer, struct ct_source_blocks *blocks) {
    double best = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        struct asked a;
        open_query(&a, jobs);
        double start = bench_clock(clock);
        *answer = first_value(a.query, sql);
        double took = bench_clock(clock) - start;
        best = took < best ? took : best;
        *blocks = ct_source_blocks(a.source);
        close_query(&a);
    }
    return best;
}

/* ---- SQLite's own table ---- */

static void run(sqlite3 *db, const char *sql) {
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
        exit(1);
    }
}

static void bind(sqlite3_stmt *insert, int at, const struct ct_cell *cell) {
    if (cell->type == CT_CELL_INTEGER)
        sqlite3_bind_int64(insert, at, cell->integer);
    else if (cell->type == CT_CELL_TEXT)
        sqlite3_bind_text(insert, at, cell->text, -1, SQLITE_TRANSIENT);
    else
        sqlite3_bind_null(insert, at);
}

static void copy_rows(sqlite3 *db) {
    struct asked a;
    struct ct_query_error error;
    struct ct_cell cell = {0};
    const char *rest;
    sqlite3_stmt *insert;
    open_query(&a, 1);
    run(db,
        "CREATE TABLE calls(id INTEGER PRIMARY KEY, thread INTEGER, function TEXT, start INTEGER, duration INTEGER, "
        "self INTEGER, depth INTEGER, parent INTEGER); BEGIN");
    sqlite3_prepare_v2(db, "INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?)", -1, &insert, NULL);
    must(ct_query_prepare(a.query, "SELECT id, thread, function, start, duration, self, depth, parent FROM calls",
                          &rest, &error) < 0,
         "rows");
    while (ct_query_step(a.query, &error) > 0) {
        for (int i = 0; i < 8; i++) {
            ct_query_value(a.query, i, &cell);
            bind(insert, i + 1, &cell);
        }
        sqlite3_step(insert);
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    run(db, "COMMIT");
    close_query(&a);
}

static double ask_table(sqlite3 *db, const char *sql, int64_t *answer) {
    double best = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        sqlite3_stmt *statement;
        double start = bench_clock(CLOCK_THREAD_CPUTIME_ID);
        sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
        while (sqlite3_step(statement) == SQLITE_ROW)
            *answer = sqlite3_column_int64(statement, 0);
        sqlite3_finalize(statement);
        double took = bench_clock(CLOCK_THREAD_CPUTIME_ID) - start;
        best = took < best ? took : best;
    }
    return best;
}

/* ---- the figures ---- */

static void measure_scans(double rows) {
    static const char *const scans[] = {
        "SELECT count(*) FROM calls",
        "SELECT sum(duration) FROM calls",
        "SELECT max(start + duration - self + depth) FROM calls",
        "SELECT count(*) FROM calls WHERE function > 'g'",
    };
    char path[400];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/../table.db", directory);
    sqlite3_open(path, &db);
    copy_rows(db);
    printf("full scans, M rows/s of one processor          trace   SQLite's table\n");
    for (size_t i = 0; i < sizeof scans / sizeof *scans; i++) {
        int64_t ours = 0, theirs = 0;
        struct ct_source_blocks blocks;
        double trace = ask(scans[i], 1, CLOCK_THREAD_CPUTIME_ID, &ours, &blocks),
               table = ask_table(db, scans[i], &theirs);
        printf("  %-42s %7.1f  %7.1f%s\n", scans[i], rows / trace / 1e6, rows / table / 1e6,
               ours == theirs ? "" : "   the answers differ!");
    }
    sqlite3_close(db);
}

static void measure_questions(void) {
    static const char *const questions[] = {
        "SELECT duration FROM calls WHERE id = 9000000",
        "SELECT count(*) FROM calls WHERE start BETWEEN 300000000 AND 300100000",
        "SELECT count(*) FROM calls WHERE function = 'function_300'",
        "SELECT count(*) FROM calls WHERE duration > 50000000",
        "SELECT max(duration) FROM (SELECT duration FROM calls ORDER BY duration DESC LIMIT 10)",
        "SELECT max(level) FROM stack_at(1, 300000000)",
        "SELECT sum(calls) FROM functions",
        "SELECT sum(calls) FROM edges",
    };
    printf("questions, ms on the clock                                   blocks unpacked\n");
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        int64_t answer = 0;
        struct ct_source_blocks blocks;
        double took = ask(questions[i], 0, CLOCK_MONOTONIC, &answer, &blocks);
        printf("  %-60.60s %8.2f   %6llu of %llu\n", questions[i], took * 1e3, (unsigned long long)blocks.unpacked,
               (unsigned long long)blocks.all);
    }
}

static void make_summary(void) {
    struct ct_trace *trace;
    struct ct_facts facts;
    struct ct_summary *summary;
    must(ct_trace_open(&trace, directory, NULL, 0), "trace");
    must(ct_facts_load(&facts, trace), "facts");
    must(ct_summary_open(&summary, trace, 0, &(struct ct_summary_options){.facts = &facts}), "summary");
    ct_summary_close(summary);
    ct_facts_free(&facts);
    ct_trace_close(trace);
}

int main(int argc, char **argv) {
    const char *temporary = getenv("TMPDIR");
    char root[200], command[300];
    bool keep = argc > 2 && !strcmp(argv[argc - 2], "--keep");
    uint32_t events = argc > (keep ? 3 : 1) ? (uint32_t)atoi(argv[1]) * 1000000u : 20000000u;
    if (keep)
        snprintf(root, sizeof root, "%s", argv[argc - 1]);
    else
        snprintf(root, sizeof root, "%s/bench_query_XXXXXX", temporary ? temporary : "/tmp");
    if (keep ? mkdir(root, 0700) : !mkdtemp(root))
        must(CT_ERR_SYSTEM, root);
    snprintf(directory, sizeof directory, "%s/pid_1000", root);
    if (mkdir(directory, 0700))
        must(CT_ERR_SYSTEM, directory);
    write_parts_trace(directory, events);
    make_summary();
    if (keep)
        return 0;
    measure_scans((double)events / 2);
    measure_questions();
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command) != 0;
}

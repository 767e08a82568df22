/* SPDX-License-Identifier: Apache-2.0 */
/* Work of the kinds that sqlite's own speed test is described to have, in SQL of ours: inserts in order and out of
 * order, with and without indexes, scans, LIKE, sorting, many small searches by number and text, updates and deletes of
 * ranges and of single rows, joins, subqueries, replacing, a vacuum and a check of the whole file. In memory; each
 * statement is prepared once and runs many times with other values.
 *
 * sqlite_work SIZE     SIZE: 10 takes a quarter of a second. Prints `ms N`, how long all of it took. */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How often a step runs: so many times SIZE. ONCE: once, or SCANS times if it has values, whatever the size. */
enum { ONCE, MANY = 100, ROWS = 500, MOST = 3000 };

/* ?1 is the number of the run, ?2 that number out of order, ?3 is a little more than ?2, ?4 a text for ?2. */
static const struct step {
    const char *sql;
    unsigned times;
} steps[] = {
    {"CREATE TABLE plain(a INTEGER, b INTEGER, c TEXT)", ONCE},
    {"CREATE TABLE keyed(a INTEGER PRIMARY KEY, b INTEGER, c TEXT)", ONCE},
    {"CREATE TABLE mixed(a INTEGER PRIMARY KEY, b INTEGER, c TEXT)", ONCE},
    {"CREATE TABLE named(k TEXT PRIMARY KEY, v INTEGER) WITHOUT ROWID", ONCE},
    {"BEGIN", ONCE},
    {"INSERT INTO plain VALUES (?1, ?2, ?4)", ROWS},
    {"INSERT INTO keyed VALUES (?1, ?2, ?4)", ROWS},
    {"INSERT OR IGNORE INTO mixed VALUES (?2, ?1, ?4)", ROWS},
    {"COMMIT", ONCE},
    {"SELECT count(*), avg(b), sum(length(c)) FROM plain WHERE b BETWEEN ?2 AND ?3", ONCE},
    {"SELECT count(*), avg(b) FROM plain WHERE c LIKE '%' || substr(?4, 3, 6) || '%'", ONCE},
    {"SELECT a, b, c FROM plain WHERE c LIKE '%four%' ORDER BY c, b LIMIT 20 OFFSET ?1", ONCE},
    {"CREATE UNIQUE INDEX keyed_b ON keyed(a, b)", ONCE},
    {"CREATE INDEX plain_a ON plain(a)", ONCE},
    {"CREATE INDEX plain_b ON plain(b)", ONCE},
    {"CREATE INDEX plain_c ON plain(c)", ONCE},
    {"SELECT count(*), avg(b), sum(a) FROM plain WHERE b BETWEEN ?2 AND ?3", MANY},
    {"SELECT count(*), avg(b), sum(b) FROM keyed WHERE a BETWEEN ?2 AND ?3", MANY},
    {"SELECT count(*), avg(b) FROM plain WHERE c BETWEEN ?4 AND ?4 || '~'", MANY},
    {"CREATE TABLE copy(a INTEGER PRIMARY KEY, b INTEGER UNIQUE, c TEXT)", ONCE},
    {"INSERT OR REPLACE INTO copy SELECT a, b, c FROM plain ORDER BY b", ONCE},
    {"DELETE FROM keyed", ONCE},
    {"INSERT INTO keyed SELECT a, b, c FROM copy", ONCE},
    {"VACUUM", ONCE},
    {"ALTER TABLE keyed ADD COLUMN d INTEGER DEFAULT 123", ONCE},
    {"SELECT sum(d) FROM keyed", ONCE},
    {"UPDATE keyed SET d = b * 2 WHERE a BETWEEN ?2 AND ?3", MANY},
    {"UPDATE copy SET c = c || '!' WHERE a = ?1", ROWS},
    {"UPDATE keyed SET d = b * 4", ONCE},
    {"SELECT sum(d) FROM keyed WHERE d > 100", ONCE},
    {"DELETE FROM plain WHERE b BETWEEN ?2 AND ?2 + 3", MANY},
    {"DELETE FROM mixed WHERE a = ?1", ROWS},
    {"REPLACE INTO plain SELECT a, b, c FROM keyed WHERE (a & 1) = (b & 1)", ONCE},
    {"REPLACE INTO mixed SELECT a, b, c FROM keyed", ONCE},
    {"SELECT p.c FROM plain p, keyed q, copy r, mixed s WHERE p.a = ?2 AND q.a = p.a AND r.b = q.b AND s.a = r.a",
     MANY},
    {"SELECT count(*), (SELECT max(c) FROM copy WHERE copy.a < keyed.b) FROM keyed WHERE a < ?2 LIMIT 1", ONCE},
    {"REPLACE INTO keyed(a, b) VALUES (?2, ?1)", MOST},
    {"SELECT b FROM keyed WHERE a = ?2", MOST},
    {"REPLACE INTO named VALUES (?4, ?1)", MOST},
    {"SELECT v FROM named WHERE k = ?4", MOST},
    {"SELECT DISTINCT b % 1000 FROM keyed", ONCE},
    {"SELECT c, count(*) FROM copy GROUP BY substr(c, 1, 9) ORDER BY 2 DESC LIMIT 5", ONCE},
    {"PRAGMA integrity_check", ONCE},
    {"ANALYZE", ONCE},
};

enum { SCANS = 10 };

static uint64_t sum;

/* Words for a number, so that texts begin alike and differ in length. */
static void spell(char *to, size_t size, unsigned number) {
    static const char *const words[] = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};
    size_t at = 0;
    char digits[16];
    (void)snprintf(digits, sizeof digits, "%u", number);
    for (const char *d = digits; *d && at < size; d++)
        at += (size_t)snprintf(to + at, size - at, "%s%s", at ? " " : "", words[*d - '0']);
}

static void check(sqlite3 *db, int status) {
    if (status == SQLITE_OK || status == SQLITE_DONE || status == SQLITE_ROW)
        return;
    fprintf(stderr, "sqlite_work: %s\n", sqlite3_errmsg(db));
    exit(1);
}

static void bind(sqlite3_stmt *statement, unsigned run, unsigned rows) {
    unsigned mixed = (unsigned)((run * UINT64_C(2654435761) + 12345) % rows) + 1;
    int parameters = sqlite3_bind_parameter_count(statement);
    char text[96];
    if (parameters > 0)
        sqlite3_bind_int(statement, 1, (int)run);
    if (parameters > 1)
        sqlite3_bind_int(statement, 2, (int)mixed);
    if (parameters > 2)
        sqlite3_bind_int(statement, 3, (int)mixed + 50);
    if (parameters > 3) {
        spell(text, sizeof text, mixed);
        sqlite3_bind_text(statement, 4, text, -1, SQLITE_TRANSIENT);
    }
}

static void run_once(sqlite3 *db, sqlite3_stmt *statement) {
    int status;
    while ((status = sqlite3_step(statement)) == SQLITE_ROW)
        for (int i = 0; i < sqlite3_column_count(statement); i++)
            sum += (uint64_t)sqlite3_column_int64(statement, i) + (uint64_t)sqlite3_column_bytes(statement, i);
    check(db, status);
    check(db, sqlite3_reset(statement));
}

static void run_step(sqlite3 *db, const struct step *step, unsigned size) {
    sqlite3_stmt *statement;
    bool many = step->times > ONCE && strncmp(step->sql, "SELECT", 6) != 0;
    unsigned times = step->times == ONCE ? (strchr(step->sql, '?') ? SCANS : 1) : step->times * size;
    check(db, sqlite3_prepare_v2(db, step->sql, -1, &statement, NULL));
    if (many && sqlite3_get_autocommit(db))
        check(db, sqlite3_exec(db, "SAVEPOINT step", NULL, NULL, NULL));
    for (unsigned run = 1; run <= times; run++) {
        bind(statement, run, ROWS * size);
        run_once(db, statement);
    }
    check(db, sqlite3_finalize(statement));
    if (many && !sqlite3_get_autocommit(db))
        (void)sqlite3_exec(db, "RELEASE step", NULL, NULL, NULL); /* there is none between BEGIN and COMMIT */
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

int main(int argc, char **argv) {
    sqlite3 *db;
    unsigned size = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
    double start = now_ms();
    check(NULL, sqlite3_open(":memory:", &db));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        run_step(db, &steps[i], size);
    sqlite3_close(db);
    printf("sum %016llx\nms %.0f\n", (unsigned long long)sum, now_ms() - start);
    return 0;
}

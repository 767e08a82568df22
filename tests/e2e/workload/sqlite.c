/* SPDX-License-Identifier: Apache-2.0 */
/* SQLite: tables, indices, joins, aggregates, windows, JSON, full text search, user functions, errors. */
#include "workload.h"
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print_row(void *arg, int columns, char **values, char **names) {
    (void)arg;
    (void)names;
    for (int i = 0; i < columns; i++)
        printf("%s%s", i ? "|" : "", values[i] ? values[i] : "NULL");
    putchar('\n');
    return 0;
}

static void run(sqlite3 *db, const char *sql) {
    char *error = NULL;
    if (sqlite3_exec(db, sql, print_row, NULL, &error) != SQLITE_OK)
        printf("error: %s\n", error);
    sqlite3_free(error);
}

/* A function of the program, called from SQL, called back from sqlite */
static void triple(sqlite3_context *context, int count, sqlite3_value **values) {
    (void)count;
    sqlite3_result_int64(context, 3 * sqlite3_value_int64(values[0]));
}

static int by_length(void *arg, int size_a, const void *a, int size_b, const void *b) {
    (void)arg;
    int order = size_a - size_b;
    return order ? order : memcmp(a, b, (size_t)size_a);
}

static void fill(sqlite3 *db, int rows) {
    sqlite3_stmt *insert;
    run(db, "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT, age INT, score REAL);"
            "CREATE TABLE friendship(a INT, b INT, since TEXT);"
            "CREATE INDEX by_age ON person(age, name); BEGIN");
    sqlite3_prepare_v2(db, "INSERT INTO person VALUES(?,?,?,?)", -1, &insert, NULL);
    for (int i = 1; i <= rows; i++) {
        char name[32];
        snprintf(name, sizeof name, "name%d", i * 7919 % rows);
        sqlite3_bind_int(insert, 1, i);
        sqlite3_bind_text(insert, 2, name, -1, SQLITE_TRANSIENT);
        sqlite3_bind_int(insert, 3, i * 31 % 80);
        sqlite3_bind_double(insert, 4, i / 7.0);
        if (sqlite3_step(insert) != SQLITE_DONE)
            printf("insert failed\n");
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    run(db,
        "INSERT INTO friendship SELECT id, id * 13 % (SELECT count(*) FROM person) + 1, date(id * 86400, 'unixepoch')"
        "FROM person WHERE id % 3 = 0; COMMIT");
}

void workload_sqlite(int scale) {
    sqlite3 *db;
    if (sqlite3_open(":memory:", &db) != SQLITE_OK)
        return;
    fill(db, scale * 500);
    sqlite3_create_function(db, "triple", 1, SQLITE_UTF8, NULL, triple, NULL, NULL);
    sqlite3_create_collation(db, "length", SQLITE_UTF8, NULL, by_length);
    run(db, "SELECT age, count(*), round(avg(score), 6), group_concat(id % 10) FROM person WHERE age < 5 GROUP BY age");
    run(db, "SELECT p.name, q.name, f.since FROM friendship f JOIN person p ON p.id = f.a JOIN person q ON q.id = f.b "
            "WHERE p.age > 70 ORDER BY p.name, q.id LIMIT 10");
    run(db, "SELECT name, rank() OVER (PARTITION BY age ORDER BY score DESC) r FROM person WHERE age = 7 ORDER BY r "
            "LIMIT 5");
    run(db, "WITH RECURSIVE fib(n, a, b) AS (SELECT 1, 0, 1 UNION ALL SELECT n + 1, b, a + b FROM fib WHERE n < 50) "
            "SELECT max(a), sum(n) FROM fib");
    run(db, "SELECT sum(triple(id)) FROM person; SELECT name FROM person ORDER BY name COLLATE length DESC LIMIT 3");
    run(db, "SELECT json_extract('{\"a\":[1,2,{\"b\":\"x\"}]}', '$.a[2].b'), json_group_array(id) FROM person WHERE id "
            "< 6");
    run(db,
        "CREATE VIRTUAL TABLE doc USING fts5(body); INSERT INTO doc VALUES('the quick brown fox'), ('lazy dogs sleep'),"
        "('a fox and a dog'); SELECT rowid, highlight(doc, 0, '[', ']') FROM doc WHERE doc MATCH 'fox OR dog*' ORDER "
        "BY rowid");
    run(db,
        "CREATE TRIGGER older AFTER UPDATE ON person BEGIN UPDATE friendship SET since = 'now' WHERE a = new.id; END;"
        "UPDATE person SET age = age + 1 WHERE id % 5 = 0; SELECT count(*) FROM friendship WHERE since = 'now'");
    run(db, "SELECT printf('%08.3f %s', 3.14159, hex(zeroblob(2))), typeof(1.0), abs(-5), substr('hello', 2, 3), "
            "upper('x')");
    run(db, "SELECT no_such_column FROM person");
    run(db, "DELETE FROM person WHERE id % 2; VACUUM; PRAGMA integrity_check; SELECT count(*), sum(length(name)) FROM "
            "person");
    sqlite3_close(db);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* parquet: a dataset of Parquet files, with the tables of `contrail query` under the same names and columns.
 *
 *   calls/process=1/thread=2/part-0.parquet   tables of many rows have a file for each thread; what its path says is
 *   functions/part-0.parquet                  not in the file, as readers of Hive's layout expect it
 *
 * Calls are sorted by their beginning within each group of rows; a call that is longer than a group of rows is in the
 * group in which it ends. */
#include "export/files.h"
#include "export/parquet_pipe.h"
#include "export/text.h"
#include "query/calls.h"
#include "trace/ahead.h"
#include <contrail/contrail.h>
#include <stdio.h>
#include <stdlib.h>

enum { RECENT = 1024, PROGRESS = 1 << 14, MOST_PARTS = 2, PATH = 80, WALL_CLOCK = -1 };

/* Columns that the path has. */
static const char *const parts[MOST_PARTS] = {"process", "thread"};

/* Names of a function, for a group. */
struct names {
    uint64_t function;
    const char *name, *module; /* NULL: the place is free */
};

struct dataset {
    struct ct_export *e;
    struct ct_source *source;
    struct ct_parquet_pipe *pipe;
    struct ct_parquet_texts texts;
    struct {
        const char *from, *text;
    } recent[RECENT];
    struct names functions[RECENT]; /* of the current process */
    /* the current table */
    enum ct_table_id id;
    bool apart; /* a file for each thread */
    struct ct_parquet_table tables[CT_TABLE_COUNT];
    int columns[CT_PARQUET_COLUMNS]; /* of the schema */
    struct ct_parquet_group *group;
    uint64_t advanced; /* events */
};

/* ---- columns ---- */

static bool is_part(const char *name) {
    for (size_t i = 0; i < MOST_PARTS; i++)
        if (!strcmp(name, parts[i]))
            return true;
    return false;
}

static enum ct_parquet_type type_of(enum ct_column_type type) {
    return type == CT_COLUMN_TEXT ? CT_PARQUET_TEXT : type == CT_COLUMN_REAL ? CT_PARQUET_REAL : CT_PARQUET_INTEGER;
}

/* Rows have numbers, by which they are sorted; everything else may be missing. */
static void choose_columns(struct dataset *d, enum ct_table_id id, bool apart) {
    const struct ct_table_schema *schema = ct_schema_table(id);
    struct ct_parquet_table *table = &d->tables[id];
    *table = (struct ct_parquet_table){.sorted_by = -1};
    d->id = id;
    d->apart = apart;
    for (int i = 0; i < schema->column_count && table->count < CT_PARQUET_COLUMNS; i++) {
        const struct ct_column *column = &schema->columns[i];
        if (column->flags & CT_COLUMN_HIDDEN || (apart && is_part(column->name)))
            continue;
        bool sorts = apart && column->ask == CT_ASK_ID;
        if (sorts)
            table->sorted_by = (int)table->count;
        d->columns[table->count] = i;
        table->columns[table->count++] =
            (struct ct_parquet_column){.name = column->name, .type = type_of(column->type), .optional = !sorts};
    }
    if (id == CT_TABLE_PROCESSES) {
        d->columns[table->count] = WALL_CLOCK;
        table->columns[table->count++] =
            (struct ct_parquet_column){.name = "wall_clock", .type = CT_PARQUET_TIME, .optional = true};
    }
}

/* ---- rows ---- */

/* What `contrail query` does not have: the wall clock where the time `start` of a process is, as a timestamp. */
static void wall_cell(struct dataset *d, struct ct_rows *rows, struct ct_cell *cell) {
    const struct ct_wall *wall = ct_source_wall(d->source);
    ct_rows_cell(rows, CT_PROCESSES_start, cell);
    if (cell->type == CT_CELL_INTEGER)
        cell->integer = (int64_t)(wall ? ct_wall_real(wall, d->source->start_ns + (uint64_t)cell->integer) : 0);
    if (cell->type == CT_CELL_INTEGER && !cell->integer)
        cell->type = CT_CELL_NULL;
}

/* A text for a group: it lives as long as the dataset. Most are names that come again and again. */
static const char *keep_text(struct dataset *d, const struct ct_cell *cell) {
    size_t at = ((uintptr_t)cell->text >> 4 ^ (uintptr_t)cell->text >> 14) % RECENT;
    if (cell->lasts && d->recent[at].from == cell->text)
        return d->recent[at].text;
    char clean[4096];
    clean[ct_text_clean(clean, sizeof clean - 1, cell->text, true)] = 0;
    const char *text = ct_parquet_intern(&d->texts, clean);
    if (cell->lasts) {
        d->recent[at].from = text ? cell->text : NULL;
        d->recent[at].text = text;
    }
    if (!text)
        ct_export_fail(d->e, CT_ERR_NO_MEMORY);
    return text;
}

static bool put_cell(struct dataset *d, const struct ct_cell *cell, enum ct_parquet_type type, int64_t *value) {
    double real;
    switch (type) {
    case CT_PARQUET_TEXT:
        *value = (int64_t)(uintptr_t)(cell->type == CT_CELL_TEXT ? keep_text(d, cell) : NULL);
        return *value;
    case CT_PARQUET_REAL:
        real = cell->type == CT_CELL_REAL ? cell->real : (double)cell->integer;
        memcpy(value, &real, sizeof real);
        return cell->type == CT_CELL_REAL || cell->type == CT_CELL_INTEGER;
    default:
        *value = cell->type == CT_CELL_INTEGER ? cell->integer : 0;
        return cell->type == CT_CELL_INTEGER;
    }
}

static void put_row(struct dataset *d, struct ct_rows *rows) {
    const struct ct_parquet_table *table = &d->tables[d->id];
    struct ct_parquet_group *g = d->group;
    struct ct_cell cell;
    for (size_t i = 0; i < table->count; i++) {
        if (d->columns[i] == WALL_CLOCK)
            wall_cell(d, rows, &cell);
        else
            ct_rows_cell(rows, d->columns[i], &cell);
        bool present = put_cell(d, &cell, table->columns[i].type, &g->values[i][g->rows]);
        if (table->columns[i].optional)
            g->present[i][g->rows] = present;
        g->filled[i] += present;
    }
    g->rows++;
}

/* ---- calls without detail ---- */

/* Most rows of most datasets are calls of threads without detail: these are not put cell by cell. The columns that are
 * left are those of detail, and stay empty. */
enum { ID, FUNCTION, MODULE, START, DURATION, SELF, DEPTH, PARENT, ENDED, COLUMNS };
static const int call_columns[COLUMNS] = {CT_CALLS_id,    CT_CALLS_function, CT_CALLS_module,
                                          CT_CALLS_start, CT_CALLS_duration, CT_CALLS_self,
                                          CT_CALLS_depth, CT_CALLS_parent,   CT_CALLS_ended};

/* Are these the columns that put_call knows, and the others those of detail? */
static bool knows_columns(const struct dataset *d) {
    if (d->id != CT_TABLE_CALLS || memcmp(d->columns, call_columns, sizeof call_columns) != 0)
        return false;
    for (size_t i = COLUMNS; i < d->tables[d->id].count; i++)
        if (d->columns[i] != CT_CALLS_arguments && d->columns[i] != CT_CALLS_result && d->columns[i] != CT_CALLS_error)
            return false;
    return true;
}

static const char *keep_name(struct dataset *d, const char *name) {
    struct ct_cell cell = {.type = CT_CELL_TEXT, .lasts = true, .text = name};
    return keep_text(d, &cell);
}

static const struct names *names_of(struct dataset *d, size_t process, uint64_t function) {
    struct names *n = &d->functions[(function ^ function >> 32) % RECENT];
    if (n->name && n->function == function)
        return n;
    const struct ct_cached_function *known = ct_function_cache_get(&d->source->names, process, function);
    *n = (struct names){.function = function};
    if (known) {
        n->name = keep_name(d, known->name);
        n->module = keep_name(d, known->module);
    }
    return n;
}

static void put_value(struct ct_parquet_group *g, size_t column, bool present, int64_t value) {
    g->values[column][g->rows] = value;
    g->present[column][g->rows] = present;
    g->filled[column] += present;
}

static void put_call(struct dataset *d, const struct ct_call_reader *reader) {
    struct ct_parquet_group *g = d->group;
    const struct ct_call *call = &reader->call;
    const struct names *names = names_of(d, reader->process, call->function);
    bool timed = call->end != CT_CALL_LOST && call->end != CT_CALL_ENTRY, inner = call->parent != CT_CALL_NO_PARENT;
    g->values[ID][g->rows] = ct_source_call_id(reader->thread, call->sequence);
    g->filled[ID]++;
    put_value(g, FUNCTION, names->name, (int64_t)(uintptr_t)names->name);
    put_value(g, MODULE, names->module, (int64_t)(uintptr_t)names->module);
    put_value(g, START, true, ct_source_time(d->source, call->began_ns));
    put_value(g, DURATION, timed, (int64_t)call->duration_ns);
    put_value(g, SELF, timed, (int64_t)call->self_ns);
    put_value(g, DEPTH, true, call->depth);
    put_value(g, PARENT, inner, inner ? ct_source_call_id(reader->thread, call->parent) : 0);
    put_value(g, ENDED, true, (int64_t)(uintptr_t)keep_name(d, ct_call_end_name(call->end)));
    g->rows++;
}

/* Is the call one that was asked for? */
static bool is_wanted(const struct dataset *d, int64_t id) {
    size_t thread = (size_t)(id >> CT_SOURCE_POSITION_BITS);
    uint64_t position = (uint64_t)id & ((UINT64_C(1) << CT_SOURCE_POSITION_BITS) - 1);
    return !d->e->fits || ct_fits_call(d->e->fits, thread, position);
}

/* Rows of calls are chosen as calls are; those of events by their time. */
static bool is_row_wanted(const struct dataset *d, struct ct_rows *rows) {
    struct ct_cell cell;
    if (!d->apart || !d->e->fits || (d->id != CT_TABLE_CALLS && d->id != CT_TABLE_ARGUMENTS))
        return true;
    ct_rows_cell(rows, d->columns[d->tables[d->id].sorted_by], &cell);
    return is_wanted(d, cell.integer);
}

static void advance(struct dataset *d) {
    uint64_t events = d->id == CT_TABLE_CALLS ? d->source->events - d->advanced : 0;
    d->advanced += events;
    ct_export_advance(d->e, events);
}

/* The group has a row more. False: the export has failed. */
static bool next_row(struct dataset *d, unsigned *since) {
    if (d->group->rows == CT_PARQUET_ROWS)
        d->group = ct_parquet_pipe_give(d->pipe) ? ct_parquet_pipe_group(d->pipe) : NULL;
    if (++*since == PROGRESS) {
        advance(d);
        *since = 0;
    }
    return d->group && !d->e->status;
}

static int put_calls(struct dataset *d, const struct ct_ask *ask) {
    struct ct_call_reader *reader = calloc(1, sizeof *reader);
    unsigned since = 0;
    int status = reader ? ct_call_reader_open(reader, d->source, ask) : CT_ERR_NO_MEMORY;
    bool more = !status;
    memset(d->functions, 0, sizeof d->functions);
    while (more && (status = ct_call_reader_next(reader)) > 0) {
        if (!is_wanted(d, ct_source_call_id(reader->thread, reader->call.sequence)))
            continue;
        put_call(d, reader);
        more = next_row(d, &since);
    }
    if (reader)
        ct_call_reader_close(reader);
    free(reader);
    return status < 0 ? status : 0;
}

static int put_cells(struct dataset *d, const struct ct_ask *ask) {
    struct ct_rows *rows;
    unsigned since = 0;
    int status = ct_rows_open(&rows, d->source, d->id, ask);
    bool more = !status;
    while (more && (status = ct_rows_next(rows)) > 0) {
        if (!is_row_wanted(d, rows))
            continue;
        put_row(d, rows);
        more = next_row(d, &since);
    }
    ct_rows_close(rows);
    return status < 0 ? status : 0;
}

/* ---- files ---- */

static int put_file(struct dataset *d, const struct ct_ask *ask, const char *directory, bool detail) {
    struct ct_out out;
    const struct ct_trace *trace = d->e->trace;
    const char *about[] = {"contrail.trace",
                           ct_trace_process_count(trace) ? ct_trace_process_at(trace, 0)->directory : ""};
    int status = 0;
    if (ct_export_create(d->e, &out, "%s/part-0.parquet", directory)) {
        char creator[64];
        snprintf(creator, sizeof creator, "contrail version %s", ct_version());
        ct_parquet_pipe_begin(d->pipe, &out, &d->tables[d->id]);
        d->group = ct_parquet_pipe_group(d->pipe);
        if (d->group)
            status = !detail && knows_columns(d) ? put_calls(d, ask) : put_cells(d, ask);
        if (!ct_parquet_pipe_finish(d->pipe, creator, about, 1) && !status)
            status = CT_ERR_NO_MEMORY;
        advance(d);
    }
    ct_export_close(d->e, &out);
    return status ? status : d->e->status;
}

/* The selected time, of events. */
static void choose_time(const struct dataset *d, struct ct_ask_range *range) {
    const struct ct_select *select = &d->e->options->select;
    if (select->from_ns)
        range->low = ct_source_time(d->source, select->from_ns);
    if (select->to_ns)
        range->high = ct_source_time(d->source, select->to_ns) - 1;
}

static int put_thread(struct dataset *d, size_t thread) {
    const struct ct_trace_thread *info = ct_trace_thread_at(d->e->trace, thread);
    const char *table = ct_schema_table(d->id)->name;
    struct ct_ask ask;
    char directory[PATH];
    if (!info->event_count || !ct_select_thread(&d->e->options->select, d->e->trace, thread))
        return 0;
    ct_ask_all(&ask);
    ask.ranges[CT_ASK_THREAD] = (struct ct_ask_range){(int64_t)thread + 1, (int64_t)thread + 1};
    if (d->id != CT_TABLE_CALLS && d->id != CT_TABLE_ARGUMENTS)
        choose_time(d, &ask.ranges[CT_ASK_TIME]);
    snprintf(directory, sizeof directory, "%s/process=%zu/thread=%zu", table, info->process + 1, thread + 1);
    if (!ct_export_make_directory(d->e, "%s/process=%zu", table, info->process + 1) ||
        !ct_export_make_directory(d->e, "%s", directory))
        return d->e->status;
    return put_file(d, &ask, directory, info->has_detail);
}

static int put_table(struct dataset *d, enum ct_table_id id, bool apart) {
    const char *name = ct_schema_table(id)->name;
    struct ct_ask ask;
    int status = 0;
    choose_columns(d, id, apart);
    if (!ct_export_make_directory(d->e, "%s", name))
        return d->e->status;
    ct_ask_all(&ask);
    if (!apart)
        return put_file(d, &ask, name, true);
    for (size_t i = 0; i < ct_trace_thread_count(d->e->trace) && !status; i++)
        status = put_thread(d, i);
    return status;
}

/* ---- which tables ---- */

/* Has the table a column of this kind? */
static bool has_ask(const struct ct_table_schema *schema, enum ct_ask_field ask) {
    for (int i = 0; i < schema->column_count; i++)
        if (schema->columns[i].ask == ask)
            return true;
    return false;
}

/* A table that takes arguments is a question, not data. */
static bool is_data(const struct ct_table_schema *schema) {
    for (int i = 0; i < schema->column_count; i++)
        if (schema->columns[i].flags & CT_COLUMN_ARGUMENT)
            return false;
    return true;
}

/* Tables of many rows can be asked for a thread, and by number. */
static bool is_apart(const struct ct_table_schema *schema) {
    return has_ask(schema, CT_ASK_ID) && has_ask(schema, CT_ASK_THREAD);
}

/* Is the name in a list that is separated by commas? */
static bool is_listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (!strncmp(at, name, length) && (!at[length] || at[length] == ','))
            return true;
    return false;
}

static bool is_table(const char *name, size_t length) {
    for (enum ct_table_id id = 0; id < CT_TABLE_COUNT; id++) {
        const struct ct_table_schema *schema = ct_schema_table(id);
        if (is_data(schema) && strlen(schema->name) == length && !strncmp(schema->name, name, length))
            return true;
    }
    return false;
}

bool ct_export_check_tables(const char *list, char *wrong, size_t size, char known[CT_EXPORT_TABLES_TEXT]) {
    size_t used = 0;
    for (enum ct_table_id id = 0; id < CT_TABLE_COUNT; id++)
        if (is_data(ct_schema_table(id)) && used < CT_EXPORT_TABLES_TEXT)
            used += (size_t)snprintf(known + used, CT_EXPORT_TABLES_TEXT - used, "%s%s", used ? "," : "",
                                     ct_schema_table(id)->name);
    for (;;) {
        size_t length = strcspn(list, ",");
        if (!is_table(list, length)) {
            snprintf(wrong, size, "%.*s", (int)length, list);
            return false;
        }
        if (!list[length])
            return true;
        list += length + 1;
    }
}

static bool is_chosen(const struct dataset *d, enum ct_table_id id) {
    const char *wanted = d->e->options->tables;
    const struct ct_table_schema *schema = ct_schema_table(id);
    return is_data(schema) && (!wanted || is_listed(wanted, schema->name));
}

/* ---- the dataset ---- */

/* The functions that return tables, for a reader that has none of them. They use `calls`. */
static const char macros[] =
    "CREATE OR REPLACE MACRO stack_at(in_thread, at_time) AS TABLE\n"
    "  SELECT row_number() OVER (ORDER BY id DESC) - 1 AS level, id, function, module, start, depth\n"
    "  FROM calls WHERE thread = in_thread AND start <= at_time AND start + duration > at_time ORDER BY level;\n"
    "CREATE OR REPLACE MACRO subtree(root) AS TABLE\n"
    "  WITH RECURSIVE tree AS (\n"
    "    SELECT * FROM calls WHERE id = root\n"
    "    UNION ALL SELECT calls.* FROM calls JOIN tree ON calls.parent = tree.id)\n"
    "  SELECT * FROM tree ORDER BY id;\n"
    "CREATE OR REPLACE MACRO callers(innermost) AS TABLE\n"
    "  WITH RECURSIVE stack AS (\n"
    "    SELECT 0 AS level, id, function, module, start, depth, parent FROM calls WHERE id = innermost\n"
    "    UNION ALL SELECT level + 1, c.id, c.function, c.module, c.start, c.depth, c.parent\n"
    "    FROM calls AS c JOIN stack ON c.id = stack.parent)\n"
    "  SELECT level, id, function, module, start, depth FROM stack ORDER BY level;\n"
    "CREATE OR REPLACE MACRO histogram(name) AS TABLE\n"
    "  SELECT min(process) AS process, function, CASE WHEN power = 0 THEN 0 ELSE 1::BIGINT << power END AS low,\n"
    "    1::BIGINT << (power + 1) AS high, count(*) AS calls\n"
    "  FROM (SELECT *, length(ltrim(duration::BIT::VARCHAR, '0')) - 1 AS bits, greatest(bits, 0) AS power FROM calls\n"
    "    WHERE function GLOB name AND duration IS NOT NULL)\n"
    "  GROUP BY function, module, power ORDER BY function, module, power;\n";

static int put_views(struct dataset *d) {
    struct ct_out out;
    if (ct_export_create(d->e, &out, "views.sql")) {
        ct_out_text(&out, "-- The tables of this dataset for DuckDB: cd here && duckdb -init views.sql\n");
        for (enum ct_table_id id = 0; id < CT_TABLE_COUNT; id++) {
            const struct ct_table_schema *schema = ct_schema_table(id);
            if (!is_chosen(d, id))
                continue;
            ct_out_format(&out, "CREATE OR REPLACE VIEW %s AS SELECT * FROM read_parquet('%s/%s', ", schema->name,
                          schema->name, is_apart(schema) ? "**/*.parquet" : "*.parquet");
            ct_out_format(&out, "hive_partitioning = %s);\n", is_apart(schema) ? "true" : "false");
        }
        if (is_chosen(d, CT_TABLE_CALLS))
            ct_out_text(&out, macros);
    }
    ct_export_close(d->e, &out);
    return d->e->status;
}

static int put_tables(struct dataset *d) {
    int status = 0;
    for (enum ct_table_id id = 0; id < CT_TABLE_COUNT && !status; id++)
        if (is_chosen(d, id))
            status = put_table(d, id, is_apart(ct_schema_table(id)));
    return status ? status : put_views(d);
}

int ct_export_parquet(struct ct_export *e) {
    static const enum ct_parquet_codec codecs[] = {
        [CT_EXPORT_ZSTD] = CT_PARQUET_ZSTD, [CT_EXPORT_LZ4] = CT_PARQUET_LZ4, [CT_EXPORT_STORED] = CT_PARQUET_STORED};
    struct dataset *d = calloc(1, sizeof *d);
    if (!d)
        return CT_ERR_NO_MEMORY;
    d->e = e;
    int status = ct_source_open(&d->source, &(struct ct_source_setup){.trace = e->trace});
    if (!status && !(d->pipe = ct_parquet_pipe_open(ct_ahead_processors(e->trace), codecs[e->options->codec])))
        status = CT_ERR_NO_MEMORY;
    if (!status)
        status = put_tables(d);
    ct_parquet_pipe_close(d->pipe);
    ct_parquet_texts_free(&d->texts);
    ct_source_close(d->source);
    free(d);
    return status ? status : e->status;
}

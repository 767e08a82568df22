/* SPDX-License-Identifier: Apache-2.0 */
/* The prompt of `contrail query`: see query_prompt.h.
 *
 * libedit, or else readline, is loaded when it is needed, like libdw: contrail stays one file that runs without them.
 * Both have these functions. Then the prompt is a plain one. */
#include "cli/query_prompt.h"
#include "base/grow.h"
#include "cli/command.h"
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HISTORY_LINES = 1000 };

/* ---- words to complete ---- */

static const char *const keywords[] = {
    "AND",  "AS",   "ASC",   "BETWEEN", "BY",   "CASE",  "DESC",  "DISTINCT", "ELSE",      "END",
    "FROM", "GLOB", "GROUP", "HAVING",  "IN",   "IS",    "JOIN",  "LEFT",     "LIKE",      "LIMIT",
    "MIN",  "NOT",  "NULL",  "OFFSET",  "ON",   "OR",    "ORDER", "OVER",     "PARTITION", "SELECT",
    "SUM",  "THEN", "UNION", "USING",   "WHEN", "WHERE", "WITH",
};

/* Shows a name only once: many tables have the same columns. */
static bool is_first(int table, int column) {
    const char *name = ct_schema_table((enum ct_table_id)table)->columns[column].name;
    for (int i = 0; i <= table; i++) {
        const struct ct_table_schema *other = ct_schema_table((enum ct_table_id)i);
        for (int k = 0; k < (i == table ? column : other->column_count); k++)
            if (!strcmp(other->columns[k].name, name))
                return false;
    }
    return true;
}

/* Counts the words that fit; takes the one with number *i. */
static const char *count_word(const char *word, const char *text, size_t *i) {
    bool fits = !strncasecmp(word, text, strlen(text));
    return fits && !(*i)-- ? word : NULL;
}

static const char *complete_name(const char *text, bool tables, size_t *i) {
    const char *found = NULL;
    for (int t = 0; t < CT_TABLE_COUNT && !found; t++) {
        const struct ct_table_schema *table = ct_schema_table((enum ct_table_id)t);
        found = count_word(table->name, text, i);
        for (int k = 0; !tables && k < table->column_count && !found; k++)
            if (is_first(t, k) && strcmp(table->columns[k].name, table->name) != 0)
                found = count_word(table->columns[k].name, text, i);
    }
    return found;
}

const char *ct_query_complete(const char *text, bool tables, size_t i) {
    static char command[32];
    const char *found = NULL, *name;
    if (*text == '.') {
        for (size_t k = 0; !found && (name = ct_query_command_name(k)); k++)
            found = count_word(name, text + 1, &i);
        snprintf(command, sizeof command, ".%s", found ? found : "");
        return found ? command : NULL;
    }
    const char *dot = strrchr(text, '.'); /* of "a.calls": the table */
    found = complete_name(dot ? dot + 1 : text, tables, &i);
    for (size_t k = 0; !found && !dot && !tables && *text && k < sizeof keywords / sizeof *keywords; k++)
        found = count_word(keywords[k], text, &i);
    return found;
}

/* ---- the library ---- */

#define LIBRARY_LIST(X)                                                                                                \
    X(char *, readline, (const char *prompt))                                                                          \
    X(void, add_history, (const char *line))                                                                           \
    X(int, read_history, (const char *path))                                                                           \
    X(int, write_history, (const char *path))                                                                          \
    X(void, stifle_history, (int lines))                                                                               \
    X(char **, rl_completion_matches, (const char *text, char *(*next)(const char *text, int state)))

static struct {
#define MEMBER(type, name, parameters) type(*name) parameters;
    LIBRARY_LIST(MEMBER)
#undef MEMBER
    char **(**attempted)(const char *text, int start, int end); /* rl_attempted_completion_function */
    char **line;                                                /* rl_line_buffer */
    int *over;                                                  /* rl_attempted_completion_over */
} library;

static bool load_library(const char *name) {
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return false;
    bool good = true;
#define LOAD(type, name, parameters)                                                                                   \
    *(void **)&library.name = dlsym(handle, #name);                                                                    \
    good &= library.name != NULL;
    LIBRARY_LIST(LOAD)
#undef LOAD
    *(void **)&library.attempted = dlsym(handle, "rl_attempted_completion_function");
    *(void **)&library.line = dlsym(handle, "rl_line_buffer");
    *(void **)&library.over = dlsym(handle, "rl_attempted_completion_over");
    good &= library.attempted && library.line && library.over;
    if (!good)
        library.readline = NULL;
    return good;
}

static bool tables_only; /* completion: after FROM and JOIN */

static char *next_match(const char *text, int state) {
    static size_t number;
    number = state ? number + 1 : 0;
    const char *word = ct_query_complete(text, tables_only, number), *dot = *text == '.' ? NULL : strrchr(text, '.');
    if (!word)
        return NULL;
    char *whole = malloc(strlen(text) + strlen(word) + 1);
    if (whole)
        sprintf(whole, "%.*s%s", dot ? (int)(dot + 1 - text) : 0, text, word);
    return whole;
}

static char **complete_line(const char *text, int start, int end) {
    const char *line = *library.line;
    int before = start;
    (void)end;
    while (before > 0 && isspace((unsigned char)line[before - 1]))
        before--;
    int word = before;
    while (word > 0 && isalpha((unsigned char)line[word - 1]))
        word--;
    tables_only = before - word == 4 && (!strncasecmp(line + word, "FROM", 4) || !strncasecmp(line + word, "JOIN", 4));
    *library.over = 1; /* no names of files */
    return library.rl_completion_matches(text, next_match);
}

/* ---- history ---- */

/* The file, in a directory that exists; false: there is no place for it. */
static bool history_path(char path[PATH_MAX]) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char directory[PATH_MAX - 32];
    if (state && *state == '/')
        snprintf(directory, sizeof directory, "%s/contrail", state);
    else if (home && *home == '/')
        snprintf(directory, sizeof directory, "%s/.local/state/contrail", home);
    else
        return false;
    for (char *slash = directory; (slash = strchr(slash + 1, '/')); *slash = '/') {
        *slash = 0;
        (void)mkdir(directory, 0700);
    }
    (void)mkdir(directory, 0700);
    snprintf(path, PATH_MAX, "%s/query_history", directory);
    return access(directory, W_OK) == 0;
}

static void begin_editing(void) {
    char path[PATH_MAX];
    if (!isatty(STDIN_FILENO) || !(load_library("libedit.so.2") || load_library("libreadline.so.8")))
        return;
    *library.attempted = complete_line;
    library.stifle_history(HISTORY_LINES);
    if (history_path(path))
        (void)library.read_history(path);
}

static void end_editing(void) {
    char path[PATH_MAX];
    mode_t mask = umask(077);
    if (library.readline && history_path(path))
        (void)library.write_history(path);
    umask(mask);
}

/* ---- lines ---- */

/* malloc'ed; NULL: the end. */
static char *read_line(const char *prompt) {
    char *line = NULL;
    size_t size = 0;
    if (library.readline)
        return library.readline(prompt);
    fputs(prompt, stdout);
    fflush(stdout);
    ssize_t length = getline(&line, &size, stdin);
    if (length < 0) {
        clearerr(stdin); /* Ctrl-C */
        free(line);
        return NULL;
    }
    line[strcspn(line, "\n")] = 0;
    return line;
}

static void remember(const char *text) {
    if (library.readline && text[strspn(text, " \t\n")])
        library.add_history(text);
}

/* Adds a line to a statement. False: out of memory. */
static bool append_line(char **text, const char *line) {
    size_t old = *text ? strlen(*text) : 0;
    char *grown = realloc(*text, old + strlen(line) + 2);
    if (!grown)
        return false;
    sprintf(grown + old, "%s%s", old ? " " : "", line);
    *text = grown;
    return true;
}

static bool is_whole(const char *text) {
    const char *first = text + strspn(text, " \t");
    return !*first || *first == '.' || ct_query_is_complete(text);
}

/* A statement or command, malloc'ed; NULL: the end. Ctrl-C discards what was typed. */
static char *read_statement(void) {
    char *text = NULL;
    do {
        ct_query_run_catch();
        char *line = read_line(text ? "     ...> " : "contrail> ");
        bool discard = ct_query_run_caught(), added = line && !discard && append_line(&text, line);
        free(line);
        if (discard)
            putchar('\n');
        if (!added) {
            free(text);
            text = NULL;
        }
        if (!added && !discard)
            return NULL;
    } while (!text || !is_whole(text));
    return text;
}

int ct_query_prompt(struct ct_query_run *run) {
    char *text;
    int code = 0;
    fputs("Type SQL that ends with a semicolon, .schema or .examples; .help lists more.\n", stdout);
    begin_editing();
    while (code >= 0 && (text = read_statement())) {
        remember(text);
        code = text[strspn(text, " \t")] ? ct_query_run_text(run, text) : 0;
        free(text);
    }
    if (code >= 0)
        putchar('\n');
    end_editing();
    return 0;
}

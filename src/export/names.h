/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a trace, looked up once and numbered in the order in which they appear. One owner. */
#ifndef CT_EXPORT_NAMES_H
#define CT_EXPORT_NAMES_H

#include "trace/table.h"
#include <contrail/trace.h>
#include <pthread.h>

struct ct_name {
    struct ct_table_key key;
    const char *name, *module; /* never NULL; UTF-8 without control characters */
    const char *json;          /* the name as a JSON string with its quotes; NULL until ct_name_json */
    uint64_t number;           /* 0, 1, 2 … */
    uint64_t mark;             /* the format's own; 0 at first */
    char *file;                /* of its source; NULL: not known */
    uint64_t line;             /* of the definition, 0: not known */
    bool entry_only;
    char made_name[32];         /* for a function that the trace does not know because its symbols were cut */
    char *clean, *clean_module; /* copies, where the trace has bytes that cannot be shown; NULL where it has none */
};

enum { CT_NAMES_RECENT = 2048 };

struct ct_names {
    const struct ct_trace *trace;
    pthread_mutex_t *lock; /* held while functions are looked up; NULL: nobody else uses the trace */
    bool quoted;           /* every name gets its `json` at once: several threads use names */
    struct ct_table table;
    struct ct_name *recent[CT_NAMES_RECENT]; /* most events find their function here */
    struct ct_name **list;                   /* by number */
    size_t count, capacity;
};

struct ct_name *ct_names_find(struct ct_names *names, size_t process, uint64_t function);
/* NULL: out of memory. The pointer is valid until the names are freed. */
static inline struct ct_name *ct_names_get(struct ct_names *names, size_t process, uint64_t function) {
    struct ct_name **recent = &names->recent[(function ^ function >> 32 ^ process) % CT_NAMES_RECENT];
    if (*recent && (*recent)->key.function == function && (*recent)->key.process == process)
        return *recent;
    return *recent = ct_names_find(names, process, function);
}
/* A name that is no function's, among the others; `number` is one for each text. NULL: out of memory. */
struct ct_name *ct_names_other(struct ct_names *names, uint64_t number, const char *text);
/* NULL: out of memory. */
const char *ct_name_json(struct ct_name *name);
/* Quotes any text as a JSON string, malloc'ed. */
char *ct_json_quote(const char *text);
void ct_names_free(struct ct_names *names);

#endif

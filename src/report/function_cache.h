/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a trace as a reader of events needs them: looked up once, and matched with the user's globs once. One
 * owner. */
#ifndef CT_REPORT_FUNCTION_CACHE_H
#define CT_REPORT_FUNCTION_CACHE_H

#include "report/select.h"
#include "trace/table.h"

struct ct_cached_function {
    struct ct_table_key key;
    const char *name, *module;                /* never NULL */
    const struct ct_trace_function *function; /* NULL: the trace does not know it */
    bool entry_only;
    bool function_fits, module_fits;
    char made_name[32]; /* for a function that the trace does not know because its symbols were cut */
    char *copy;         /* of both texts, when `find` supplies the functions */
    const struct ct_cached_function *united; /* see ct_function_cache_united; NULL: not asked for yet */
};

struct ct_function_cache {
    const struct ct_trace *trace;
    const struct ct_select *select;
    struct ct_table table;
    struct ct_table firsts; /* for ct_function_cache_united */
    /* Replaces the trace while it is being written: names are copied, `function` is NULL, and a function that is not
     * known is looked up again the next time. */
    const struct ct_trace_function *(*find)(void *arg, size_t process, uint64_t function);
    void *find_arg;
};

/* NULL: out of memory. The pointer is valid until the table is freed. */
const struct ct_cached_function *ct_function_cache_get(struct ct_function_cache *known, size_t process,
                                                       uint64_t function);
/* The same, but one for all processes that have this function: that of the first of them. Processes that run the same
 * program have the same functions. */
const struct ct_cached_function *ct_function_cache_united(struct ct_function_cache *known, size_t process,
                                                          uint64_t function);
void ct_function_cache_free(struct ct_function_cache *known);

#endif

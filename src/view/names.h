/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for functions of a trace: the same name in the same module has one number, in whichever process. Names are
 * copied, and cut where they are longer than a page can use. Any thread. */
#ifndef CT_VIEW_NAMES_H
#define CT_VIEW_NAMES_H

#include "report/function_cache.h"
#include "trace/table.h"
#include <pthread.h>

enum { CT_VIEW_NAME = 1000 }; /* bytes of a name at most */

struct ct_view_name {
    char *name, *brief, *module;
    size_t process; /* where it was first seen, and its number there */
    uint64_t function;
};

struct ct_view_names {
    pthread_mutex_t lock;
    struct ct_table numbers; /* by process and function */
    struct ct_view_name **items;
    size_t count, room;
    uint32_t *slots; /* by name and module: number + 1 */
    size_t slot_count;
};

void ct_view_names_begin(struct ct_view_names *names);
void ct_view_names_free(struct ct_view_names *names);
/* The number of a function; UINT32_MAX: no memory. */
uint32_t ct_view_names_number(struct ct_view_names *names, size_t process, uint64_t function,
                              struct ct_function_cache *cache);
/* NULL: no such number. Lives as long as the names. */
const struct ct_view_name *ct_view_names_get(struct ct_view_names *names, uint32_t number);
/* True when the function of this process has the number. */
bool ct_view_names_is(struct ct_view_names *names, uint32_t number, size_t process, uint64_t function,
                      struct ct_function_cache *cache);

#endif

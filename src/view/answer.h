/* SPDX-License-Identifier: Apache-2.0 */
/* One request, while it is answered: its arguments, the trace that it names, and the JSON text of the answer. */
#ifndef CT_VIEW_ANSWER_H
#define CT_VIEW_ANSWER_H

#include "base/json_write.h"
#include "http/http.h"
#include "query/rows.h"
#include "view/store.h"

struct ct_json_node;

#define CT_VIEW_PATIENCE_NS UINT64_C(30000000000) /* for an answer */

struct ct_view_answer {
    struct ct_view *view;
    const struct ct_http_request *request;
    const struct ct_json_node *body; /* of a POST; NULL: none */
    struct ct_view_trace *trace;
    struct ct_view_reader *reader; /* taken */
    struct ct_json json;
    unsigned status;   /* of HTTP; 0: 200 */
    const char *error; /* a sentence */
};

/* Each answers one path. The object of the answer has begun, and is ended by the caller. */
void ct_view_answer_info(struct ct_view_answer *a);
void ct_view_answer_map(struct ct_view_answer *a);
void ct_view_answer_cells(struct ct_view_answer *a);
void ct_view_answer_call(struct ct_view_answer *a);
void ct_view_answer_at(struct ct_view_answer *a);
void ct_view_answer_search(struct ct_view_answer *a);
void ct_view_answer_hits(struct ct_view_answer *a);
void ct_view_answer_flame(struct ct_view_answer *a);
void ct_view_answer_functions(struct ct_view_answer *a);
void ct_view_answer_latency(struct ct_view_answer *a);
void ct_view_answer_select(struct ct_view_answer *a);
void ct_view_answer_compare(struct ct_view_answer *a);
void ct_view_answer_compare_flame(struct ct_view_answer *a);
void ct_view_answer_crash(struct ct_view_answer *a);
void ct_view_answer_blocks(struct ct_view_answer *a);
void ct_view_answer_block(struct ct_view_answer *a);
void ct_view_answer_sql(struct ct_view_answer *a);
void ct_view_answer_ctl(struct ct_view_answer *a);
/* The stream of /api/live. False: there is no memory. */
bool ct_view_live(struct ct_view_trace *trace, struct ct_http_answer *out);

/* Arguments of the address. */
const char *ct_view_text(const struct ct_view_answer *a, const char *name, const char *otherwise);
uint64_t ct_view_number(const struct ct_view_answer *a, const char *name, uint64_t otherwise);
/* A moment, from `name`, as CLOCK_BOOTTIME. */
uint64_t ct_view_time(const struct ct_view_answer *a, const char *name, uint64_t otherwise_boot_ns);
/* from and to, at least 1 ns apart; without arguments, the whole trace. */
void ct_view_range(const struct ct_view_answer *a, uint64_t *from_ns, uint64_t *to_ns);
/* The end of the trace as far as it is known. */
uint64_t ct_view_end(const struct ct_view_answer *a);
/* A reader of the trace to compare with, which the caller gives back; NULL after an error. */
struct ct_view_reader *ct_view_other(struct ct_view_answer *a);
/* A thread by its number; false after an error. */
bool ct_view_thread(struct ct_view_answer *a, size_t *thread);
/* The thread that a process calls so; SIZE_MAX: there is none. */
size_t ct_view_thread_of(const struct ct_trace *trace, size_t process, uint64_t tid);

void ct_view_refuse(struct ct_view_answer *a, unsigned status, const char *error);
/* Of a status of ours. */
void ct_view_fail(struct ct_view_answer *a, int status);

/* ---- writing ---- */

/* A time since the beginning. */
void ct_view_put_time(struct ct_view_answer *a, const char *key, uint64_t boot_ns);
/* The number of a function, which is listed later (ct_view_put_functions). */
uint32_t ct_view_function(struct ct_view_answer *a, size_t process, uint64_t function);
struct ct_view_used {
    uint32_t *numbers;
    size_t count, room;
};
void ct_view_use(struct ct_view_used *used, uint32_t number);
/* Writes "functions": {number: [name, short name, module]}, and frees the list. */
void ct_view_put_functions(struct ct_view_answer *a, struct ct_view_used *used);
/* A value of a row, whatever it is. */
void ct_view_put_cell(struct ct_view_answer *a, const char *key, struct ct_rows *rows, int column);

#endif

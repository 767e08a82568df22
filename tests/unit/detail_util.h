/* SPDX-License-Identifier: Apache-2.0 */
/* Both sides of the detail lane in one process: records as stubs make them, and what the drain has written of them. */
#ifndef CT_TESTS_DETAIL_UTIL_H
#define CT_TESTS_DETAIL_UTIL_H

#include "abi/event.h"
#include "agent/agent_detail.h"
#include "lane_util.h"

#define NS 1000000000ull

extern struct lane_fixture f;
extern struct ct_windows windows;

/* Lanes and a drain whose thread does not run yet. */
void start(size_t memory, const struct ct_windows_rolls *rolls, bool grows);
int clean(void **state); /* fixture of cmocka */

/* ---- as stubs do it ---- */

struct ct_block *begin(void);
/* Records an event; its first argument or result is `value`. `e`: the entry of its frame, if the function has one. */
void record(struct ct_block *b, uint32_t hook, uint32_t kind, uint64_t value, struct ct_shadow *e);
void open_call(struct ct_block *b, uint32_t hook, uint64_t value);
void close_call(struct ct_block *b, uint32_t hook, uint64_t value);
void make_calls(struct ct_block *b, size_t count); /* of hook 1 */
void mark(uint64_t pre_events);

/* ---- what was written ---- */

/* How many records of the first thread are calls (or returns) of this hook with this argument (or result); UINT64_MAX:
 * with any. */
size_t count_records(int type, uint64_t hook, uint64_t value);
size_t count_calls(uint64_t hook, uint64_t value);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Events for tests of packed files, the same ones each time. */
#ifndef CT_TESTS_PACKED_UTIL_H
#define CT_TESTS_PACKED_UTIL_H

#include "abi/atf.h"
#include <stdbool.h>
#include <stddef.h>

#define TID 7000u

void seed(uint64_t value);
uint32_t pick(uint32_t limit);
/* As programs make them; `wild`: a few of them could never be. malloc'ed. */
struct atf_index_event *make_events(size_t count, bool wild);

#endif

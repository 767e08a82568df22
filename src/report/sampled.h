/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings that sample calls (`spawn --sample`): how often functions were called in all, from the manifests. */
#ifndef CT_REPORT_SAMPLED_H
#define CT_REPORT_SAMPLED_H

#include "trace/facts.h"

/* The largest rate of all processes; 0: none of them was sampled. */
uint64_t ct_sampled_rate(const struct ct_facts *facts);
/* Calls `each` with every function of the process and the number of its calls. Returns what is not 0, or 0. */
int ct_sampled_each(const struct ct_facts *facts, size_t process,
                    int (*each)(void *arg, size_t process, uint64_t function, uint64_t calls), void *arg);

#endif

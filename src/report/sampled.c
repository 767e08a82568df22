/* SPDX-License-Identifier: Apache-2.0 */
/* See sampled.h. */
#include "report/sampled.h"
#include "base/json_read.h"

static const struct ct_json_node *sample_of(const struct ct_facts *facts, size_t process) {
    const struct ct_json_tree *tree = process < facts->process_count ? facts->trees[process] : NULL;
    return tree ? ct_json_get(ct_json_root(tree), "sample", NULL) : NULL;
}

uint64_t ct_sampled_rate(const struct ct_facts *facts) {
    uint64_t most = 0;
    for (size_t i = 0; i < facts->process_count; i++) {
        const struct ct_json_node *sample = sample_of(facts, i);
        uint64_t rate = sample ? ct_json_u64(ct_json_get(sample, "rate", NULL), 0) : 0;
        most = rate > most ? rate : most;
    }
    return most;
}

int ct_sampled_each(const struct ct_facts *facts, size_t process,
                    int (*each)(void *arg, size_t process, uint64_t function, uint64_t calls), void *arg) {
    const struct ct_json_node *sample = sample_of(facts, process);
    const struct ct_json_node *node = sample ? ct_json_first(ct_json_get(sample, "calls", NULL)) : NULL;
    int result = 0;
    for (; node && !result; node = node->next) {
        const struct ct_json_node *function = ct_json_first(node), *calls = function ? function->next : NULL;
        if (calls)
            result = each(arg, process, ct_json_u64(function, 0), ct_json_u64(calls, 0));
    }
    return result;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* See late.h. No state. */
#include "trace/late.h"
#include "base/json_read.h"
#include <string.h>

static uint64_t late_of(const char *manifest) {
    struct ct_json_tree *tree = NULL;
    if (!manifest || !strstr(manifest, "\"late_ns\"") || ct_json_parse(&tree, manifest, strlen(manifest), NULL))
        return 0;
    uint64_t late = ct_json_u64(ct_json_get(ct_json_root(tree), "clock", "late_ns", NULL), 0);
    ct_json_tree_free(tree);
    return late;
}

uint64_t ct_late_ns(const struct ct_trace *trace) {
    uint64_t most = 0;
    for (size_t i = 0; i < ct_trace_process_count(trace); i++) {
        uint64_t late = late_of(ct_trace_process_at(trace, i)->manifest);
        most = late > most ? late : most;
    }
    return most;
}

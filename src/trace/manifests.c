/* SPDX-License-Identifier: Apache-2.0 */
/* See manifests.h. No state. */
#include "trace/manifests.h"
#include "base/json_read.h"
#include <string.h>

/* A manifest may be large, and few have the object: it is not parsed without a reason. */
static uint64_t number_in(const char *manifest, const char *object, const char *key) {
    struct ct_json_tree *tree = NULL;
    if (!manifest || !strstr(manifest, object) || !strstr(manifest, key) ||
        ct_json_parse(&tree, manifest, strlen(manifest), NULL))
        return 0;
    uint64_t number = ct_json_u64(ct_json_get(ct_json_root(tree), object, key, NULL), 0);
    ct_json_tree_free(tree);
    return number;
}

static uint64_t largest(const struct ct_trace *trace, const char *object, const char *key) {
    uint64_t most = 0;
    for (size_t i = 0; i < ct_trace_process_count(trace); i++) {
        uint64_t number = number_in(ct_trace_process_at(trace, i)->manifest, object, key);
        most = number > most ? number : most;
    }
    return most;
}

uint64_t ct_manifests_late_ns(const struct ct_trace *trace) {
    return largest(trace, "clock", "late_ns");
}

uint64_t ct_manifests_sample_rate(const struct ct_trace *trace) {
    return largest(trace, "sample", "rate");
}

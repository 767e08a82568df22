/* SPDX-License-Identifier: Apache-2.0 */
/* See recording_sample.h. */
#include "session/recording_sample.h"
#include "base/json_write.h"
#include "session/recording.h"

void ct_recording_sample_put(const struct ct_recording *r, struct ct_json *j) {
    if (!r->lane.counts || r->session->options.sample < 2)
        return;
    ct_json_begin(j, "sample", '{');
    ct_json_number(j, "rate", r->session->options.sample);
    ct_json_begin(j, "calls", '[');
    size_t count = __atomic_load_n(&r->drain.hook_count, __ATOMIC_ACQUIRE);
    for (uint32_t hook = 0; hook < count; hook++) {
        uint64_t calls = ct_lane_calls(&r->lane, hook);
        if (!calls)
            continue;
        ct_json_begin(j, NULL, '[');
        ct_json_number(j, NULL, ct_drain_function(&r->drain, hook));
        ct_json_number(j, NULL, calls);
        ct_json_end(j, ']');
    }
    ct_json_end(j, ']');
    ct_json_end(j, '}');
}

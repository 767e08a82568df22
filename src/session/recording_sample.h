/* SPDX-License-Identifier: Apache-2.0 */
/* What a recording that samples (--sample) knows about calls that it did not record: how many there were. */
#ifndef CT_SESSION_RECORDING_SAMPLE_H
#define CT_SESSION_RECORDING_SAMPLE_H

struct ct_json;
struct ct_recording;

/* Adds the member "sample" of the manifest, if calls are sampled: the rate, and all calls of each function. */
void ct_recording_sample_put(const struct ct_recording *r, struct ct_json *json);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers per second, and all numbers as a text for Prometheus. Pure: the caller gives statistics and time. */
#ifndef CT_SESSION_METRICS_H
#define CT_SESSION_METRICS_H

#include "trace/writer.h"
#include <contrail/session.h>
#include <stdio.h>

struct ct_metrics {
    uint64_t sampled_ns; /* 0: never */
    struct ct_session_statistics last;
    /* between the last two samples */
    double events, bytes, detail_events;
    double lost[CT_LOSS_COUNT], detail_lost[CT_LOSS_COUNT];
};

void ct_metrics_sample(struct ct_metrics *metrics, const struct ct_session_statistics *now, uint64_t now_ns);
/* Adds the members "per_second" and so on to an open object. */
void ct_metrics_put(const struct ct_metrics *metrics, struct ct_json *json);

struct ct_metrics_labels {
    int pid;
    const char *directory;
    uint32_t policy_version;
    uint64_t policy_hash;
    bool recording, paused, over;
};
/* Writes the last sample in the text exposition format, version 0.0.4. */
void ct_metrics_print(const struct ct_metrics *metrics, const struct ct_metrics_labels *labels, FILE *out);
/* Writes it to a file, which is replaced as a whole; its mode is the umask's. 0 or CT_ERR_SYSTEM with errno. */
int ct_metrics_write(const struct ct_metrics *metrics, const struct ct_metrics_labels *labels, struct ct_place *place,
                     const char *name);

#endif

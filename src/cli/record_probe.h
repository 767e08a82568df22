/* SPDX-License-Identifier: Apache-2.0 */
/* --probe FILE.c of spawn and attach: see script/probe.h. */
#ifndef CT_CLI_RECORD_PROBE_H
#define CT_CLI_RECORD_PROBE_H

#include "cli/options.h"

struct ct_probe_code;
struct ct_probes;
struct ct_session;

struct ct_record_probe {
    struct ct_probe_code *codes;
    size_t count;
    struct ct_probes *probes; /* NULL: not in the process */
    char error[1024];
};
/* Before anything is started. Returns 0, or the exit code after a message. */
int ct_record_probe_compile(struct ct_record_probe *p, const struct ct_option_list *files);
/* Into the process, which is hooked and stopped. On failure `error` says why. */
int ct_record_probe_begin(struct ct_record_probe *p, struct ct_session *session);
void ct_record_probe_say_started(const struct ct_record_probe *p);
/* Prints the counters. */
void ct_record_probe_say_ended(const struct ct_record_probe *p);
/* After the recording. */
void ct_record_probe_end(struct ct_record_probe *p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The request thread of session/requests.c without his thread, so that a fuzzer decides when he looks. */
#ifndef CT_TESTS_FUZZ_HOSTILE_REQUESTS_H
#define CT_TESTS_FUZZ_HOSTILE_REQUESTS_H

struct ct_recording;

void hostile_requests_open(struct ct_recording *r);
void hostile_requests_look(struct ct_recording *r); /* at all requests, once */
void hostile_requests_close(struct ct_recording *r);

#endif

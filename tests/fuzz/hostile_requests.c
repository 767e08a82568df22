/* SPDX-License-Identifier: Apache-2.0 */
/* See hostile_requests.h. Stands in for session/requests.c in the fuzzer, which has it whole. */
#include "hostile_requests.h"
#include "session/requests.c" /* NOLINT: deliver() and take_back() are its own */

void hostile_requests_open(struct ct_recording *r) {
    struct ct_requests *q = calloc(1, sizeof *q);
    q->recording = r;
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->closed, NULL);
    r->requests.thread = q;
}

/* As run_request_thread does. */
void hostile_requests_look(struct ct_recording *r) {
    for (uint32_t i = 0; i < CT_SHM_REQUESTS; i++) {
        if (__atomic_load_n(&request_at(r, i)->state, __ATOMIC_ACQUIRE) == CT_REQUEST_POSTED)
            serve_request(r, i);
        take_back(r->requests.thread, i);
    }
}

void hostile_requests_close(struct ct_recording *r) {
    if (r->requests.thread)
        free_requests(r);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Scanning and planning on arm64: not written yet. No function is hooked. */
#include "hook/plan.h"
#include "hook/scan.h"
#include "hook/springboard.h"
#include <contrail/status.h>

int ct_scan_walk(struct ct_scan *scan, size_t first, size_t end) {
    (void)scan, (void)first, (void)end;
    return CT_ERR_UNSUPPORTED;
}

int ct_scan_follow_tables(struct ct_scan *scan) {
    (void)scan;
    return 0;
}

uint64_t ct_plan_moved(const struct ct_plan *plan, uint64_t pc, bool in_call) {
    (void)plan, (void)pc, (void)in_call;
    return 0;
}

enum ct_hook_skip_reason ct_plan_hook(const struct ct_plan_request *request, struct ct_code_buf *out,
                                      struct ct_plan *plan) {
    (void)request, (void)out, (void)plan;
    return CT_HOOK_SKIP_UNMOVABLE;
}

void ct_plan_release(const struct ct_plan_request *request, struct ct_plan *plan) {
    (void)request, (void)plan;
}

uint64_t ct_plan_word(const struct ct_plan_request *request, const struct ct_plan *plan) {
    (void)request, (void)plan;
    return 0;
}

void ct_shared_code_at(struct ct_shared_code *shared, uint64_t copy) {
    *shared = (struct ct_shared_code){.enter_record = copy};
}

int ct_springboards_prepare(struct ct_scan *scan) {
    (void)scan;
    return 0;
}

void ct_springboards_free(struct ct_scan *scan) {
    (void)scan;
}

void ct_springboards_offer(struct ct_scan *scan, uint64_t place, uint64_t end) {
    (void)scan, (void)place, (void)end;
}

bool ct_springboards_may_host(const struct ct_scan *scan, size_t index, uint64_t function, uint64_t end) {
    (void)scan, (void)index, (void)function, (void)end;
    return false;
}

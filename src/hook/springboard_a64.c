/* SPDX-License-Identifier: Apache-2.0 */
/* Springboards on arm64: none is needed, one instruction reaches the stub from any function. See springboard.h. */
#include "hook/springboard.h"

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

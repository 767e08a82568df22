/* SPDX-License-Identifier: Apache-2.0 */
/* Code of arm64 is not followed yet: errno is not known. See errno_place.h. */
#include "plan/errno_place.h"

int64_t ct_errno_follow(const uint8_t *code, size_t size, uint64_t address, ct_errno_reader *read, void *arg) {
    (void)code;
    (void)size;
    (void)address;
    (void)read;
    (void)arg;
    return 0;
}

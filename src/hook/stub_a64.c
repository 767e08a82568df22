/* SPDX-License-Identifier: Apache-2.0 */
/* What a stub looks like on arm64. See stub.h. No state. */
#include "hook/stub.h"

/* Not written yet: there are no stubs. */
bool ct_stub_is_at(ct_stub_read *read, void *arg, uint64_t stub) {
    (void)read, (void)arg, (void)stub;
    return false;
}

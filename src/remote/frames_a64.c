/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of signal handlers on arm64. */
#include "remote/remote_internal.h"

/* Not written yet: none is found. */
bool ct_remote_next_frame(struct ct_remote *remote, const uint8_t *bytes, size_t size,
                          struct ct_remote_frame_at *found) {
    (void)remote, (void)bytes, (void)size, (void)found;
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of signal handlers on arm64 (os/linux/signal_frame_a64.h). */
#include "remote/remote_internal.h"
#include "os/linux/signal_frame_a64.h"
#include <string.h>

enum { NEEDED = CT_FRAME_A64_RECORDS + 8 };

bool ct_remote_next_frame(struct ct_remote *remote, const uint8_t *bytes, size_t size,
                          struct ct_remote_frame_at *found) {
    (void)remote;
    for (size_t at = found->next; size >= NEEDED && at <= size - NEEDED; at += 8) {
        uint64_t words[NEEDED / 8];
        memcpy(words + CT_FRAME_A64_RECORDS / 8, bytes + at + CT_FRAME_A64_RECORDS, 8);
        if (words[CT_FRAME_A64_RECORDS / 8] != CT_FRAME_A64_HEADER) /* the rest is copied where it can be one */
            continue;
        memcpy(words, bytes + at, CT_FRAME_A64_RECORDS);
        if (ct_frame_a64_is(words)) {
            *found = (struct ct_remote_frame_at){
                .pc = at + CT_FRAME_A64_PC, .sp = at + CT_FRAME_A64_SP, .next = at + 8};
            return true;
        }
    }
    return false;
}

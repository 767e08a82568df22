/* SPDX-License-Identifier: Apache-2.0 */
/* The event: what is recorded of each call and return, and why some are missing.
 *
 * abi/event.h has what the recorder adds to it between a target and the controller. */
#ifndef CONTRAIL_EVENT_H
#define CONTRAIL_EVENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum ct_event_kind {
    CT_EVENT_CALL = 1,
    CT_EVENT_RETURN = 2,
    CT_EVENT_EXCEPTION = 3, /* the innermost open call of this hook was left without returning */
    CT_EVENT_ENTRY = 4,     /* call of an entry-only function: no return follows */
};

struct ct_event {
    uint64_t timestamp; /* CPU counter */
    uint32_t hook;
    uint32_t kind; /* enum ct_event_kind */
};

/* Why events were lost. The list exists once. */
#define CT_LOSS_LIST(X)                                                                                                \
    X(POOL_EXHAUSTED, "no chunk of memory was free")                                                                   \
    X(DRAIN_LAG, "the oldest events were dropped because they were produced faster than written")                      \
    X(DISK_SLOW, "the disk did not take them")                                                                         \
    X(MEMORY_LIMIT, "no memory for another thread's block")
enum ct_loss_reason {
#define CT_LOSS_ENUM(name, text) CT_LOSS_##name,
    CT_LOSS_LIST(CT_LOSS_ENUM)
#undef CT_LOSS_ENUM
        CT_LOSS_COUNT
};
const char *ct_loss_name(enum ct_loss_reason reason);
const char *ct_loss_text(enum ct_loss_reason reason);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that are open inside a block. Packer and unpacker must track them in exactly the same way. */
#ifndef CT_TRACE_PACKED_STATE_H
#define CT_TRACE_PACKED_STATE_H

#include "abi/atf.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* First byte of an odd event: its kind (0: it follows), and what follows. */
enum { CTP_ODD_KIND = 3, CTP_ODD_DEPTH = 4, CTP_ODD_THREAD = 8 };

struct ctp_state {
    uint64_t *stack; /* functions of calls that this block has opened */
    size_t used;
    uint32_t depth; /* open frames, those from before the block included */
};

static inline void ctp_state_push(struct ctp_state *state, uint64_t function) {
    state->stack[state->used++] = function;
    state->depth++;
}

static inline void ctp_state_pop(struct ctp_state *state) {
    state->used--;
    state->depth--;
}

static inline bool ctp_state_returns(const struct ctp_state *state, const struct atf_index_event *event) {
    return event->event_kind == ATF_RETURN && state->used && event->call_depth + 1 == state->depth &&
           state->stack[state->used - 1] == event->function_id;
}

/* The depth of an odd event that contains none. */
static inline uint32_t ctp_expected_depth(const struct ctp_state *state, uint32_t kind) {
    return kind == ATF_CALL ? state->depth : state->depth - 1;
}

static inline void ctp_state_end(struct ctp_state *state, uint32_t depth, uint64_t function) {
    if (depth + 1 == state->depth) {
        state->used -= state->used != 0;
        state->depth = depth;
    } else if (depth < state->depth) { /* a coroutine's: the frames above it move down */
        size_t above = state->depth - depth;
        if (above <= state->used && state->stack[state->used - above] == function) {
            uint64_t *at = &state->stack[state->used - above];
            memmove(at, at + 1, (above - 1) * sizeof *at);
            state->used--;
        } else if (above <= state->used) {
            state->used -= above;
            state->depth = depth + 1;
        }
        state->depth--;
    } else if (depth > state->depth) { /* events were lost */
        state->used = 0;
        state->depth = depth;
    }
}

static inline void ctp_state_odd(struct ctp_state *state, uint32_t kind, uint32_t depth, uint64_t function) {
    if (kind == ATF_CALL) {
        if (depth != state->depth) {
            state->used = 0;
            state->depth = depth;
        }
        ctp_state_push(state, function);
    } else if (kind == ATF_RETURN || (kind == ATF_EXCEPTION && function)) {
        ctp_state_end(state, depth, function);
    }
}

#endif

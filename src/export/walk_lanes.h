/* SPDX-License-Identifier: Apache-2.0 */
/* Spans of a walk, and the lanes that they are in. A span is in exactly one lane. */
#ifndef CT_EXPORT_WALK_LANES_H
#define CT_EXPORT_WALK_LANES_H

#include "export/walk.h"

/* NULL: no memory. */
struct ct_span *ct_walk_new_span(struct ct_walk *w);
void ct_walk_drop_span(struct ct_walk *w, struct ct_span *span);
void ct_walk_free_spans(struct ct_walk *w);

/* The lane in which a call of `caller` begins; SIZE_MAX: no memory, which is the status now. */
size_t ct_walk_lane_for(struct ct_walk *w, const struct ct_span *caller);
void ct_walk_put_on_lane(struct ct_walk *w, struct ct_span *span, size_t lane);
/* The span is the lane's top. */
void ct_walk_take_off_lane(struct ct_walk *w, struct ct_span *top);
/* Ends the span for the format; those above it in its lane are moved. */
void ct_walk_end_span(struct ct_walk *w, struct ct_span *span, struct ct_span *caller, enum ct_span_end how);

#endif

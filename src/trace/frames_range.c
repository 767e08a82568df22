/* SPDX-License-Identifier: Apache-2.0 */
/* Asks frames what a run of events would do to them. A run that was counted elsewhere, by somebody who knew only how
 * many frames are open, may be taken over when the answer is the plain one (report/range.h). */
#include "trace/frames.h"

static size_t innermost(const struct ct_frames *f) {
    return f->row_count ? f->row[f->row_count - 1] : CT_NO_FRAME;
}

bool ct_frames_is_plain(const struct ct_frames *f, uint64_t open) {
    return f->open == open && !f->many && !f->after_gap && f->running == innermost(f);
}

/* After the end of the frame in the row at `at`, the one below it runs. */
static bool returns_below(const struct ct_frames *f, size_t at) {
    size_t caller = ct_frames_caller(f, &f->places[f->row[at]]);
    return caller == CT_NO_FRAME || (at && caller == f->row[at - 1]);
}

bool ct_frames_would_end(const struct ct_frames *f, uint64_t open, const uint64_t *functions, size_t count) {
    uint64_t unknown = 0; /* frames of the run at `at` that have ended */
    if (!ct_frames_is_plain(f, open))
        return false;
    for (size_t i = 0, at = f->row_count; i < count; i++) {
        if (!unknown) {
            if (!at--)
                return false;
            unknown = f->places[f->row[at]].unknown;
        }
        const struct ct_frame *frame = &f->places[f->row[at]];
        if (at >= f->trusted && frame->function != functions[i])
            return false;
        unknown -= unknown != 0;
        if (!unknown && !returns_below(f, at))
            return false;
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the replay shows of calls that were selected one by one: the calls around them; and in a stream, where the
 * end of a call is not known when it begins, the call when it has ended. */
#include "report/replay_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CALLERS = 8, CALLERS_TEXT = 1024 };

/* The calls between the shown call that contains this one and this one, outermost first: "main > serve". */
static void callers_text(const struct ct_replay_source *s, const struct ct_replay_call *call, size_t place, char *text,
                         size_t size) {
    const char *names[MOST_CALLERS];
    size_t count = 0, used = 0;
    bool more = false;
    const struct ct_frame *frame;
    for (; (frame = ct_frames_known(&s->frames, place)); place = ct_frames_caller(&s->frames, frame)) {
        if (frame->user && frame->user == call->parent)
            break;
        more = count == MOST_CALLERS;
        if (more)
            break;
        const struct ct_cached_function *known = ct_function_cache_get(&s->replay->known, s->process, frame->function);
        names[count++] = known ? known->name : "?";
    }
    *text = 0;
    for (size_t i = count; i-- > 0 && used < size;)
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " > " : more ? "... > " : "", names[i]);
}

void ct_replay_name_callers(const struct ct_replay_source *s, struct ct_replay_call *call, size_t caller) {
    char text[CALLERS_TEXT];
    if (!s->replay->options->select.where && !s->replay->options->one)
        return;
    callers_text(s, call, caller, text, sizeof text);
    if (*text && (call->callers = strdup(text)))
        call->line.callers = call->callers;
}

bool ct_replay_fits(struct ct_replay_source *s, const struct ct_cached_function *known, uint32_t depth,
                    const struct ct_frame *frame, uint64_t end_ns, uint32_t end_detail) {
    struct ct_where_call call = {
        .function = known,
        .thread_name = s->name,
        .tid = s->tid,
        .depth = depth,
        .ended = frame != NULL,
        .duration_ns = frame ? ct_frames_lasted(&s->frames, frame, end_ns) : 0,
        .self_ns = frame ? frame->self_ns : 0,
        .values = s->replay->values,
        .thread = s->replay->indexes ? s->replay->indexes[s->thread] : s->thread,
        .detail = frame ? frame->detail : s->event.detail,
        .end_detail = frame ? end_detail : CT_TRACE_NO_DETAIL,
    };
    return ct_where_fits(s->replay->options->select.where, &call) == CT_WHERE_YES;
}

void ct_replay_late(struct ct_replay_source *s, const struct ct_frame *frame, uint64_t end_ns, enum ct_replay_end end) {
    const struct ct_cached_function *known = ct_function_cache_get(&s->replay->known, s->process, frame->function);
    uint64_t duration_ns = ct_frames_lasted(&s->frames, frame, end_ns);
    uint32_t end_detail = end == CT_REPLAY_RETURNED ? s->event.detail : CT_TRACE_NO_DETAIL;
    if (!known || end == CT_REPLAY_LOST || duration_ns < s->replay->options->min_ns ||
        !ct_replay_fits(s, known, frame->called_at, frame, end_ns, end_detail))
        return;
    struct ct_replay_call *line = ct_replay_new(&s->replay->lines);
    if (!line)
        return;
    ct_replay_fill(s, line, CT_REPLAY_LEAF, known);
    ct_replay_name_callers(s, line, ct_frames_caller(&s->frames, frame));
    line->line.time_ns = frame->began_ns;
    line->line.duration_ns = duration_ns;
    line->line.end = end;
    line->line.detail = frame->detail;
    line->line.end_detail = end_detail;
    ct_replay_put(s, line);
}

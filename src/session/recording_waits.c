/* SPDX-License-Identifier: Apache-2.0 */
/* See recording_waits.h. */
#include "base/grow.h"
#include "base/json_write.h"
#include "session/recording.h"

static const char *const names[] = {
#define NAME(name, text) [CT_WAIT_##name] = text,
    CT_WAIT_LIST(NAME)
#undef NAME
};

void ct_recording_note_wait(struct ct_recording *r, int tid, uint64_t from_ns, uint64_t to_ns,
                            enum ct_wait_reason reason) {
    struct ct_recording_waits *w = &r->waits;
    if (!from_ns || to_ns <= from_ns)
        return;
    pthread_mutex_lock(&r->mutex);
    if (w->count < CT_WAITS_LISTED && ct_grow(&w->items, &w->room, w->count, sizeof *w->items, 16)) {
        w->items[w->count++] = (struct ct_wait){tid, reason, from_ns, to_ns};
    } else {
        w->more++;
        w->more_ns += to_ns - from_ns;
    }
    pthread_mutex_unlock(&r->mutex);
}

int ct_recording_go_on(struct ct_recording *r, enum ct_wait_reason reason) {
    bool stopped = ct_remote_is_stopped(r->remote);
    int status = ct_remote_resume(r->remote);
    if (stopped && !ct_remote_is_stopped(r->remote))
        ct_recording_note_wait(r, 0,
                               reason == CT_WAIT_START && r->times.asked_at ? r->times.asked_at : r->times.stopped_at,
                               ct_clock_now(), reason);
    return status;
}

void ct_recording_put_waits(const struct ct_recording *r, struct ct_json *j) {
    const struct ct_recording_waits *w = &r->waits;
    ct_json_begin(j, "waits", '{');
    ct_json_begin(j, "list", '[');
    for (size_t i = 0; i < w->count; i++) {
        const struct ct_wait *wait = &w->items[i];
        ct_json_begin(j, NULL, '[');
        ct_json_number(j, NULL, (uint64_t)wait->tid);
        ct_json_number(j, NULL, wait->from_ns);
        ct_json_number(j, NULL, wait->to_ns);
        ct_json_string(j, NULL, names[wait->reason]);
        ct_json_end(j, ']');
    }
    ct_json_end(j, ']');
    ct_json_number(j, "more", w->more);
    ct_json_number(j, "more_ns", w->more_ns);
    ct_json_end(j, '}');
}

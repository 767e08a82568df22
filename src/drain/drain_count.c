/* SPDX-License-Identifier: Apache-2.0 */
/* See drain_count.h. */
#include "drain/drain_count.h"
#include "abi/event.h"

static void add(uint64_t *to, uint64_t value) {
    __atomic_store_n(to, *to + value, __ATOMIC_RELAXED);
}

/* Hook numbers come from the target. */
void ct_drain_count(struct ct_drain_counts *c, const struct ct_event *events, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct ct_event *e = &events[i];
        uint32_t kind = e->kind & CT_TAG_KIND;
        if ((kind != CT_EVENT_CALL && kind != CT_EVENT_ENTRY) || e->hook >= c->room)
            continue;
        add(&c->hooks[e->hook].calls, 1);
        if (kind == CT_EVENT_CALL && i + 1 < count && e[1].hook == e->hook &&
            (e[1].kind & CT_TAG_KIND) == CT_EVENT_RETURN) {
            add(&c->hooks[e->hook].leaves, 1);
            add(&c->hooks[e->hook].leaf_counts, e[1].timestamp - e->timestamp);
        }
    }
    add(&c->events, count);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How long each of some functions covers a stretch of time: see mix.h. */
#include "view/mix.h"
#include "base/grow.h"
#include <stdlib.h>

bool ct_mix_add(struct ct_mix *m, uint64_t function, uint64_t covered_ns, uint64_t calls) {
    m->calls += calls;
    for (size_t i = m->count; i > 0; i--)
        if (m->parts[i - 1].function == function) {
            m->parts[i - 1].covered_ns += covered_ns;
            m->parts[i - 1].calls += calls;
            return true;
        }
    if (!ct_grow(&m->parts, &m->room, m->count, sizeof *m->parts, 4))
        return false;
    m->parts[m->count++] = (struct ct_mix_part){function, covered_ns, calls};
    return true;
}

bool ct_mix_merge(struct ct_mix *into, const struct ct_mix *from) {
    bool good = true;
    for (size_t i = 0; i < from->count; i++)
        good &= ct_mix_add(into, from->parts[i].function, from->parts[i].covered_ns, from->parts[i].calls);
    return good;
}

static bool is_more(const struct ct_mix_part *a, const struct ct_mix_part *b) {
    if (a->covered_ns != b->covered_ns)
        return a->covered_ns > b->covered_ns;
    return a->calls != b->calls ? a->calls > b->calls : a->function < b->function;
}

const struct ct_mix_part *ct_mix_most(const struct ct_mix *m) {
    const struct ct_mix_part *most = m->count ? &m->parts[0] : NULL;
    for (size_t i = 1; i < m->count; i++)
        if (is_more(&m->parts[i], most))
            most = &m->parts[i];
    return most;
}

void ct_mix_free(struct ct_mix *m) {
    free(m->parts);
    *m = (struct ct_mix){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* See page_writer.h. */
#include "hook/page_writer.h"

int ct_page_writer_flush(struct ct_page_writer *w) {
    unsigned low = w->low, high = w->high;
    w->low = w->high = 0;
    return low < high ? w->write(w->arg, w->page + low, w->bytes + low, high - low) : 0;
}

static int load_page(struct ct_page_writer *w, uint64_t page) {
    if (w->page == page)
        return 0;
    int status = ct_page_writer_flush(w);
    w->page = 0;
    if (!status)
        status = w->read(w->arg, page, w->bytes, CT_PAGE);
    if (!status)
        w->page = page;
    return status;
}

/* A patch may cross into the next page in these two. */
int ct_page_writer_put(struct ct_page_writer *w, uint64_t at, const uint8_t *bytes, unsigned size) {
    for (unsigned i = 0; i < size; i++) {
        unsigned offset = (unsigned)((at + i) & (CT_PAGE - 1));
        int status = load_page(w, (at + i) & ~(uint64_t)(CT_PAGE - 1));
        if (status)
            return status;
        w->bytes[offset] = bytes[i];
        if (w->low == w->high)
            w->low = w->high = offset;
        w->low = offset < w->low ? offset : w->low;
        w->high = offset >= w->high ? offset + 1 : w->high;
    }
    return 0;
}

bool ct_page_writer_holds(struct ct_page_writer *w, uint64_t at, const uint8_t *bytes, unsigned size) {
    for (unsigned i = 0; i < size; i++)
        if (load_page(w, (at + i) & ~(uint64_t)(CT_PAGE - 1)) || w->bytes[(at + i) & (CT_PAGE - 1)] != bytes[i])
            return false;
    return true;
}

int ct_page_writer_patch(struct ct_page_writer *w, const struct ct_plan *plan, bool restore) {
    for (unsigned i = 0; i < plan->patch_count; i++) {
        const struct ct_patch *p = &plan->patches[i];
        if (restore && !ct_page_writer_holds(w, p->at, p->bytes, p->size))
            continue;
        int status = ct_page_writer_put(w, p->at, restore ? p->original : p->bytes, p->size);
        if (status)
            return status;
    }
    return 0;
}

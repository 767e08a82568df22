/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers for events. Thousands of thread writers exist and few of them fill at the same time, so they borrow buffers
 * instead of owning them. Up to KEEP bytes of returned buffers are kept for the next use. */
#include "trace/buffers.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define KEEP (4u << 20)
#define LEND (16u << 20)

struct spare {
    struct spare *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct spare *spares[CT_BUFFER_CLASSES];
static size_t kept;
static _Atomic size_t lent;

void *ct_buffer_take(unsigned size_class) {
    size_t size = (size_t)CT_BUFFER_MIN << size_class;
    pthread_mutex_lock(&lock);
    struct spare *buffer = spares[size_class];
    if (buffer) {
        spares[size_class] = buffer->next;
        kept -= size;
    }
    pthread_mutex_unlock(&lock);
    if (!buffer)
        buffer = malloc(size);
    if (buffer)
        atomic_fetch_add_explicit(&lent, size, memory_order_relaxed);
    return buffer;
}

void ct_buffer_give(void *buffer, unsigned size_class) {
    size_t size = (size_t)CT_BUFFER_MIN << size_class;
    struct spare *spare = buffer;
    atomic_fetch_sub_explicit(&lent, size, memory_order_relaxed);
    pthread_mutex_lock(&lock);
    if (kept + size <= KEEP) {
        kept += size;
        spare->next = spares[size_class];
        spares[size_class] = spare;
        spare = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(spare);
}

bool ct_buffer_pressure(void) {
    return atomic_load_explicit(&lent, memory_order_relaxed) >= LEND;
}

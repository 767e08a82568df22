/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of rows on their way into a Parquet file: see parquet_pipe.h. The groups are a ring. */
#include "export/parquet_pipe.h"
#include <pthread.h>

enum { WORKERS = 8, GROUPS = WORKERS + 2 };
enum state { FREE, FULL, BUSY, DONE };

struct slot {
    enum state state;
    bool failed;
    struct ct_parquet_group group;
};

struct ct_parquet_pipe {
    struct ct_parquet_file file;
    const struct ct_parquet_table *table;
    enum ct_parquet_codec codec;
    struct slot slots[GROUPS];
    size_t slot_count;
    size_t filling, oldest; /* the slot that the owner fills; the one that is written next */
    bool no_memory;
    struct ct_parquet_work work; /* the owner's */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t workers[WORKERS];
    size_t worker_count;
    bool over;
};

/* ---- workers ---- */

/* The oldest group that nobody works on; NULL: none. */
static struct slot *next_full(struct ct_parquet_pipe *p) {
    for (size_t i = 0; i < p->slot_count; i++) {
        struct slot *slot = &p->slots[(p->oldest + i) % p->slot_count];
        if (slot->state == FULL)
            return slot;
    }
    return NULL;
}

static void encode(struct ct_parquet_pipe *p, struct slot *slot, struct ct_parquet_work *work) {
    slot->state = BUSY;
    pthread_mutex_unlock(&p->lock);
    bool failed = !ct_parquet_encode(&slot->group, work);
    pthread_mutex_lock(&p->lock);
    slot->failed = failed;
    slot->state = DONE;
    pthread_cond_broadcast(&p->changed);
}

static void *run_worker(void *arg) {
    struct ct_parquet_pipe *p = arg;
    struct ct_parquet_work work = {0};
    pthread_mutex_lock(&p->lock);
    while (!p->over) {
        struct slot *slot = next_full(p);
        if (slot)
            encode(p, slot, &work);
        else
            pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    ct_parquet_work_free(&work);
    return NULL;
}

/* ---- the owner ---- */

/* Writes the oldest group when it is encoded. The owner encodes what nobody has begun. The lock is held. */
static void write_oldest(struct ct_parquet_pipe *p) {
    struct slot *slot = &p->slots[p->oldest];
    if (slot->state == FULL)
        encode(p, slot, &p->work);
    while (slot->state == BUSY)
        pthread_cond_wait(&p->changed, &p->lock);
    if (slot->state == FREE)
        return;
    if (slot->failed)
        p->no_memory = true;
    else if (!p->no_memory)
        ct_parquet_append(&p->file, &slot->group);
    slot->group.rows = 0;
    memset(slot->group.filled, 0, sizeof slot->group.filled);
    slot->state = FREE;
    p->oldest = (p->oldest + 1) % p->slot_count;
}

struct ct_parquet_pipe *ct_parquet_pipe_open(unsigned processors, enum ct_parquet_codec codec) {
    struct ct_parquet_pipe *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->codec = codec;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    size_t wanted = processors > WORKERS ? WORKERS : processors > 1 ? processors - 1 : 0;
    while (p->worker_count < wanted && pthread_create(&p->workers[p->worker_count], NULL, run_worker, p) == 0)
        p->worker_count++;
    pthread_mutex_lock(&p->lock);
    p->slot_count = p->worker_count + 2;
    pthread_mutex_unlock(&p->lock);
    return p;
}

void ct_parquet_pipe_begin(struct ct_parquet_pipe *p, struct ct_out *out, const struct ct_parquet_table *table) {
    for (size_t i = 0; i < p->slot_count && p->table != table; i++)
        ct_parquet_group_free(&p->slots[i].group); /* other columns */
    p->table = table;
    ct_parquet_begin(&p->file, out, table, p->codec);
}

struct ct_parquet_group *ct_parquet_pipe_group(struct ct_parquet_pipe *p) {
    struct ct_parquet_group *group = &p->slots[p->filling].group;
    group->table = p->table;
    group->codec = p->codec;
    return !p->no_memory && ct_parquet_group_grow(group, CT_PARQUET_ROWS) ? group : NULL;
}

bool ct_parquet_pipe_give(struct ct_parquet_pipe *p) {
    pthread_mutex_lock(&p->lock);
    p->slots[p->filling].state = FULL;
    pthread_cond_broadcast(&p->changed);
    p->filling = (p->filling + 1) % p->slot_count;
    if (p->filling == p->oldest)
        write_oldest(p);
    pthread_mutex_unlock(&p->lock);
    return !p->no_memory;
}

bool ct_parquet_pipe_finish(struct ct_parquet_pipe *p, const char *created_by, const char *const *about,
                            size_t about_count) {
    if (p->slots[p->filling].group.rows)
        ct_parquet_pipe_give(p);
    pthread_mutex_lock(&p->lock);
    while (p->slots[p->oldest].state != FREE)
        write_oldest(p);
    pthread_mutex_unlock(&p->lock);
    return ct_parquet_finish(&p->file, created_by, about, about_count) && !p->no_memory;
}

void ct_parquet_pipe_close(struct ct_parquet_pipe *p) {
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->over = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->worker_count; i++)
        pthread_join(p->workers[i], NULL);
    for (size_t i = 0; i < GROUPS; i++)
        ct_parquet_group_free(&p->slots[i].group);
    ct_parquet_work_free(&p->work);
    ct_bytes_free(&p->file.groups);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

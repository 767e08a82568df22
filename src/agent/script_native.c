/* SPDX-License-Identifier: Apache-2.0 */
/* See script_native.h. A transform and a sink run in the engine, on its stack, with the vector registers saved: any C
 * may run there. Their code stays mapped as long as the agent. */
#include "agent/script_native.h"
#include "agent/script_stalk.h"
#include "os/thread.h"
#include "stalk/translate.h"

/* ---- output with labels ---- */

void ct_script_output_begin(struct ct_script_output *out, struct ct_stalker_writer *writer) {
    out->writer = writer;
    out->count = 0;
    out->full = false;
}

void ct_script_put_label(struct ct_script_output *out, uint64_t label) {
    for (uint32_t i = 0; i < out->count; i++)
        if (out->at[i] && out->labels[i] == label) {
            ct_stalk_branch_here(out->writer, out->at[i]);
            out->at[i] = 0;
        }
}

void ct_script_put_jump(struct ct_script_output *out, uint64_t label, uint32_t condition) {
    if (out->count == CT_SCRIPT_LABELS) {
        out->full = true;
        return;
    }
    out->labels[out->count] = label;
    out->at[out->count++] = ct_stalk_branch(out->writer, condition);
}

int ct_script_output_end(struct ct_script_output *out) {
    for (uint32_t i = 0; i < out->count; i++)
        if (out->at[i])
            ct_stalk_branch_here(out->writer, out->at[i]);
    return out->full ? CT_ERR_NO_SPACE : CT_OK;
}

/* ---- functions that C modules call ---- */

static void put_bytes(struct ct_script_output *out, const void *bytes, size_t size) {
    ct_stalker_writer_put_bytes(out->writer, bytes, size);
}

static void put_count(struct ct_script_output *out, uint64_t *counter) {
    ct_stalker_writer_put_count(out->writer, counter);
}

static int put_copy(struct ct_script_output *out, uint64_t address) {
    return ct_stalker_writer_put_insn(out->writer, address);
}

/* No table: it would need relocations. */
void ct_script_native_open(struct ct_script_shared *shared) {
    volatile uint64_t *at = shared->functions;
    at[CT_SCRIPT_DOES_NEXT] = (uint64_t)&ct_stalker_iterator_next;
    at[CT_SCRIPT_DOES_KEEP] = (uint64_t)&ct_stalker_iterator_keep;
    at[CT_SCRIPT_DOES_PUT_CALLOUT] = (uint64_t)&ct_stalker_iterator_put_callout;
    at[CT_SCRIPT_DOES_PUT_BYTES] = (uint64_t)&put_bytes;
    at[CT_SCRIPT_DOES_PUT_COUNT] = (uint64_t)&put_count;
    at[CT_SCRIPT_DOES_PUT_COPY] = (uint64_t)&put_copy;
    at[CT_SCRIPT_DOES_PUT_LABEL] = (uint64_t)&ct_script_put_label;
    at[CT_SCRIPT_DOES_PUT_JUMP] = (uint64_t)&ct_script_put_jump;
    at[CT_SCRIPT_DOES_CLOCK] = (uint64_t)&ct_os_nanoseconds;
}

/* ---- functions that C modules have ---- */

/* A function and its data. The same pair is the same entry, so threads share what was translated for it. */
struct native {
    uint64_t function, data;
};
enum { NATIVES = 256 };
static struct native natives[NATIVES];
static uint32_t native_count;

static struct native *find_native(uint64_t function, uint64_t data) {
    uint32_t count = __atomic_load_n(&native_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count && i < NATIVES; i++)
        if (natives[i].function == function && natives[i].data == data)
            return &natives[i];
    count = __atomic_fetch_add(&native_count, 1, __ATOMIC_ACQ_REL);
    if (count >= NATIVES) {
        __atomic_fetch_sub(&native_count, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    natives[count].data = data;
    natives[count].function = function;
    return &natives[count];
}

/* gum's structure: the writer, and how instructions are encoded. */
struct gum_output {
    struct ct_script_output *writer;
    uint32_t encoding;
};

static int transform(void *user, struct ct_stalker_iterator *it, struct ct_stalker_writer *w) {
    const struct native *n = user;
    struct ct_script_output out; /* an initializer would call memset */
    struct gum_output gum;
    if (!ct_script_stalk_is_wanted()) {
        while (ct_stalker_iterator_next(it))
            ct_stalker_iterator_keep(it);
        return CT_OK;
    }
    ct_script_output_begin(&out, w);
    gum.writer = &out;
    gum.encoding = 0;
    ((void (*)(struct ct_stalker_iterator *, struct gum_output *, void *))n->function)(it, &gum, (void *)n->data);
    return ct_script_output_end(&out);
}

int ct_script_native_transform(uint64_t function, uint64_t data, struct ct_stalker_transformer *out) {
    out->transform = transform;
    out->user = find_native(function, data);
    return out->user ? CT_OK : CT_ERR_NO_SPACE;
}

/* gum's event: its parts are where those of a call are. Calls and returns have a depth. */
struct gum_event {
    uint64_t kind, location, target;
    int64_t depth;
};

static void on_receive(void *user, int tid, const struct ct_stalker_event *events, size_t count) {
    const struct native *n = user;
    (void)tid;
    for (size_t i = 0; i < count && ct_script_stalk_is_wanted(); i++) {
        const struct gum_event event = {events[i].kind, events[i].location, events[i].target, events[i].depth};
        ((void (*)(const struct gum_event *, void *, void *))n->function)(&event, NULL, (void *)n->data);
    }
}

int ct_script_native_sink(uint64_t function, uint64_t data, struct ct_stalker_sink *out) {
    out->on_receive = on_receive;
    out->user = find_native(function, data);
    return out->user ? CT_OK : CT_ERR_NO_SPACE;
}

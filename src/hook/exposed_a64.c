/* SPDX-License-Identifier: Apache-2.0 */
/* Return addresses on arm64: where a function's prologue has put them. See exposed.h.
 *
 * They are found by a search of the stack for addresses of stubs. What is replaced is noted in a list, with its place:
 * it is put back from there, never by a search for real addresses, because programs keep return addresses in variables
 * too. Functions may have signed theirs, with the stack pointer at their entry: a replacement is signed with the key
 * that the function uses. The value does not show whether it is signed, because a signature may be zero.
 *
 * Invariants: the list is sorted by place, highest first, as far as it is about one stack. Its memory belongs to the
 * block. */
#include "hook/exposed.h"
#include "os/os.h"
#include "os/thread.h"

#define SIGNAL_STACKS 4u
/* Of a signal frame: 24 bytes after pc comes the first record, of the vector registers, with its number and size. */
#define VECTOR_RECORD 0x0000021046508001ull

struct ct_exposed {
    uint64_t *place;
    uint64_t slot;     /* of the frame that the address belongs to */
    uint64_t was, now; /* of the stub; of the program */
};

struct search {
    struct ct_block *block;
    uint64_t low, high;     /* of resume addresses */
    struct ct_shadow *near; /* entries above it have lower slots than the search has reached */
    bool sorted;
};

size_t ct_exposed_bytes(size_t entries) {
    return entries * sizeof(struct ct_exposed);
}

void ct_exposed_place(struct ct_block *b, void *memory, size_t entries) {
    b->exposed = memory;
    b->exposed_limit = (uint32_t)entries;
}

/* ---- signatures ---- */

/* pacia1716: processors without signatures take it for a nop. */
static uint64_t sign_a(uint64_t address, uint64_t sp) {
    register uint64_t x17 __asm__("x17") = address;
    register uint64_t x16 __asm__("x16") = sp;
    __asm__ volatile("hint #8" : "+r"(x17) : "r"(x16));
    return x17;
}

/* pacib1716 */
static uint64_t sign_b(uint64_t address, uint64_t sp) {
    register uint64_t x17 __asm__("x17") = address;
    register uint64_t x16 __asm__("x16") = sp;
    __asm__ volatile("hint #10" : "+r"(x17) : "r"(x16));
    return x17;
}

static uint64_t sign(enum ct_signs signs, uint64_t address, uint64_t sp) {
    return signs == CT_SIGNS_A ? sign_a(address, sp) : sign_b(address, sp);
}

/* pc and x30 in a signal frame of code that was interrupted when a function had just returned to its stub. `high`: the
 * end of what can be read. */
static bool is_interrupted_pc(const uint64_t *place, uint64_t resume, uint64_t high) {
    enum { TO_RECORD = 3, TO_PC = 2 };
    if ((uint64_t)(place + TO_PC + TO_RECORD) >= high || *place != resume)
        return false;
    return place[TO_RECORD] == VECTOR_RECORD || (place[TO_PC + TO_RECORD] == VECTOR_RECORD && place[TO_PC] == resume);
}

static enum ct_signs signs_of(const struct ct_block *b, const struct ct_shadow *e) {
    uint32_t number = ct_shadow_number(e);
    return number == CT_HOOK_NONE ? CT_SIGNS_NONE : b->runtime->hooks[number].signs;
}

/* What is to be in the place of the frame's stub address; 0: it is not that. */
static uint64_t real_value(const struct ct_block *b, const struct ct_shadow *e, const uint64_t *place, uint64_t high) {
    uint64_t resume = ct_shadow_resume(e), real = ct_shadow_real_return(e), sp = e->slot + 8;
    enum ct_signs signs = signs_of(b, e);
    if (is_interrupted_pc(place, resume, high))
        return real;
    if (signs && *place == sign(signs, resume, sp))
        return sign(signs, real, sp);
    return *place == resume ? real : 0;
}

/* ---- search ---- */

static bool is_open(const struct ct_shadow *e) {
    return ct_shadow_is_frame(e) && !ct_shadow_in_flight(e);
}

/* Do slots become higher from entry to entry? Frames of a handler on a stack of its own are with those of the stack
 * that it has interrupted if it came in the middle of a stub. */
static bool is_sorted(struct ct_block *b) {
    const struct ct_shadow *first = b->base + 1, *last = b->top - 1;
    while (last > first && !ct_shadow_is_frame(last))
        last--;
    return b->stacks->settled == 1 && (last <= first || ct_shadow_same_stack(b, first->slot, last->slot));
}

static bool begin_search(struct search *s, struct ct_block *b) {
    *s = (struct search){.block = b, .low = UINT64_MAX, .near = b->top - 1, .sorted = is_sorted(b)};
    for (struct ct_shadow *e = b->top - 1; e > b->base; e--, b->stacks->steps++) {
        if (!is_open(e))
            continue;
        uint64_t resume = ct_shadow_resume(e);
        s->low = resume < s->low ? resume : s->low;
        s->high = resume > s->high ? resume : s->high;
        if (b->bare && e < b->bare)
            break;
    }
    return s->low <= s->high;
}

/* The innermost frame that may have this stub address at `place`: one that began above it. */
static struct ct_shadow *find_frame(struct search *s, uint64_t place, uint64_t resume) {
    struct ct_block *b = s->block;
    while (s->sorted && s->near > b->base && ct_shadow_place(s->near) + 8 <= place)
        s->near--;
    for (struct ct_shadow *e = s->near; e > b->base; e--, b->stacks->steps++)
        if (is_open(e) && e->slot + 8 > place && ct_shadow_resume(e) == resume &&
            ct_shadow_same_stack(b, e->slot, place))
            return e;
    return NULL;
}

static void add_exposed(struct ct_block *b, uint64_t *place, const struct ct_shadow *e, uint64_t now) {
    if (b->exposed_count == b->exposed_limit)
        return; /* there are more addresses than frames: most are in variables */
    b->exposed[b->exposed_count++] = (struct ct_exposed){.place = place, .slot = e->slot, .was = *place, .now = now};
    *place = now;
}

static void reverse(struct ct_exposed *first, struct ct_exposed *end) {
    for (; first + 1 < end; first++) {
        struct ct_exposed x = *--end;
        *end = *first;
        *first = x;
    }
}

static void search_range(struct ct_block *b, uint64_t from, uint64_t to) {
    struct search s;
    uint32_t first = b->exposed_count;
    if (from >= to || !begin_search(&s, b))
        return;
    for (uint64_t *place = (uint64_t *)((from + 7) & ~7ull); (uint64_t)place < to; place++) {
        uint64_t resume = ct_frame_plain(*place);
        if (resume < s.low || resume > s.high)
            continue;
        const struct ct_shadow *e = find_frame(&s, (uint64_t)place, resume);
        uint64_t now = e ? real_value(b, e, place, to) : 0;
        if (now)
            add_exposed(b, place, e, now);
    }
    reverse(b->exposed + first, b->exposed + b->exposed_count);
}

/* The highest slot of the stack's frames. What the stack itself knows is from its first frame: later ones may be
 * higher. While there is one stack, the first frame in the array is the oldest. */
static uint64_t oldest_slot(struct ct_block *b, uint32_t stack) {
    uint64_t slot = b->stacks->pool[stack].high;
    for (struct ct_shadow *e = b->base + 1; e < b->top; e++, b->stacks->steps++) {
        if (!ct_shadow_is_frame(e) || ct_stacks_of(b, e) != stack)
            continue;
        slot = e->slot > slot ? e->slot : slot;
        if (b->stacks->settled == 1)
            break;
    }
    return slot;
}

/* The end of what is searched on the stack of `sp`: the slot of its oldest frame that may be hooked. 0: none. */
static uint64_t search_end(struct ct_block *b, uint64_t sp, uint64_t high) {
    uint32_t stack = ct_stacks_find(b, sp);
    if (stack == CT_NO_STACK)
        return 0;
    uint64_t end = !b->bare ? oldest_slot(b, stack) + 8 : b->bare < b->top ? ct_shadow_place(b->bare) + 8 : 0;
    return high && high < end ? high : end;
}

/* Where the code goes on that the handlers on this stack have interrupted. 0: not found. */
static uint64_t interrupted_sp(uint64_t sp, uint64_t end) {
    struct ct_os_signal_frame frame;
    for (uint64_t at = (sp + 15) & ~15ull; at + 16 <= end; at += 16)
        if (ct_os_signal_frame_at(at, end, &frame) && (frame.sp < sp || frame.sp >= end))
            return frame.sp;
    return 0;
}

/* A handler on a stack of its own: all of it is searched, because the kernel's frame has registers of the code that was
 * interrupted. Then the search goes on where that code was. */
void ct_exposed_put(struct ct_block *b, uint64_t sp, uint64_t high) {
    uint64_t low, end;
    if (high || ct_shadow_at_home(b, sp) || !ct_os_on_signal_stack(&low, &end) || sp < low || sp >= end) {
        search_range(b, sp, search_end(b, sp, high));
        return;
    }
    search_range(b, sp, end);
    sp = interrupted_sp(sp, end);
    if (sp && ct_shadow_at_home(b, sp))
        search_range(b, sp, search_end(b, sp, 0));
}

/* Is the address in one of these words? */
static bool is_in(const struct ct_block *b, const struct ct_shadow *e, const uint64_t *from, const uint64_t *to) {
    enum ct_signs signs = signs_of(b, e);
    uint64_t resume = ct_shadow_resume(e), signed_ = signs ? sign(signs, resume, e->slot + 8) : resume;
    for (; from < to; from++)
        if (*from == resume || *from == signed_)
            return true;
    return false;
}

/* A function that has called another one has saved its return address below its slot. */
enum ct_frame_look ct_exposed_look(struct ct_block *b, const struct ct_shadow *e, uint64_t low) {
    enum { LOOK = 256 };
    uint64_t words[LOOK], from = e->slot + 8 - sizeof words;
    for (uint32_t i = 0; i < b->exposed_count; i++)
        if (b->exposed[i].slot == e->slot)
            return CT_FRAME_THERE;
    if (low)
        return is_in(b, e, (const uint64_t *)low, (const uint64_t *)(e->slot + 8)) ? CT_FRAME_THERE : CT_FRAME_GONE;
    if (ct_os_peek(from, words, sizeof words))
        return CT_FRAME_UNREADABLE;
    return is_in(b, e, words, words + LOOK) ? CT_FRAME_THERE : CT_FRAME_GONE;
}

/* ---- back ---- */

/* Is the frame still open? Otherwise nobody would take its return. Entries from `near` down are looked at, which is
 * moved along if the array is sorted. */
static bool is_frame_open(struct search *s, const struct ct_exposed *x) {
    const struct ct_shadow *base = s->block->base;
    while (s->sorted && s->near > base && ct_shadow_place(s->near) < x->slot)
        s->near--;
    for (struct ct_shadow *e = s->near; e > base && !(s->sorted && is_open(e) && e->slot > x->slot); e--)
        if (e->slot == x->slot)
            return true;
    return false;
}

static void put_back(struct search *s, const struct ct_exposed *x) {
    if (*x->place == x->now && is_frame_open(s, x))
        *x->place = x->was;
}

static bool is_bare(const struct ct_block *b, const struct ct_exposed *x) {
    return b->bare && (b->bare >= b->top || x->slot > ct_shadow_place(b->bare));
}

/* What is below `sp` on its stack is dead. */
void ct_exposed_take(struct ct_block *b, uint64_t sp, uint64_t high, const struct ct_hook_walk *present) {
    struct search s = {.block = b, .near = b->top - 1, .sorted = is_sorted(b)};
    struct ct_exposed *kept = b->exposed + b->exposed_count, *end = kept;
    for (struct ct_exposed *x = end; x-- > b->exposed; b->stacks->steps++) {
        if (is_bare(b, x)) {
            *--kept = *x;
            continue;
        }
        uint64_t place = (uint64_t)x->place;
        if (place < sp && ct_shadow_same_stack(b, place, sp))
            continue;
        if (x->slot < sp || (high && x->slot >= high) || ct_exposed_is_walked(b, x->slot, present))
            *--kept = *x;
        else
            put_back(&s, x);
    }
    b->exposed_count = (uint32_t)(end - kept);
    for (uint32_t i = 0; i < b->exposed_count; i++)
        b->exposed[i] = kept[i];
}

struct ct_shadow *ct_exposed_take_some(struct ct_block *b, struct ct_shadow *end, uint32_t count, uint64_t sp) {
    struct search s = {.block = b, .near = b->top - 1, .sorted = is_sorted(b)};
    struct ct_shadow *e = end - 1;
    uint64_t last = 0;
    for (; e > b->base && (count || e->slot == last); e--, b->stacks->steps++) {
        if (!is_open(e) || e->slot < sp || e->slot == last)
            continue;
        last = e->slot;
        count--;
    }
    while (b->exposed_count) {
        const struct ct_exposed *x = &b->exposed[b->exposed_count - 1];
        if (e > b->base && x->slot > last)
            break;
        if ((uint64_t)x->place >= sp)
            put_back(&s, x);
        b->exposed_count--;
    }
    return e > b->base ? e + 1 : NULL;
}

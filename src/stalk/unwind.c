/* SPDX-License-Identifier: Apache-2.0 */
/* Unwinding through calls of excluded code.
 *
 * Such a call returns to a stub of ours, so an unwinder finds the stub's address on the stack when the excluded code
 * throws. It must learn that the next frame is the caller's. All stubs of a cache (of arm64: all stubs) are in one
 * range, each in a slot of 64 bytes with the caller's return address at STUB_WORD, so one description serves them all.
 * It is registered if the process has an unwinder with a function for that (libgcc).
 *
 * The frame takes no room on the stack. It is marked as a signal frame: otherwise the unwinder could not distinguish it
 * from its caller's, which has the same canonical frame address. The address after a signal frame is looked up as it
 * is, so the description gives that of the last byte of the call. The frame also has a cleanup: the exception stops
 * there for a moment, and continues from the caller's frame with the unwinder followed. So the handler in which it ends
 * is followed too.
 *
 * Only a function of the process can deregister the description, and we may not call it while its threads are stopped.
 * So in the agent the description stays forever, with the addresses that it describes. */
#include "stalk/unwind.h"
#include "isa/host.h"
#include "os/os.h"
#include "os/thread.h"
#include "stalk/cache.h"
#include "stalk/engine.h"
#include "stalk/link.h"
#include "stalk/memory.h"
#include "stalk/thread.h"
#include CT_HOST_HEADER(unwind)

uint64_t ct_stalk_functions[STALK_FUNCTIONS];

/* Names for the linker, declared as data because compilers treat some of these functions specially. */
#define FUNCTION(name, text) extern const uint8_t linked_##name[] __asm__(text) __attribute__((weak));
CT_STALK_FUNCTION_LIST(FUNCTION)
#undef FUNCTION

void ct_stalk_find_functions(void) {
#define FUNCTION(name, text)                                                                                           \
    if (!ct_stalk_functions[STALK_##name])                                                                             \
        ct_stalk_functions[STALK_##name] = (uint64_t)linked_##name;
    CT_STALK_FUNCTION_LIST(FUNCTION)
#undef FUNCTION
}

struct stalk_unwind {
    _Alignas(8) uint8_t bytes[112];
    uint64_t object[16]; /* the unwinder's own */
};

/* clang-format off */
static const uint8_t template[] = {
    /* common part */
    36, 0, 0, 0,            /* length */
    0, 0, 0, 0,
    1, 'z', 'P', 'S', 0,    /* version; sizes, a personality, a signal frame */
    1, 0x78, COLUMN,        /* code and data alignment, column of the return address */
    9,                      /* size of what follows: */
    0, 0, 0, 0, 0, 0, 0, 0, 0, /* the personality, as an address */
    0x0c, COLUMN_SP, 0,     /* DW_CFA_def_cfa sp + 0 */
    0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0,
    /* all stubs */
    60, 0, 0, 0,            /* length */
    44, 0, 0, 0,            /* back to the common part */
    0, 0, 0, 0, 0, 0, 0, 0, /* start */
    0, 0, 0, 0, 0, 0, 0, 0, /* size */
    0,                      /* nothing more */
    0x16, COLUMN, 26,       /* DW_CFA_val_expression of the return address: */
    0x70 + COLUMN, 0,       /* where it points now: the stub; or it was replaced since the frame was read, */
    0x12, 0x0e,             /* which the distance from the start shows: */
    0, 0, 0, 0, 0, 0, 0, 0,
    0x1c, 0x30 + 19, 0x25,  /* - start, >> 19 */
    0x28, 6, 0,             /* not 0: not a stub */
    0x09, 0xc0, 0x1a,       /* & -64 */
    0x23, STUB_WORD, 0x06, /* + offset, and what is there */
    0x31, 0x1c,             /* - 1 */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0,             /* the end */
};
/* clang-format on */
enum { PERSONALITY = 18, START = 48, START_AGAIN = START + 16 + 1 + 3 + 4 };
_Static_assert(sizeof template == 40 + 64 + 4, "both parts, and the end");
_Static_assert(STALK_RETURN_ROOM == 1 << 19, "the expression shifts by 19");
_Static_assert(sizeof template <= sizeof((struct stalk_unwind *)0)->bytes, "the template does not fit");

enum { CLEANUP_PHASE = 2, INSTALL_CONTEXT = 7, CONTINUE_UNWIND = 8 };

/* The personality of a stub's frame: an exception passes through it. */
static int pass_through(int version, int actions, uint64_t class, void *exception, void *context) {
    uint64_t (*get_ip)(void *) = (uint64_t(*)(void *))ct_stalk_functions[STALK_GET_IP];
    void (*set_ip)(void *, uint64_t) = (void (*)(void *, uint64_t))ct_stalk_functions[STALK_SET_IP];
    void (*set_register)(void *, int, uint64_t) = (void (*)(void *, int, uint64_t))ct_stalk_functions[STALK_SET_GR];
    (void)version, (void)class;
    struct stalk_thread *t = actions & CLEANUP_PHASE ? ct_stalk_thread_enter() : NULL;
    uint64_t address = t && t->following == 1 ? ct_stalk_return_of(t->cache, get_ip(context)) : 0;
    if (t && !address)
        ct_stalk_area_leave(t->area); /* else the thread leaves it when it lands */
    if (!address)
        return CONTINUE_UNWIND;
    t->land = address;
    set_register(context, 0, (uint64_t)exception); /* rax, x0 */
    set_ip(context, ct_stalk_helper(t->cache->regions, ct_stalk_land));
    return INSTALL_CONTEXT;
}

static bool can_land(void) {
    const uint64_t *f = ct_stalk_functions;
    return f[STALK_GET_IP] && f[STALK_SET_IP] && f[STALK_SET_GR] && f[STALK_RESUME];
}

static void register_stubs(struct stalk_cache *c) {
    void (*register_frames)(const void *, void *) = (void (*)(const void *, void *))ct_stalk_functions[STALK_REGISTER];
    uint64_t personality = (uint64_t)&pass_through, size = STALK_RETURN_ROOM;
    uint64_t start = register_frames && can_land() ? stubs_to_register(c) : 0;
    if (!start)
        return;
    struct stalk_unwind *u = ct_os_alloc(sizeof *u, CT_OS_READ | CT_OS_WRITE);
    if (!u)
        return;
    ct_stalk_copy(u->bytes, template, sizeof template);
    ct_stalk_copy(u->bytes + PERSONALITY, &personality, sizeof personality);
    ct_stalk_copy(u->bytes + START, &start, sizeof start);
    ct_stalk_copy(u->bytes + START + 8, &size, sizeof size);
    ct_stalk_copy(u->bytes + START_AGAIN, &start, sizeof start);
    if (STUBS_OF_CACHE)
        c->unwind = u;
    register_frames(u->bytes, u->object);
}

#define PATIENCE 20000 /* times 100 us; the registering thread may wait for a lock of the unwinder that we hold */

void ct_stalk_unwind_register(struct stalk_cache *c) {
    uint32_t nobody = 0;
    if (__atomic_compare_exchange_n(&c->unwind_state, &nobody, STALK_REGISTERING, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        register_stubs(c);
        __atomic_store_n(&c->unwind_state, STALK_REGISTERED, __ATOMIC_RELEASE);
    }
    for (unsigned i = 0; i < PATIENCE && __atomic_load_n(&c->unwind_state, __ATOMIC_ACQUIRE) != STALK_REGISTERED; i++)
        ct_os_sleep_us(100); /* no thread calls excluded code before */
}

bool ct_stalk_unwind_deregister(struct stalk_cache *c) {
    void *(*deregister_frames)(const void *) = (void *(*)(const void *))ct_stalk_functions[STALK_DEREGISTER];
    if (!c->unwind)
        return true;
    if (!deregister_frames)
        return false;
    (void)deregister_frames(c->unwind->bytes);
    (void)ct_os_free(c->unwind, sizeof *c->unwind);
    c->unwind = NULL;
    return true;
}

/* Unwinding through calls of excluded code, x86_64.
 *
 * Such a call returns to a stub of ours, so that is what an unwinder finds on the stack when the excluded code throws, and it must be told
 * that the frame behind it is the caller's. All stubs of a cache lie in one range, each in a slot of 64 bytes with the caller's return
 * address at STALK_RETURN_WORD, so one description serves them all; it is registered where the process has an unwinder that can be told
 * (libgcc), by the thread that makes the cache, before anybody is followed with it.
 *
 * The frame takes no room on the stack. It says that it is a signal frame: otherwise the unwinder could not tell it from its
 * caller's, which has the same canonical address. What follows a signal frame is looked up by its very address, so it gets
 * the last byte of the call. */
#include "stalk/internal.h"

extern void __register_frame_info(const void *begin, void *object) __attribute__((weak));
extern void *__deregister_frame_info(const void *begin) __attribute__((weak));

/* clang-format off */
static const uint8_t template[] = {
    /* common part */
    20, 0, 0, 0,            /* length */
    0, 0, 0, 0,
    1, 'S', 0,              /* version, a signal frame */
    1, 0x78, 16,            /* code and data alignment, column of the return address */
    0x0c, 7, 0,             /* DW_CFA_def_cfa rsp + 0 */
    0, 0, 0, 0, 0, 0, 0,
    /* all stubs */
    36, 0, 0, 0,            /* length */
    28, 0, 0, 0,            /* back to the common part */
    0, 0, 0, 0, 0, 0, 0, 0, /* start */
    0, 0, 0, 0, 0, 0, 0, 0, /* size */
    0x16, 16, 10,           /* DW_CFA_val_expression of the return address: */
    0x80, 0,                /* where it points now: the stub */
    0x09, 0xc0, 0x1a,       /* & -64 */
    0x23, STALK_RETURN_WORD, 0x06, /* + offset, and what is there */
    0x31, 0x1c,             /* - 1 */
    0, 0, 0,
    0, 0, 0, 0,             /* the end */
};
/* clang-format on */
enum { START = 32 };
_Static_assert(sizeof template == 68, "24 + 40 + 4");
_Static_assert(sizeof template <= sizeof((struct stalk_cache *)0)->unwind, "room for it");

void ct_stalk_unwind_register(struct stalk_cache *c, uint64_t start, uint64_t size) {
    if (!__register_frame_info || !__deregister_frame_info)
        return;
    ct_stalk_copy(c->unwind, template, sizeof template);
    ct_stalk_copy(c->unwind + START, &start, sizeof start);
    ct_stalk_copy(c->unwind + START + 8, &size, sizeof size);
    __register_frame_info(c->unwind, c->unwind_object);
    c->unwind_registered = true;
}

void ct_stalk_unwind_deregister(struct stalk_cache *c) {
    if (c->unwind_registered)
        (void)__deregister_frame_info(c->unwind);
    c->unwind_registered = false;
}

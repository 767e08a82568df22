/* SPDX-License-Identifier: Apache-2.0 */
/* A script beside a recording. The recorder's agent has the hooks; the script's image is its guest (see
 * agent/script_guest.c). `work` is held by whoever calls these functions. */
#ifndef CT_SCRIPT_SCRIPT_GUEST_H
#define CT_SCRIPT_SCRIPT_GUEST_H

#include "hook/plan.h"
#include "script/script_internal.h"

/* A function that the recording has hooked. */
struct ct_script_recorded {
    uint64_t function, stub, shared; /* `shared`: the code that its stub calls */
    uint32_t number;
    uint8_t entry_only; /* its returns are not recorded */
    bool wanted;        /* the script wants it */
    bool switched;      /* by us: its stub tells guests */
};

struct ct_script_guest {
    uint64_t boot, join;     /* in the target: struct ct_boot of the recorder's agent, struct ct_script_join */
    struct ct_boot recorder; /* as it was when we came */
    uint64_t hooks, room;    /* struct ct_script_guest_hook [room], in the target */
    uint32_t place;
    struct ct_script_recorded *recorded; /* by address */
    size_t recorded_count, recorded_room;
};

/* The target is stopped. CT_ERR_NOT_FOUND: nobody records it. Otherwise s->guest is there, until ct_script_guest_free,
 * or the failure is explained. */
int ct_script_guest_find(struct ct_script *s);
/* Into the target, which is stopped. */
int ct_script_guest_join(struct ct_script *s);
int ct_script_guest_leave(struct ct_script *s, bool *clean);
void ct_script_guest_free(struct ct_script *s);
/* Memory of ours in the target: the recorder's tables list it, so that it goes with the recorder's hooks (an entry
 * that `listed` names, 0: there was no room), or no longer. */
void ct_script_guest_list(struct ct_script *s, struct ct_script_memory *memory);
void ct_script_guest_unlist(struct ct_script *s, struct ct_script_memory *memory);
/* Is a script that lives in this place of the recorder's guests? */
bool ct_script_guest_has(struct ct_script *s, uint32_t place);
/* Is the recorder there, and not about to leave? */
bool ct_script_guest_is_served(struct ct_script *s);

/* As the functions of script.h without `guest`. */
int ct_script_guest_check(struct ct_script *s, const struct ct_script_hook *want);
/* Has the recording hooked this function? Without explanation. */
bool ct_script_guest_records(struct ct_script *s, uint64_t address);
int ct_script_guest_hook(struct ct_script *s, struct ct_script_hook *hooks, size_t count);
int ct_script_guest_change(struct ct_script *s, const struct ct_script_hook *hook);
int ct_script_guest_unhook(struct ct_script *s, const uint32_t *ids, size_t count);
/* The target is stopped: every stub that guests had switched is the recording's own again, unless another guest is
 * there. */
int ct_script_guest_switch_back(struct ct_script *s);

/* ---- per machine (script_switch_<isa>.c) ---- */

#define CT_SCRIPT_STUB_HEAD 24

/* Changes a stub's head, so that it tells guests. *saved gets what was there. False: it does not look like one that
 * records. */
bool ct_script_switch(uint64_t stub, const struct ct_shared_code *shared, uint8_t head[CT_SCRIPT_STUB_HEAD],
                      uint64_t saved[2]);
void ct_script_switch_restore(uint8_t head[CT_SCRIPT_STUB_HEAD], const uint64_t saved[2]);

#endif

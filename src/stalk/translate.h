/* From original code to translated code; what is excluded, and probes. */
#ifndef CT_STALK_TRANSLATE_H
#define CT_STALK_TRANSLATE_H

#include <stdbool.h>
#include <stdint.h>

struct ct_stalker;
struct stalk_entry;
struct stalk_probe;
struct stalk_thread;

enum {
    STALK_MAX_INSNS = 128,
    STALK_MAX_EXITS = 48,
    STALK_MOST_ACROSS = 14, /* bytes of an instruction in the next mapping */
};

/* Translated code for an address, trusted or checked now. NULL: cannot be followed; *status says why
 * (CT_ERR_NOT_MAPPED: no code there). */
struct stalk_entry *ct_stalk_obtain(struct stalk_thread *t, uint64_t address, int *status);
/* The return site of a call, before it is needed. */
void ct_stalk_translate_ahead(struct stalk_thread *t, uint64_t address);
/* Gives up every fragment whose original has changed. `others_run`: threads, which may unmap it meanwhile. */
void ct_stalk_check_all(struct ct_stalker *s, bool others_run);
bool ct_stalk_excluded(const struct ct_stalker *s, uint64_t address);
/* The first range, ours apart, that begins after the address. */
uint32_t ct_stalk_excluded_after(const struct ct_stalker *s, uint64_t address);
/* Is the target of a call excluded? setjmp is too. */
bool ct_stalk_runs_natively(const struct ct_stalker *s, uint64_t target);
/* By the user. */
bool ct_stalk_has_excluded(const struct ct_stalker *s);
int ct_stalk_probe_at(const struct ct_stalker *s, uint64_t address);
/* One user less: the last one calls `destroy`. */
void ct_stalk_probe_leave(struct stalk_probe *p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Following threads on arm64: not written yet. ct_stalker_create fails (ct_os_vectors), so nothing here is reached. */
#include "stalk/build.h"
#include "stalk/engine.h"
#include "stalk/link.h"
#include "stalk/section.h"
#include "stalk/signals.h"
#include "stalk/stalker.h"
#include "stalk/unwind.h"

/* ---- build.h ---- */

int ct_lower_decode(const struct stalk_build *b, struct stalk_insn *insn) {
    (void)b, (void)insn;
    return CT_ERR_UNSUPPORTED;
}

void ct_lower_begin(struct stalk_build *b) {
    (void)b;
}

void ct_lower_block_event(struct stalk_build *b, uint32_t site) {
    (void)b, (void)site;
}

enum stalk_flow ct_lower_insn(struct stalk_build *b, const struct stalk_insn *insn) {
    (void)b, (void)insn;
    return FLOW_REFUSE;
}

enum stalk_flow ct_lower_flow(const struct stalk_insn *insn) {
    (void)insn;
    return FLOW_REFUSE;
}

void ct_lower_jump(struct stalk_build *b, uint64_t target, uint8_t kind) {
    (void)b, (void)target, (void)kind;
}

void ct_lower_callout(struct stalk_build *b, uint32_t callout) {
    (void)b, (void)callout;
}

void ct_lower_count(struct stalk_build *b, const uint64_t *counter) {
    (void)b, (void)counter;
}

void ct_lower_bytes(struct stalk_build *b, const void *bytes, size_t size) {
    (void)b, (void)bytes, (void)size;
}

int ct_lower_finish(struct stalk_build *b, struct stalk_fragment *f) {
    (void)b, (void)f;
    return CT_ERR_UNSUPPORTED;
}

void ct_lower_describe(const struct stalk_insn *insn, struct ct_stalker_insn *out) {
    (void)insn, (void)out;
}

void ct_check_take_shadow(struct stalk_build *b) {
    (void)b;
}

void ct_check_shadow(struct stalk_build *b) {
    (void)b;
}

bool ct_section_load(struct stalk_build *b, const struct stalk_insn *insn) {
    (void)b, (void)insn;
    return false;
}

bool ct_section_is_target(const struct stalk_build *b, uint64_t pc) {
    (void)b, (void)pc;
    return false;
}

int ct_section_finish(struct stalk_build *b, struct stalk_fragment *f, uint32_t first_exit) {
    (void)b, (void)f, (void)first_exit;
    return CT_ERR_UNSUPPORTED;
}

/* ---- engine.h ---- */

uint64_t ct_stalk_syscall_enter(struct stalk_thread *t) {
    (void)t;
    return 0;
}

/* ---- link.h ---- */

void ct_stalk_link(struct stalk_cache *c, uint32_t exit, struct stalk_entry *e) {
    (void)c, (void)exit, (void)e;
}

void ct_stalk_unlink(struct stalk_cache *c, uint32_t exit) {
    (void)c, (void)exit;
}

void ct_stalk_cache_target(struct stalk_cache *c, uint32_t exit, struct stalk_entry *e) {
    (void)c, (void)exit, (void)e;
}

void ct_stalk_take_table(struct stalk_cache *c, uint32_t exit) {
    (void)c, (void)exit;
}

void ct_stalk_publish(struct stalk_cache *c, struct stalk_entry *e) {
    (void)c, (void)e;
}

void ct_stalk_publish_return(struct stalk_cache *c, struct stalk_entry *e) {
    (void)c, (void)e;
}

uint64_t ct_stalk_return_stub(struct stalk_cache *c, uint64_t return_address) {
    (void)c, (void)return_address;
    return 0;
}

uint64_t *ct_stalk_stub_place(struct stalk_cache *c, uint64_t key) {
    (void)c, (void)key;
    return NULL;
}

uint64_t ct_stalk_return_of(const struct stalk_cache *c, uint64_t stub) {
    (void)c, (void)stub;
    return 0;
}

uint64_t ct_stalk_clone_stub(struct stalk_cache *c, uint64_t next, uint64_t resume, enum stalk_clone kind) {
    (void)c, (void)next, (void)resume, (void)kind;
    return 0;
}

void ct_stalk_machine_find(struct stalk_machine *machine) {
    (void)machine;
}

bool ct_stalk_follows_call(struct ct_stalker *s, uint64_t address) {
    (void)s, (void)address;
    return false;
}

void ct_stalk_link_excluded(struct stalk_cache *c, uint32_t exit, uint64_t target, uint64_t stub) {
    (void)c, (void)exit, (void)target, (void)stub;
}

void ct_stalk_publish_excluded(struct stalk_cache *c, uint64_t target, uint64_t address, uint64_t stub) {
    (void)c, (void)target, (void)address, (void)stub;
}

void ct_stalk_clear_native(struct stalk_cache *c) {
    (void)c;
}

/* ---- section.h ---- */

uint64_t ct_stalk_section_interrupted(uint64_t thread_pointer, uint64_t pc) {
    (void)thread_pointer;
    return pc;
}

void ct_stalk_sections_forget(struct stalk_cache *c) {
    (void)c;
}

void ct_stalk_sections_in_child(void) {
}

uint64_t ct_stalk_section_again(const struct stalk_cache *c, uint64_t pc) {
    (void)c;
    return pc;
}

/* ---- signals.h ---- */

uint32_t ct_stalk_underway;

enum stalk_place ct_stalk_recover(struct stalk_thread *t, struct stalk_regs *regs, bool fault) {
    (void)t, (void)regs, (void)fault;
    return STALK_ELSEWHERE;
}

void ct_stalk_signals_take(void) {
}

void ct_stalk_signals_give_back(void) {
}

bool ct_stalk_signals_going_back(void) {
    return false;
}

void ct_stalk_signals_in_child(void) {
}

struct stalk_way ct_stalk_on_signal(uint64_t signal, void *info, void *context, uint64_t *mask) {
    (void)signal, (void)info, (void)context, (void)mask;
    return (struct stalk_way){0, 0};
}

int64_t ct_stalk_sigaction(uint64_t signal, const struct stalk_action *new, struct stalk_action *old) {
    (void)signal, (void)new, (void)old;
    return CT_ERR_UNSUPPORTED;
}

int64_t ct_stalk_sigaction_vforked(uint64_t signal, const struct stalk_action *new, struct stalk_action *old) {
    return ct_stalk_sigaction(signal, new, old);
}

void ct_stalk_sigreturn(struct stalk_thread *t, uint64_t frame) {
    (void)t, (void)frame;
}

void ct_stalk_check_alternate(struct stalk_thread *t) {
    (void)t;
}

void ct_stalk_sigreturn_undo(struct stalk_thread *t, const struct stalk_regs *regs) {
    (void)t, (void)regs;
}

/* The agent ends. */
void ct_stalk_signals_end(void);

void ct_stalk_signals_end(void) {
}

/* ---- unwind.h ---- */

uint64_t ct_stalk_functions[STALK_FUNCTIONS];

void ct_stalk_find_functions(void) {
}

bool ct_stalk_is_setjmp(uint64_t address) {
    (void)address;
    return false;
}

void ct_stalk_unwind_register(struct stalk_cache *c) {
    (void)c;
}

bool ct_stalk_unwind_deregister(struct stalk_cache *c) {
    (void)c;
    return true;
}

uint64_t ct_stalk_landing(struct ct_stalker *s, uint64_t address) {
    (void)s, (void)address;
    return 0;
}

uint64_t ct_stalk_landing_of(uint64_t pc) {
    (void)pc;
    return 0;
}

const struct stalk_region *ct_stalk_landing_region(uint64_t pc) {
    (void)pc;
    return NULL;
}

bool ct_stalk_landings_shared(void) {
    return false;
}

void ct_stalk_landings_in_child(void) {
}

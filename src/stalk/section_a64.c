/* SPDX-License-Identifier: Apache-2.0 */
/* Critical sections of rseq(2), Linux/arm64. */
#include "stalk/section.h"
#include "stalk/build.h"

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
    return CT_OK;
}

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

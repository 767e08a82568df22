/* SPDX-License-Identifier: Apache-2.0 */
/* Critical sections of rseq(2). */
#ifndef CT_STALK_SECTION_H
#define CT_STALK_SECTION_H

#include <stdint.h>

struct stalk_cache;

/* A critical section of rseq(2) that was translated. */
struct stalk_section {
    struct stalk_section *next;
    /* Of the program: where the description is loaded, the section, where the kernel sends an interrupted thread. */
    uint64_t begin, start, end, abort;
    uint64_t *description; /* describes the copy for the kernel; never freed */
};

/* Returns where a thread continues that was stopped at pc in its own code and is moved: the kernel would have restarted
 * a section. */
uint64_t ct_stalk_section_interrupted(uint64_t thread_pointer, uint64_t pc);
/* The code of all sections is going away. */
void ct_stalk_sections_forget(struct stalk_cache *c);
/* In the child of a fork: another thread of the parent may have held the lock. */
void ct_stalk_sections_in_child(void);
/* Returns where a thread continues that has left translated code at pc: elsewhere if it was in a section, or just
 * before one. */
uint64_t ct_stalk_section_again(const struct stalk_cache *c, uint64_t pc);

#endif

/* Critical sections of rseq(2). */
#ifndef CT_STALK_SECTION_H
#define CT_STALK_SECTION_H

#include <stdint.h>

struct stalk_cache;

/* A critical section of rseq(2) that was translated. */
struct stalk_section {
    struct stalk_section *next;
    uint64_t begin, start, end,
        abort;             /* of the program: where the description is loaded, the section, where it is begun again */
    uint64_t *description; /* of the copy, for the kernel; never freed */
};

/* Where a thread goes on that was stopped at pc in its own code and is moved: the kernel would have begun a section
 * again. */
uint64_t ct_stalk_section_interrupted(uint64_t thread_pointer, uint64_t pc);
/* The code of all sections goes. */
void ct_stalk_sections_forget(struct stalk_cache *c);
/* In the child of a fork: another thread of its parent may have had the lock. */
void ct_stalk_sections_in_child(void);
/* Where a thread goes on that has left translated code at pc: elsewhere if it was in a section, or just before one. */
uint64_t ct_stalk_section_again(const struct stalk_cache *c, uint64_t pc);

#endif

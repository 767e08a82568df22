/* The agent's ELF image that we carry inside ourselves: two loadable pieces, position-independent, no relocations. */
#ifndef CT_CTL_AGENT_IMAGE_H
#define CT_CTL_AGENT_IMAGE_H

#include <stddef.h>
#include <stdint.h>

size_t ct_agent_memory_size(void); /* from offset 0 to the end of its .bss */
size_t ct_agent_text_size(void);   /* executable and read-only from offset 0, in whole pages */
uint64_t ct_agent_entry(void);     /* offset of ct_agent_run */
/* Puts it into memory_size zeroed bytes. */
void ct_agent_load(uint8_t *bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The agents' ELF images, which are part of this program. Each has two loadable pieces, is position-independent, and
 * its only relocations add the load address. */
#ifndef CT_INJECT_AGENT_IMAGE_H
#define CT_INJECT_AGENT_IMAGE_H

#include <stddef.h>
#include <stdint.h>

extern const uint8_t ct_agent_image[];        /* records hooked calls (agent/agent.c) */
extern const uint8_t ct_stalk_agent_image[];  /* follows threads (agent/stalk_agent.c) */
extern const uint8_t ct_script_agent_image[]; /* serves scripts (agent/script_agent.c) */

size_t ct_agent_memory_size(const uint8_t *image); /* from offset 0 to the end of its .bss */
size_t ct_agent_text_size(const uint8_t *image);   /* from offset 0, executable and read-only, in whole pages */
uint64_t ct_agent_entry(const uint8_t *image);     /* offset */
/* Copies it into memory_size zeroed bytes, relocated for `address`. */
void ct_agent_load(const uint8_t *image, uint8_t *bytes, uint64_t address);

#endif

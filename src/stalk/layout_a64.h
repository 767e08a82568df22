/* SPDX-License-Identifier: Apache-2.0 */
/* Where the thread area is in the block, arm64: after the hooks' part, because it is larger than on x86_64. See
 * layout.h. */
#ifndef CT_STALK_LAYOUT_A64_H
#define CT_STALK_LAYOUT_A64_H

#define CT_AREA      0x1c00
#define CT_AREA_REST 0x1d00 /* after x0 to x30 and sp */

/* struct stalk_thread and struct stalk_cache (landing_a64.c). */
#define CT_THREAD_CACHE  16
#define CT_CACHE_MASK    16
#define CT_CACHE_RETURNS 56

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a thread block that is the Stalker's (stalk/layout.h), x86_64. Its own blocks have no runtime. See
 * layout.h. */
#ifndef CT_HOOK_LAYOUT_X64_H
#define CT_HOOK_LAYOUT_X64_H

#define CT_BLOCK_GUEST       0x1000
#define CT_BLOCK_GUEST_END   0x1100
#define CT_BLOCK_GUEST_OWNER 0x10a0 /* 0, or a structure that begins with the address of the room */
#define CT_BLOCK_GUEST_TID   0x10f0 /* the thread that uses it */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a thread block that is the Stalker's (stalk/layout.h), arm64. Its own blocks have no runtime. See
 * layout.h. */
#ifndef CT_HOOK_LAYOUT_A64_H
#define CT_HOOK_LAYOUT_A64_H

#define CT_BLOCK_GUEST       0x1c00
#define CT_BLOCK_GUEST_END   0x1d80
#define CT_BLOCK_GUEST_OWNER 0x1d20 /* 0, or a structure that begins with the address of the room */
#define CT_BLOCK_GUEST_TID   0x1d70 /* the thread that uses it */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Where the thread area is in the block, and its registers, x86_64. See layout.h. */
#ifndef CT_STALK_LAYOUT_X64_H
#define CT_STALK_LAYOUT_X64_H

#define CT_AREA      0x1000
#define CT_AREA_REST 0x1080 /* after the registers */
#define CT_AREA_RAX  0x1000
#define CT_AREA_RCX  0x1008
#define CT_AREA_RDX  0x1010
#define CT_AREA_RSP  0x1020
#define CT_AREA_R11  0x1058

#endif

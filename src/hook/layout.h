/* Offsets that generated code, assembly and C share: the thread block, shadow entries, events and stubs.
 * Plain numbers, so that the assembler reads it too; runtime.h asserts that they match the structures. */
#ifndef CT_HOOK_LAYOUT_H
#define CT_HOOK_LAYOUT_H

/* Thread block, reached through GS. The first page is wiped in the child of a fork, the second is kept.
 * The offsets differ in their low 12 bits, or loads of one page would wait for stores to the other. */
#define CT_BLOCK_OWNER        0x040 /* thread pointer (fs:0) of the owner; CT_OWNER_* when something needs attention */
#define CT_BLOCK_CURSOR       0x048 /* next event slot */
#define CT_BLOCK_KEPT         0x1000
#define CT_BLOCK_TOP          0x1100 /* first free shadow entry */
#define CT_BLOCK_LIMIT        0x1108 /* end of the shadow stack */
#define CT_BLOCK_SELF         0x1110
#define CT_BLOCK_FN_ENTER     0x1118
#define CT_BLOCK_FN_ENTRY     0x1120
#define CT_BLOCK_FN_LEAVE     0x1128
#define CT_BLOCK_FN_EVENT     0x1130
#define CT_BLOCK_FN_SPECIAL   0x1138
#define CT_BLOCK_FN_ON_CALL   0x1140
#define CT_BLOCK_FN_ON_RETURN 0x1148
#define CT_BLOCK_XSAVE_SIZE   0x1150
#define CT_BLOCK_XSAVE_MASK   0x1158
#define CT_BLOCK_EVENT_BIT    0x1160 /* the one bit that addresses of valid event slots have set */
#define CT_BLOCK_NEXT         0x1170 /* scripts/gdb/contrail.py reads these two, TOP and the shadow entries */
#define CT_BLOCK_BASE         0x1178

/* Shadow stack entry. */
#define CT_SHADOW_SLOT      0  /* address of the return address on the stack, or CT_SLOT_* */
#define CT_SHADOW_RETURN    8  /* the real return address */
#define CT_SHADOW_STUB      16 /* the stub's address + CT_STUB_AFTER_ENTER */
#define CT_SHADOW_DATA      24 /* the listener's own; of recorded frames the event that is being written */
#define CT_SHADOW_SIZE      32
#define CT_SHADOW_ENTERING  -7 /* added to the slot's address while a stub works on the entry, see runtime.h */
#define CT_SHADOW_RETURNING -6

#define CT_EVENT_SIZE       16

/* Stub: call enter; nop3 | call body (entry-only: jmp body) | jmp leave | hook number | body or literal.
 * The first 8 bytes, aligned, are what enabling and disabling stores. */
#define CT_STUB_AFTER_ENTER 5
#define CT_STUB_CALL_BODY   8
#define CT_STUB_RESUME      13 /* where the body returns to */
#define CT_STUB_NUMBER      20
#define CT_STUB_BODY        24
/* The same, seen from the return address that `call enter` pushes. */
#define CT_AFTER_TO_BODY_REL (CT_STUB_CALL_BODY + 1 - CT_STUB_AFTER_ENTER)
#define CT_AFTER_TO_RESUME   (CT_STUB_RESUME - CT_STUB_AFTER_ENTER)
#define CT_AFTER_TO_NUMBER   (CT_STUB_NUMBER - CT_STUB_AFTER_ENTER)

#endif

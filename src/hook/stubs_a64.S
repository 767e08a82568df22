/* SPDX-License-Identifier: Apache-2.0 */
/* The code that all stubs share, arm64: not written yet. Each entry traps; no stub leads here. */
    .text

.macro ENTRY name
    .globl \name
    .hidden \name
\name:
.endm

.macro FORM prefix
    .balign 64
    ENTRY \prefix\()_code
    ENTRY \prefix\()_enter_record
    ENTRY \prefix\()_enter_entry
    ENTRY \prefix\()_enter_special
    ENTRY \prefix\()_enter_listen
    ENTRY \prefix\()_leave_record
    ENTRY \prefix\()_leave_listen
    ENTRY \prefix\()_enter_detail
    ENTRY \prefix\()_enter_entry_detail
    ENTRY \prefix\()_enter_special_detail
    ENTRY \prefix\()_leave_detail
    ENTRY \prefix\()_enter_record_fast
    ENTRY \prefix\()_enter_entry_fast
    ENTRY \prefix\()_leave_record_fast
    ENTRY \prefix\()_enter_detail_fast
    ENTRY \prefix\()_enter_entry_detail_fast
    ENTRY \prefix\()_leave_detail_fast
    ENTRY \prefix\()_sample_record
    ENTRY \prefix\()_sample_detail
    ENTRY \prefix\()_sample_entry
    ENTRY \prefix\()_sample_entry_detail
    brk #0
    .skip 60 /* room for literals */
    ENTRY \prefix\()_code_end
.endm

    FORM ct_hook
    FORM ct_table

/* fault.h */
ENTRY ct_fault_entry
ENTRY ct_fault_stub
    brk #0

/* runtime.h: called by slow paths of C code */
ENTRY ct_hook_on_stack
ENTRY ct_hook_call_saved
    brk #0

    .section .note.GNU-stack,"",@progbits

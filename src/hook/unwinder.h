/* SPDX-License-Identifier: Apache-2.0 */
/* Unwinders: where they are, and the one entry point that returns to its caller. */
#ifndef CT_HOOK_UNWINDER_H
#define CT_HOOK_UNWINDER_H

#include <stddef.h>
#include <stdint.h>
#include <unwind.h>

/* Takes the place of _Unwind_Backtrace: the callback sees the stack as it would be without hooks. */
_Unwind_Reason_Code ct_unwind_backtrace(_Unwind_Trace_Fn callback, void *arg);

/* Where calls of an unwinder function go instead, or 0; and where its own code is from now on. */
uint64_t ct_unwind_detour(uint64_t function);
void ct_unwind_set_original(uint64_t body);

/* One address in each module whose functions the engine must watch: libc, the unwinder, the program. */
size_t ct_unwind_places(uint64_t places[4]);

/* Stack pointer of the frame that an unwinder's context describes. */
uint64_t ct_unwind_cfa(void *context);

#endif

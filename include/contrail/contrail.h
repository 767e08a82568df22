/* SPDX-License-Identifier: Apache-2.0 */
/* Contrail's public API in one include.
 *
 *   hook.h      hooks in one's own process: listeners, recording, replacements
 *   stalker.h   follows threads of one's own process through translated code
 *   session.h   records another process
 *   process.h   looks at another process: threads, modules, symbols, registers
 *   trace.h     reads what was recorded
 *   cpu.h       the registers that callbacks see
 *   status.h    result codes
 *
 * Rules of all of them:
 *
 * Names begin with what they belong to: ct_session_*, ct_stalker_*, ct_process_*, ct_trace_*; ct_hooks_* for a set of
 * hooks and ct_hook_* for one of them. Functions that can fail return 0 or a negative code of status.h.
 *
 * Structs begin with `size_t size`, so that later versions can add fields at their ends, and a program runs with a
 * library that is newer or older than its headers:
 *
 *   - A struct that you fill:        struct ct_session_options options = {.size = sizeof options, .lossless = true};
 *     Fields that you leave out are 0, which is the default of each. A field that is newer than the library must be 0,
 *     or else the call fails with CT_ERR_UNKNOWN_FIELD.
 *   - A struct that you have filled: struct ct_session_statistics statistics = {.size = sizeof statistics};
 *     The library writes no more than that. Fields that it does not have become 0.
 *   - A struct that you are lent by a pointer has the size that the library knows: a newer field is there when it lies
 *     within that. Do not copy it by your size, and do not step from one to the next as in an array.
 *
 * A size of 0, or one that cannot be right, is refused with CT_ERR_INVALID_ARGUMENT. Pointers to options may be NULL:
 * the defaults. Records that come in large numbers have no size and never change: struct ct_event, struct
 * ct_stalker_event, struct ct_stalker_call_count, struct ct_trace_event and the registers of cpu.h.
 *
 * Lists are walked with functions called …_next, which give one item after another: they return 0 (false, NULL) at the
 * end. Those that walk with a `position` begin at 0 and count on by themselves; they return 1 with an item, 0 at the
 * end, or a negative code:
 *
 *     struct ct_process_module module = {.size = sizeof module};
 *     for (uint64_t position = 0; ct_process_next_module(process, &position, &module) > 0;)
 *         puts(module.path);
 *
 * What has a number, as processes, threads and modules of a trace have, is looked up by it with …_at. */
#ifndef CONTRAIL_CONTRAIL_H
#define CONTRAIL_CONTRAIL_H

#include <contrail/cpu.h>
#include <contrail/event.h>
#include <contrail/hook.h>
#include <contrail/process.h>
#include <contrail/session.h>
#include <contrail/stalker.h>
#include <contrail/status.h>
#include <contrail/trace.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The version of the library: "0.1.0". */
const char *ct_version(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the functions of a format on another processor than the walk.
 *
 * The walk pairs calls and keeps lanes; writing every event is about as much work. So the walk gets a format that
 * notes what happens, in batches, and a thread that calls the functions of the real one in the same order, with spans
 * and lanes of its own that look the same. What the functions use:
 *
 *   of struct ct_walk   e, arg, thread, process, info, now_ns, off_name, detail; of lanes their number and `user`
 *   of struct ct_span   all but `below` and `above`
 *
 * Names are made by the walk alone, and used by the thread. Both look things up in the trace: struct ct_export has a
 * lock. */
#ifndef CT_EXPORT_WALK_PIPE_H
#define CT_EXPORT_WALK_PIPE_H

#include "export/walk.h"

struct ct_walk_pipe;
/* NULL: there are fewer than three processors, or little to do, or no memory. */
struct ct_walk_pipe *ct_walk_pipe_open(struct ct_export *e, const struct ct_walk_format *format, void *arg);
/* What the walk has to use instead: the pipe is the format's `arg`. */
const struct ct_walk_format *ct_walk_pipe_format(const struct ct_walk_pipe *pipe);
/* Waits until all is done. */
void ct_walk_pipe_close(struct ct_walk_pipe *pipe);

#endif

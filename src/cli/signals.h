/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that end a recording.
 *
 * Only handlers are installed, never masks and never "ignore": so a spawned program inherits what we inherited (exec
 * resets handlers to the default; signals that were ignored from the start, as under nohup, stay ignored). All
 * functions belong to the main thread. */
#ifndef CT_CLI_SIGNALS_H
#define CT_CLI_SIGNALS_H

#include <stdbool.h>

/* `shared_terminal`: a key like Ctrl-C reaches the target too (it was spawned), so the first one is left to it. */
void ct_signals_install(bool shared_terminal);
/* After the spawn: installs what must not be inherited. With `wait`, SIGUSR1 lets a waiting target run. */
void ct_signals_spawned(bool wait);

/* The signal that asks for the end of the recording, or 0. */
int ct_signals_stop(void);
/* Any signal that came, including one that was left to the target: it ends the start-up. */
int ct_signals_any(void);
/* SIGUSR1 came. */
bool ct_signals_go(void);
/* After a recording: forgets earlier signals and starts again. Keys of a shared terminal are left to the target from
 * now on. */
void ct_signals_recorded(void);

#endif

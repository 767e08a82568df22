/* Signals that end a recording.
 *
 * Only handlers are installed, never masks and never "ignore": what a spawned program inherits is then what we inherited
 * (exec puts handlers back to the default; what we found ignored, as under nohup, is left ignored). All functions belong to the
 * main thread. */
#ifndef CT_CLI_SIGNALS_H
#define CT_CLI_SIGNALS_H

#include <stdbool.h>

/* `shared_terminal`: a key like Ctrl-C reaches the target as well (it was spawned), so the first one is left to it. */
void ct_signals_install(bool shared_terminal);
/* After the spawn: what must not have been inherited. With `wait`, SIGUSR1 lets a waiting target go. */
void ct_signals_spawned(bool wait);

/* The signal that asks for the end of the recording, or 0. */
int ct_signals_stop(void);
/* Any signal that came, also one that was left to the target; start-up is given up for it. */
int ct_signals_any(void);
/* SIGUSR1 came. */
bool ct_signals_go(void);
/* Once a recording is over: forgets what came, and asks anew. Keys of a shared terminal are left to the target from now on. */
void ct_signals_recorded(void);

#endif

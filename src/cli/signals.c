/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that end a recording. The handler may run on any thread of the process: it only sets the flags below. */
#include "cli/signals.h"
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static struct {
    bool shared_terminal, recorded; /* set before the handler, or by the main thread; a stale value does no harm */
    atomic_int stop, any, keys;
    atomic_bool go;
} seen;

/* True when the terminal sent it, not a process. */
static bool is_key(int number, const siginfo_t *info) {
    return (number == SIGINT || number == SIGQUIT) && info->si_code == SI_KERNEL;
}

static void handle_signal(int number, siginfo_t *info, void *context) {
    (void)context;
    if (number == SIGUSR1) {
        atomic_store(&seen.go, true);
        return;
    }
    atomic_store(&seen.any, number);
    bool left = seen.shared_terminal && is_key(number, info);
    if (left && (seen.recorded || atomic_fetch_add(&seen.keys, 1) == 0))
        return;
    atomic_store(&seen.stop, number);
}

/* The default action would end us; instead the write that caused the signal fails. */
static void handle_nothing(int number) {
    (void)number;
}

static void install_handler(int number, const struct sigaction *action) {
    struct sigaction old;
    if (!sigaction(number, NULL, &old) && old.sa_handler != SIG_IGN)
        sigaction(number, action, NULL);
}

void ct_signals_install(bool shared_terminal) {
    struct sigaction action = {.sa_sigaction = handle_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigaction nothing = {.sa_handler = handle_nothing, .sa_flags = SA_RESTART};
    seen.shared_terminal = shared_terminal;
    install_handler(SIGINT, &action);
    install_handler(SIGTERM, &action);
    install_handler(SIGHUP, &action);
    if (shared_terminal)
        install_handler(SIGQUIT, &action); /* the target may catch it; without a target it ends us, as the user wants */
    install_handler(SIGPIPE, &nothing);
    install_handler(SIGXFSZ, &nothing);
}

void ct_signals_spawned(bool wait) {
    struct sigaction action = {.sa_sigaction = handle_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigaction normal = {.sa_handler = SIG_DFL}, old;
    if (!sigaction(SIGCHLD, NULL, &old) && old.sa_handler == SIG_IGN)
        sigaction(SIGCHLD, &normal, NULL); /* else the kernel discards the exit status */
    if (wait)
        sigaction(SIGUSR1, &action, NULL);
}

int ct_signals_stop(void) {
    return atomic_load(&seen.stop);
}

int ct_signals_any(void) {
    return atomic_load(&seen.any);
}

bool ct_signals_go(void) {
    return atomic_load(&seen.go);
}

void ct_signals_recorded(void) {
    seen.recorded = true;
    atomic_store(&seen.stop, 0);
    atomic_store(&seen.any, 0);
}

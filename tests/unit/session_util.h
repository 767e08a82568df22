/* SPDX-License-Identifier: Apache-2.0 */
/* Processes to record (programs/session_target.c), and a session that leaves nothing behind. */
#ifndef SESSION_UTIL_H
#define SESSION_UTIL_H

#include "session/recording.h"
#include <contrail/session.h>
#include <sys/types.h>

extern char *program;                          /* what is recorded */
extern char root[64], runtime[80], output[96]; /* directories: of the test, for sockets, for traces */
extern struct ct_session *s;

/* Takes the program from the arguments and makes the directories. */
bool session_test_begins(int argc, char **argv);
void session_test_ends(void);
/* Around each test. Afterwards there is no session, no process, no trace. */
int begin(void **state);
int clean(void **state);

/* ---- processes ---- */

/* Starts the program outside of any session and waits until it is ready. */
pid_t start_process(const char *mode);
/* Sends it a signal and waits for its end: the status of wait. */
int end_process(pid_t pid, int number);
/* 'R', 'S', 't' (traced and stopped), 'Z' ...; 0: there is none. */
char process_state(pid_t pid);
bool is_stopped(pid_t pid);
/* Nothing of ours is in it. */
bool is_clean(pid_t pid);
/* It has a handler for the signal. */
bool handles(pid_t pid, int number);
/* It runs, nothing of ours is in it, and it ends as it should. */
void check_unharmed(pid_t pid);

/* ---- files ---- */

unsigned entries_below(const char *path);
bool exists(const char *path);
/* Of the session's process. */
char *manifest(void);

/* ---- sessions ---- */

int create_with(struct ct_session_options options);
void create(void);
int spawn(const char *mode);
/* Waits until something happens. */
struct ct_session_event wait_for_event(void);
void expect_exit(int code);

#endif

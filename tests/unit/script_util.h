/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of scripting share: the target (programs/script_target.c) and a thread that serves its callbacks. */
#ifndef CT_TESTS_SCRIPT_UTIL_H
#define CT_TESTS_SCRIPT_UTIL_H

#include "script/script.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <cmocka.h>

/* Registers of requests, by number. */
#ifdef __x86_64__
enum { RESULT = 0, FIRST = 7, SECOND = 6 }; /* rax, rdi, rsi */
#else
enum { RESULT = 0, FIRST = 0, SECOND = 1 };
#endif

extern char *program; /* the target */

struct target {
    pid_t pid;
    FILE *to, *from;
    uint64_t add, scale, inner, outer, sum10, fail_with, jump_away, twin, errno_function;
};

struct server {
    struct ct_script *script;
    void (*serve)(struct server *server, struct ct_script_request *request);
    const struct target *target;
    pthread_t thread;
    int enters, leaves, gone, failures;
    uint64_t call;
};

extern bool is_script; /* a child that is a script must not go on with the tests */

void tell(struct target *t, const char *text);
void hear(struct target *t, char *line, size_t size);
void ask_line(struct target *t, char *line, size_t size, const char *format, ...) __attribute__((format(printf, 4, 5)));
void start_target(struct target *t);
void end_target(struct target *t);
char *read_maps(pid_t pid);
void give_up(const char *error);
void begin_server(struct server *v, const struct target *t, const struct ct_script_options *options,
                  void (*serve)(struct server *server, struct ct_script_request *request));
void end_server(struct server *v);
void hook(struct server *v, uint64_t address, uint32_t flags);

/* Ways to serve: an answer without changes; nested callbacks get 10 more. */
void plain(struct server *v, struct ct_script_request *r);
void answer_nested(void *arg, const struct ct_script_request *nested);

#endif

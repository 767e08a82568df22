/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command as a child process and keeps what it prints. */
#ifndef CT_MCP_RUN_H
#define CT_MCP_RUN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { CT_MCP_WORDS = 64 };

/* A command line. Words are copies. */
struct ct_mcp_words {
    char *at[CT_MCP_WORDS + 1];
    size_t count;
    bool failed; /* too many, or no memory */
};
void ct_mcp_word(struct ct_mcp_words *words, const char *word);
void ct_mcp_words_free(struct ct_mcp_words *words);
/* As a shell takes it, malloc'ed; NULL: no memory. `contrail` is the first word, wherever it is. */
char *ct_mcp_words_text(const struct ct_mcp_words *words);

/* A command that runs, or is about to. Others may cancel it. */
struct ct_mcp_run {
    pthread_mutex_t lock;
    pid_t child; /* 0: none runs */
    bool cancelled;
    unsigned timeout_s;
    bool timed_out;
    void (*tick)(void *arg, unsigned seconds); /* each second; may be NULL */
    void *arg;
    /* results */
    int exit; /* status, or 128 + the signal */
    char *out, *error;
    size_t out_length, error_length;
    bool cut; /* it has printed more than is kept */
};

void ct_mcp_run_init(struct ct_mcp_run *run);
void ct_mcp_run_free(struct ct_mcp_run *run);
/* Returns 0, or a negative status when the command could not be started. */
int ct_mcp_run(struct ct_mcp_run *run, const struct ct_mcp_words *words);
/* Ends the command. Any thread. */
void ct_mcp_cancel(struct ct_mcp_run *run);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a trace from scripts: script_trace DIRECTORY < LINES, with lines
 *
 *   process PID END_NS UNFINISHED      END_NS 0: unknown
 *   thread ID TID END_NS CUT NAME      followed by a line with its script, as in ../unit/trace_sample.h
 *
 * Prints the session's directory. */
#include "../unit/trace_sample.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 64 };

static struct sample_thread threads[MAX_THREADS];
static struct sample current = {.threads = threads};
static char names[MAX_THREADS][32];

static void finish_process(const char *directory) {
    if (current.pid)
        free(sample_write(directory, &current));
    for (size_t i = 0; i < current.thread_count; i++)
        free((char *)threads[i].script);
    current.thread_count = 0;
}

static int wrong(const char *line) {
    fprintf(stderr, "script_trace: what is \"%s\"?\n", line);
    return 99;
}

static int read_thread(const char *line, char *script) {
    size_t i = current.thread_count;
    unsigned id, tid, cut;
    unsigned long long end;
    if (i == MAX_THREADS || sscanf(line, "thread %u %u %llu %u %31s", &id, &tid, &end, &cut, names[i]) != 5)
        return wrong(line);
    script[strcspn(script, "\n")] = 0;
    threads[i] = (struct sample_thread){
        .id = id, .tid = tid, .name = names[i], .script = strdup(script), .end_ns = end, .cut = cut};
    current.thread_count++;
    return 0;
}

int main(int argc, char **argv) {
    char *line = NULL, *script = NULL;
    size_t line_size = 0, script_size = 0;
    int status = argc == 2 ? 0 : 64;
    while (!status && getline(&line, &line_size, stdin) > 0) {
        unsigned long long end;
        unsigned unfinished;
        int pid;
        if (sscanf(line, "process %d %llu %u", &pid, &end, &unfinished) == 3) {
            finish_process(argv[1]);
            current = (struct sample){.threads = threads, .end_ns = end, .unfinished = unfinished, .pid = pid};
        } else if (getline(&script, &script_size, stdin) < 0) {
            status = wrong(line);
        } else {
            status = read_thread(line, script);
        }
    }
    if (!status)
        finish_process(argv[1]);
    free(line);
    free(script);
    if (!status)
        printf("%s/session_20250102_030405\n", argv[1]);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Traces for tests, written with the writer from scripts:
 *
 *   "0+main 100+work 250-work 300!main"    call of main at 0 ns, call of work, its return, main left by an exception
 *   "400~12/DRAIN_LAG"                     12 events are missing here
 *   "500+leaf@7"                           with this depth; otherwise it is counted
 *   "600+f(int,\001int)"                   \001 stands for a space in a name
 *   "700+work%1,0x20 800-work%5"           with a detail record: the first registers; 128 bytes of stack at 0x7ffc00
 *   "900!%11,1,0x10"                       a signal: its number, code and address; its registers are 0x100, 0x101 …
 *                                          but the program counter, which is in the middle of leaf
 *   "950=work:16 960=work:32*3 970^leaf:0" a block at work + 16 was executed; three of its four instructions; one was
 *   translated
 *   "980=#5"                               five blocks are missing
 *
 * Times are relative to SAMPLE_START. The functions are those of sample_functions. */
#ifndef CT_TESTS_TRACE_SAMPLE_H
#define CT_TESTS_TRACE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAMPLE_START     UINT64_C(5000000000)
#define SAMPLE_LONG_NAME "std::map<std::basic_string<char>, int>::operator[](std::basic_string<char> const&)"

struct sample_thread {
    uint32_t id, tid;
    const char *name, *script;
    uint64_t end_ns; /* when the thread ended, 0: not said */
    bool cut;        /* its file has no footer */
};

struct sample {
    const struct sample_thread *threads;
    size_t thread_count;
    uint64_t end_ns; /* relative; 0: not said */
    bool unfinished; /* as a killed recorder leaves it */
    int pid;         /* 0: 1000 */
    int killed_by;   /* signal, 0: it has exited */
    uint8_t arch;    /* enum atf_arch, 0: x86_64, whatever it is written on */
};

/* Makes directory/session_20250102_030405/pid_N and what is in it. Ends the program when it cannot. Returns the pid_N
 * directory, malloc'ed. */
char *sample_write(const char *directory, const struct sample *sample);
/* A new directory that is removed, with everything in it, by sample_remove. malloc'ed. */
char *sample_directory(void);
void sample_remove(char *directory);

#endif

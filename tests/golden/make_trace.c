/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the traces whose reports are kept in tests/golden/reading: make_trace DIRECTORY makes DIRECTORY/whole, a
 * finished trace of three threads with a recursion, an exception, functions on entry only, coroutines, a gap and
 * calls that are open at the end; DIRECTORY/cut, one of a killed recorder; DIRECTORY/many, with more threads than are
 * listed; DIRECTORY/crash, with detail records, of a program that died of a signal; DIRECTORY/arm, such a trace from an
 * arm64 machine; and DIRECTORY/code, of followed threads with the blocks that they executed. */
#include "../unit/trace_sample.h"
#include "abi/atf.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define LONG "std::map<std::basic_string<char>,\001int>::operator[](std::basic_string<char>\001const&)"

static const struct sample_thread whole[] = {
    {.id = 1,
     .tid = 1000,
     .name = "sample",
     .script = "1000+main 1500+setjmp 2000+recurse 3000+recurse 4000+recurse 4250-recurse 6000-recurse 8000-recurse "
               "10000+work 11000+thrower 12000!thrower 13000!work 20000+" LONG " 20042-" LONG
               " 30000+? 1530000-? 2000000+work 2500000+leaf"},
    {.id = 2,
     .tid = 1001,
     .name = "worker-1",
     .script =
         "5000+worker 5100+leaf 5200-leaf 7000+other 900000~250/DRAIN_LAG 900000-work@2 901000-other 950000-worker"},
    {.id = 3,
     .tid = 1002,
     .name = "worker-2",
     .script = "5000+worker 5100+leaf 5300-leaf 1200000+other 1260000-other 1300000-worker"},
};

static const struct sample_thread cut[] = {
    {.id = 1, .tid = 1000, .name = "sample", .script = "0+main 100+work 250+leaf", .cut = true},
};

static const struct sample_thread crash[] = {
    {.id = 1,
     .tid = 1000,
     .name = "sample",
     .script = "1000+main%1,0x7ffe10 2000+work%42,0x7ffc10 2500+leaf 2600-leaf 2700-work%0xffffffffffffffff 3000!%10,0 "
               "4000+work%43,0 5000+leaf%0x10 6000!%11,1,0x10"},
    {.id = 2, .tid = 1001, .name = "worker", .script = "1500+worker 1600+other%7,8,9,10,11,12"},
};

/* The second thread's blocks have the time at which they were handed over, as they do without calls. The third one's
 * are later than the events that they precede. */
static const struct sample_thread code[] = {
    {.id = 1,
     .tid = 1000,
     .name = "sample",
     .script = "500=main:0 1000+main 1000^main:16 1000=main:16 2000+work 2000=work:0 2500=work:16*3 2500=#5 3000+leaf "
               "3000=leaf:0 "
               "4000-leaf 4000=work:16 4000=work:16 4500-work 4500=main:32"},
    {.id = 2, .tid = 1001, .name = "worker", .script = "2200=worker:0 2200=other:0 2200=worker:16 9000=?:0"},
    {.id = 3, .tid = 1002, .name = "late", .script = "9500=main:0 3100+main 9500=main:16 3500-main 9500=main:32"},
};

static const char *below(const char *directory, const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (mkdir(path, 0700)) {
        perror(path);
        exit(99);
    }
    return path;
}

int main(int argc, char **argv) {
    static struct sample_thread many[30];
    static char names[30][16];
    if (argc != 2)
        return 64;
    free(sample_write(below(argv[1], "whole"),
                      &(struct sample){.threads = whole, .thread_count = 3, .end_ns = 3000000}));
    free(sample_write(below(argv[1], "cut"), &(struct sample){.threads = cut, .thread_count = 1, .unfinished = true}));
    free(sample_write(below(argv[1], "crash"),
                      &(struct sample){.threads = crash, .thread_count = 2, .end_ns = 7000, .killed_by = 11}));
    free(sample_write(
        below(argv[1], "arm"),
        &(struct sample){
            .threads = crash, .thread_count = 2, .end_ns = 7000, .killed_by = 11, .arch = ATF_ARCH_ARM64}));
    free(sample_write(below(argv[1], "code"), &(struct sample){.threads = code, .thread_count = 3, .end_ns = 10000}));
    for (uint32_t i = 0; i < 30; i++) {
        snprintf(names[i], sizeof names[i], "pool-%u", i);
        many[i] =
            (struct sample_thread){.id = i + 1, .tid = 1000 + i, .name = names[i], .script = "10+worker 20-worker"};
    }
    free(sample_write(below(argv[1], "many"), &(struct sample){.threads = many, .thread_count = 30, .end_ns = 1000}));
    return 0;
}

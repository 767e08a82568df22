/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which blocks of code run most often: the program follows itself and counts in the code, without a callback for
 * each block.
 *
 *     gcc -O1 -g hot_blocks.c $(pkg-config --cflags --libs libcontrail) -o hot_blocks && ./hot_blocks */
#define _GNU_SOURCE
#include <contrail/stalker.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 65536, SHOWN = 8 };

struct block {
    uint64_t start, executions;
    unsigned instructions;
};

static struct block blocks[BLOCKS];
static size_t used;

/* Runs once for each block, before its first execution. */
static int count_block(void *user, struct ct_stalker_iterator *iterator, struct ct_stalker_writer *writer) {
    (void)user;
    struct block *block = used < BLOCKS ? &blocks[used++] : NULL;
    const struct ct_stalker_insn *insn;
    while ((insn = ct_stalker_iterator_next(iterator))) {
        if (block && !block->start) {
            block->start = insn->address;
            ct_stalker_writer_put_count(writer, &block->executions);
        }
        if (block)
            block->instructions++;
        ct_stalker_iterator_keep(iterator);
    }
    return 0;
}

static int by_words(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The work to examine. */
static void work(void) {
    enum { WORDS = 20000 };
    char **words = calloc(WORDS, sizeof *words);
    for (int i = 0; i < WORDS; i++)
        if (asprintf(&words[i], "word %d", i * 7919 % WORDS) < 0)
            abort();
    qsort(words, WORDS, sizeof *words, by_words);
    for (int i = 0; i < WORDS; i++)
        free(words[i]);
    free(words);
}

static int by_executions(const void *a, const void *b) {
    const struct block *x = a, *y = b;
    return (x->executions < y->executions) - (x->executions > y->executions);
}

int main(void) {
    struct ct_stalker *stalker;
    const struct ct_stalker_transformer transformer = {.size = sizeof transformer, .transform = count_block};
    int status = ct_stalker_create(&stalker, NULL);
    if (!status)
        status = ct_stalker_follow_me(stalker, &transformer, NULL);
    if (status) {
        fprintf(stderr, "cannot follow: %s\n", ct_status_text(status));
        return 1;
    }
    work();
    ct_stalker_unfollow_me(stalker);
    ct_stalker_destroy(stalker);
    qsort(blocks, used, sizeof *blocks, by_executions);
    printf("%zu blocks were executed, most often these:\n  executions  instructions  where\n", used);
    for (size_t i = 0; i < SHOWN && i < used; i++) {
        Dl_info info = {0};
        dladdr((void *)blocks[i].start, &info);
        const char *slash = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
        printf("%12llu  %12u  %s+%#llx (%s)\n", (unsigned long long)blocks[i].executions, blocks[i].instructions,
               slash ? slash + 1 : "?", (unsigned long long)(blocks[i].start - (uint64_t)info.dli_fbase),
               info.dli_sname ? info.dli_sname : "no name");
    }
}

/* A small program with enough in it to be worth a call tree: nested calls, recursion, a callback, a longjmp out of three
 * frames, and a second thread. */
#include "cli/demo_sample.h"
#include <ctype.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#if __has_attribute(noclone) /* gcc's */
#define NI __attribute__((noinline, noclone))
#else
#define NI __attribute__((noinline))
#endif
#define MAX_WORDS 64

static const char text[] = "the quick brown fox jumps over the lazy dog and the dog lets the fox be";

struct words {
    char buffer[sizeof text];
    char *word[MAX_WORDS];
    size_t count;
};

static NI void add_word(struct words *w, char *start) {
    if (w->count < MAX_WORDS)
        w->word[w->count++] = start;
    __asm__ volatile("" ::: "memory");
}

static NI void split_words(struct words *w) {
    memcpy(w->buffer, text, sizeof text);
    char *start = NULL;
    for (char *p = w->buffer;; p++) {
        if (isalpha((unsigned char)*p) && !start)
            start = p;
        if (isalpha((unsigned char)*p))
            continue;
        if (start)
            add_word(w, start);
        start = NULL;
        if (!*p)
            break;
        *p = 0;
    }
}

static NI int compare_words(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static NI void sort_words(struct words *w) {
    qsort(w->word, w->count, sizeof w->word[0], compare_words);
    __asm__ volatile("" ::: "memory");
}

static NI size_t count_different(char **word, size_t count) {
    if (count <= 1)
        return count;
    size_t rest = count_different(word + 1, count - 1);
    return rest + (strcmp(word[0], word[1]) != 0);
}

static jmp_buf escape;

static NI void find_word(struct words *w, const char *wanted, size_t i) {
    if (i == w->count)
        return;
    if (!strcmp(w->word[i], wanted))
        longjmp(escape, 1);
    find_word(w, wanted, i + 1);
    __asm__ volatile("" ::: "memory");
}

static NI int has_word(struct words *w, const char *wanted) {
    if (setjmp(escape))
        return 1;
    find_word(w, wanted, 0);
    return 0;
}

static NI void *measure_lengths(void *arg) {
    struct words *w = arg;
    size_t total = 0;
    for (size_t i = 0; i < w->count; i++)
        total += strlen(w->word[i]);
    return (void *)total;
}

NI size_t sample_run(void) {
    static struct words w;
    pthread_t thread;
    split_words(&w);
    int started = !pthread_create(&thread, NULL, measure_lengths, &w);
    if (started)
        pthread_join(thread, NULL);
    (void)has_word(&w, "brown");
    sort_words(&w);
    return count_different(w.word, w.count);
}

const struct sample_function sample_functions[] = {
    {"sample_run", (void *)sample_run},
    {"split_words", (void *)split_words},
    {"add_word", (void *)add_word},
    {"sort_words", (void *)sort_words},
    {"qsort", (void *)qsort},
    {"compare_words", (void *)compare_words},
    {"count_different", (void *)count_different},
    {"has_word", (void *)has_word},
    {"find_word", (void *)find_word},
    {"measure_lengths", (void *)measure_lengths},
    {"strcmp", (void *)strcmp},
    {"strlen", (void *)strlen},
};
const size_t sample_function_count = sizeof sample_functions / sizeof sample_functions[0];

/* SPDX-License-Identifier: Apache-2.0 */
/* A program to look at with contrail: two threads share a list of words, which are counted, sorted by a recursive
 * function, and freed again. It prints how often each word came.
 *
 *   contrail spawn ./tour && contrail report */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
    char *text;
    int count;
    struct word *left, *right;
};

struct job {
    const char *text;
    struct word *tree;
};

static const char first_half[] =
    "a contrail is the line that an aircraft leaves in the sky so that you can see where it was";
static const char second_half[] =
    "a recorder is the box that an aircraft carries so that you can tell what it did in the sky";

/* Letters up to the next space, one by one. */
static size_t word_length(const char *text) {
    size_t length = 0;
    while (text[length] && text[length] != ' ')
        length++;
    return length;
}

static struct word *new_word(const char *text, size_t length, int count) {
    struct word *word = calloc(1, sizeof *word);
    if (!word)
        abort();
    word->text = strndup(text, length);
    word->count = count;
    return word;
}

static int compare(const char *text, size_t length, const struct word *word) {
    int order = strncmp(text, word->text, length);
    return order ? order : length < strlen(word->text) ? -1 : 0;
}

/* Recurses down the tree. */
static struct word *insert(struct word *tree, const char *text, size_t length, int count) {
    if (!tree)
        return new_word(text, length, count);
    int order = compare(text, length, tree);
    if (order < 0)
        tree->left = insert(tree->left, text, length, count);
    else if (order > 0)
        tree->right = insert(tree->right, text, length, count);
    else
        tree->count += count;
    return tree;
}

static void *count_words(void *arg) {
    struct job *job = arg;
    for (const char *at = job->text; *at; at += *at == ' ') {
        size_t length = word_length(at);
        job->tree = insert(job->tree, at, length, 1);
        at += length;
    }
    return NULL;
}

static struct word *merge(struct word *into, const struct word *from) {
    if (!from)
        return into;
    into = insert(into, from->text, strlen(from->text), from->count);
    into = merge(into, from->left);
    return merge(into, from->right);
}

static void print(const struct word *tree) {
    if (!tree)
        return;
    print(tree->left);
    printf("%2d %s\n", tree->count, tree->text);
    print(tree->right);
}

static void release(struct word *tree) {
    if (!tree)
        return;
    release(tree->left);
    release(tree->right);
    free(tree->text);
    free(tree);
}

int main(void) {
    struct job jobs[2] = {{first_half, NULL}, {second_half, NULL}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, count_words, &jobs[i]))
            return 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    struct word *all = merge(jobs[0].tree, jobs[1].tree);
    print(all);
    release(all);
    release(jobs[1].tree);
    return 0;
}

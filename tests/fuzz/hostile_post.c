/* See hostile_post.h. Stands in for session/post.c in the fuzzer, which has it whole. */
#include "hostile_post.h"
#include "session/post.c" /* NOLINT: deliver() and take_back() are its own */

void hostile_post_open(struct ct_recording *r) {
    struct ct_post *post = calloc(1, sizeof *post);
    post->recording = r;
    pthread_mutex_init(&post->mutex, NULL);
    pthread_cond_init(&post->closed, NULL);
    r->post = post;
}

/* As run_post does. */
void hostile_post_look(struct ct_recording *r) {
    for (uint32_t i = 0; i < CT_SHM_LETTERS; i++) {
        if (__atomic_load_n(&letter_at(r, i)->state, __ATOMIC_ACQUIRE) == CT_LETTER_POSTED)
            deliver(r, i);
        take_back(r->post, i);
    }
}

void hostile_post_close(struct ct_recording *r) {
    if (r->post)
        free_post(r);
}

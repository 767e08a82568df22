/* The postman of session/post.c without his thread, so that a fuzzer decides when he looks. */
#ifndef CT_TESTS_FUZZ_HOSTILE_POST_H
#define CT_TESTS_FUZZ_HOSTILE_POST_H

struct ct_recording;

void hostile_post_open(struct ct_recording *r);
void hostile_post_look(struct ct_recording *r); /* at all letters, once */
void hostile_post_close(struct ct_recording *r);

#endif

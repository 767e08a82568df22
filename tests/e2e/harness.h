/* SPDX-License-Identifier: Apache-2.0 */
/* What the hazard programs share: hooks with a recorder or a tracing listener, and exact comparison of what was seen.
 *
 * A program hooks a few functions of its own, runs them, and states the call tree next to the code that causes it:
 *
 *     e2e_begin(argc, argv);
 *     E2E_RECORD(f);
 *     f();
 *     E2E_EXPECT("f(g()*3 h!)");
 *     return e2e_end();
 *
 * `f(...)` was called and returned, with its callees in the brackets; `f!` (or `f(...)!`) was left without returning;
 * `f;` is a function that is recorded on entry only; `f?` (or `f(...)?`) is still open; `*3` repeats what comes before
 * it. Blanks don't count. Where frames are not nested (coroutines) E2E_EXPECT_FLAT takes the plain sequence instead:
 * `+f` called, `-f` returned, `!f` left, `;f` entered.
 *
 * Every program runs in three ways: hooked by the recorder (default), hooked by a listener that checks what it gets
 * and destroys every register a C function may destroy (--listen), and not hooked at all (--plain), where the
 * expectations about events are skipped and the program's own results are still checked.
 * Exit status: 0 passed, 1 failed, 77 skipped. */
#ifndef E2E_HARNESS_H
#define E2E_HARNESS_H

#include <contrail/contrail.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A function that the compiler neither inlines nor clones nor reasons about. */
#if defined(__has_attribute)
#if __has_attribute(noipa)
#define E2E_FN __attribute__((noipa))
#else
#define E2E_FN __attribute__((noinline, optnone))
#endif
#else
#define E2E_FN __attribute__((noinline))
#endif

/* Keeps a call from becoming a tail call, and a loop from being folded. */
#define E2E_BARRIER() __asm__ volatile("" ::: "memory")

extern struct ct_hooks *e2e_hooks; /* NULL with --plain */

/* Reads the options and creates the hook set. Keep `buffer_events` small to see the sink at work. */
void e2e_begin(int argc, char **argv);
void e2e_begin_with(int argc, char **argv, const struct ct_hooks_options *options, size_t buffer_events);
/* Destroys the hook set (unless the program did), prints the verdict, returns the exit status. */
int e2e_end(void);
void e2e_skip(const char *why) __attribute__((noreturn));

bool e2e_plain(void);
bool e2e_listening(void);

/* Hooks a function by recorder or tracing listener. The hook's number, negative with --plain. Failing fails the
 * test. */
int e2e_record(const char *name, void *function);
/* The same for functions that may be refused: returns the error. */
int e2e_try_record(const char *name, void *function);
#define E2E_RECORD(function) e2e_record(#function, (void *)(function))
/* Gives a hook that was made by other means its name in trees. */
void e2e_name(int hook, const char *name);

/* ---- expectations ---- */

/* The calling thread's tree since the last expectation (of this thread or e2e_forget). */
#define E2E_EXPECT(tree)                 e2e_expect(__FILE__, __LINE__, 0, tree)
#define E2E_EXPECT_TID(tid, tree)        e2e_expect(__FILE__, __LINE__, tid, tree)
#define E2E_EXPECT_FLAT(events)          e2e_expect_flat(__FILE__, __LINE__, 0, events)
#define E2E_EXPECT_FLAT_TID(tid, events) e2e_expect_flat(__FILE__, __LINE__, tid, events)
void e2e_expect(const char *file, int line, int tid, const char *tree);
void e2e_expect_flat(const char *file, int line, int tid, const char *events);

/* The tree as text, "" with --plain; valid until the next call. */
const char *e2e_tree(int tid);
void e2e_forget(void); /* what was seen up to now, on all threads */

/* What one thread did (all threads when tid is -1), for runs too long to write down. Nesting is checked on the way. */
struct e2e_summary {
    size_t calls, returns, left, entries;
    size_t depth;    /* deepest nesting */
    size_t open;     /* calls that nothing closed */
    size_t unpaired; /* returns that don't belong to the innermost open call */
};
struct e2e_summary e2e_summarize(int tid);
size_t e2e_count(int tid, int hook, enum ct_event_kind kind);

/* Keep only totals from now on: for runs that watch memory. */
void e2e_count_only(void);
uint64_t e2e_total(enum ct_event_kind kind);

/* Call frames of coroutines are not nested: the listener's depth checks are off. Also when signals leave stubs. */
void e2e_allow_unnested(void);
/* Functions that take arguments off the stack themselves (ret n): the listener's stack pointer check is off. */
void e2e_allow_stack_pops(void);

#define E2E_CHECK(condition)        e2e_check(__FILE__, __LINE__, (condition), #condition)
#define E2E_EQUAL(actual, expected) e2e_equal(__FILE__, __LINE__, (long long)(actual), (long long)(expected), #actual)
bool e2e_check(const char *file, int line, bool condition, const char *text);
bool e2e_equal(const char *file, int line, long long actual, long long expected, const char *text);
/* A failure with a text of its own. */
void e2e_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* For forked children: true while nothing has failed. */
bool e2e_passed(void);

/* ---- helpers ---- */

int e2e_gettid(void);
/* How often a loop runs that only tries often: less where the processor is emulated (CONTRAIL_TEST_EMULATED). */
int e2e_times(int times);
size_t e2e_rss_kib(void);
/* Fills every vector, mask and x87 register that a C function may destroy; returns the x87 status word, in which
 * bits 0 and 6 say that the x87 stack was not empty at the start. */
unsigned e2e_clobber(void);

#ifdef __cplusplus
}
#endif
#endif

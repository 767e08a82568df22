/* SPDX-License-Identifier: Apache-2.0 */
/* Coroutines by ucontext: many interleaved, on stacks from malloc, mmap and from main's own frame, generators abandoned
 * half-way, and finished on another thread than the one that began them.
 *
 * An engine can go wrong here because frames return in another order than they were called, because a stack that lies
 * inside main's frame is above the frames of main's callees, and because the return belongs to a call that another
 * thread recorded. */
#include "harness.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#define STACK_SIZE (64 * 1024)

struct generator {
    ucontext_t self, caller;
    void *stack;
    int id, value, steps;
    bool done;
};

static E2E_FN void yield_value(struct generator *g, int value) {
    g->value = value;
    swapcontext(&g->self, &g->caller);
    E2E_BARRIER();
}

static E2E_FN int produce(struct generator *g, int depth, int value) {
    int below = depth ? produce(g, depth - 1, value) : 0;
    yield_value(g, value * 10 + depth);
    return below + 1;
}

static E2E_FN void generate(struct generator *g) {
    int sum = 0;
    for (int i = 0; i < g->steps; i++)
        sum += produce(g, 1, i);
    g->value = -sum;
    g->done = true;
    E2E_BARRIER();
}

static void entry(unsigned high, unsigned low) {
    struct generator *g = (struct generator *)(uintptr_t)((uint64_t)high << 32 | low);
    generate(g);
    swapcontext(&g->self, &g->caller);
    abort();
}

static E2E_FN int resume(struct generator *g) {
    swapcontext(&g->caller, &g->self);
    E2E_BARRIER();
    return g->value;
}

static void start(struct generator *g, int id, int steps, void *stack, size_t size) {
    *g = (struct generator){.id = id, .steps = steps, .stack = stack};
    getcontext(&g->self);
    g->self.uc_stack.ss_sp = stack;
    g->self.uc_stack.ss_size = size;
    makecontext(&g->self, (void (*)(void))entry, 2, (unsigned)((uintptr_t)g >> 32), (unsigned)(uintptr_t)g);
}

static int expected_value(int step) {
    return step / 2 * 10 + step % 2;
}

/* One generator, written out in full. On a stack that lies inside main's own frame its frames are above those that
 * main calls: the call of resume looks like left when generate begins, and is there again when it returns. */
static void check_one(void *stack, size_t size, bool inside_frame) {
    struct generator g;
    start(&g, 0, 1, stack, size);
    E2E_EQUAL(resume(&g), 0);
    E2E_EQUAL(resume(&g), 1);
    E2E_EQUAL(resume(&g), -2);
    E2E_CHECK(g.done);
    if (inside_frame)
        E2E_EXPECT_FLAT("+resume !resume +generate +produce +produce +yield_value -resume "
                        "+resume !resume -yield_value -produce +yield_value -resume "
                        "+resume !resume -yield_value -produce -generate -resume");
    else
        E2E_EXPECT_FLAT("+resume +generate +produce +produce +yield_value -resume "
                        "+resume -yield_value -produce +yield_value -resume "
                        "+resume -yield_value -produce -generate -resume");
}

/* Two that hand over to each other in turn */
static void check_two(void) {
    struct generator a, b;
    start(&a, 0, 1, malloc(STACK_SIZE), STACK_SIZE);
    start(&b, 1, 1, malloc(STACK_SIZE), STACK_SIZE);
    for (int i = 0; i < 2; i++) {
        E2E_EQUAL(resume(&a), expected_value(i));
        E2E_EQUAL(resume(&b), expected_value(i));
    }
    E2E_EQUAL(resume(&b), -2);
    E2E_EQUAL(resume(&a), -2);
    E2E_EXPECT_FLAT("+resume +generate +produce +produce +yield_value -resume "
                    "+resume +generate +produce +produce +yield_value -resume "
                    "+resume -yield_value -produce +yield_value -resume "
                    "+resume -yield_value -produce +yield_value -resume "
                    "+resume -yield_value -produce -generate -resume "
                    "+resume -yield_value -produce -generate -resume");
    free(a.stack);
    free(b.stack);
}

/* Many, resumed in an order that has nothing to do with how they began; every call returns in the end. */
static void check_many(void) {
    enum { COUNT = 100, STEPS = 10 };
    static struct generator g[COUNT];
    for (int i = 0; i < COUNT; i++) {
        void *stack = i % 2 ? malloc(STACK_SIZE)
                            : mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        start(&g[i], i, STEPS, stack, STACK_SIZE);
    }
    for (int step = 0; step <= 2 * STEPS; step++)
        for (int i = 0; i < COUNT; i++) {
            int which = (i * 37 + step * 11) % COUNT;
            int value = resume(&g[which]);
            if (value != (step < 2 * STEPS ? expected_value(step) : -2 * STEPS))
                e2e_fail(__FILE__, __LINE__, "generator %d gave %d at step %d", which, value, step);
        }
    for (int i = 0; i < COUNT; i++) {
        E2E_CHECK(g[i].done);
        if (i % 2)
            free(g[i].stack);
        else
            munmap(g[i].stack, STACK_SIZE);
    }
    if (e2e_plain())
        return;
    struct e2e_summary s = e2e_summarize(0);
    size_t calls = COUNT * (2 * STEPS + 1) + COUNT * (1 + 2 * STEPS + 2 * STEPS);
    E2E_EQUAL(s.calls, calls);
    E2E_EQUAL(s.returns, calls);
    E2E_EQUAL(s.left, 0);
    e2e_forget();
}

/* Generators that are never finished: their stacks are used again at once, by other generators. */
static void check_abandoned(void) {
    char *stack = malloc(STACK_SIZE);
    size_t before = e2e_rss_kib();
    for (int i = 0; i < 5000; i++) {
        struct generator g;
        start(&g, i, 10, stack, STACK_SIZE);
        for (int step = 0; step < i % 5; step++)
            if (resume(&g) != expected_value(step))
                e2e_fail(__FILE__, __LINE__, "wrong value from a generator on a used stack");
    }
    E2E_CHECK(e2e_rss_kib() < before + 32 * 1024);
    e2e_forget();
    struct generator last;
    start(&last, 0, 1, stack,
          STACK_SIZE); /* the frames of the one before are left as soon as its stack is used again */
    E2E_EQUAL(resume(&last), 0);
    E2E_EXPECT_FLAT("+resume !yield_value !produce !generate +generate +produce +produce +yield_value -resume");
    check_one(malloc(STACK_SIZE), STACK_SIZE, false);
    free(stack);
}

/* Begun here, finished there */
static void *finish(void *arg) {
    struct generator *g = arg;
    while (!g->done)
        resume(g);
    return NULL;
}

static void check_migration(void) {
    enum { COUNT = 32 };
    static struct generator g[COUNT];
    pthread_t threads[COUNT];
    for (int i = 0; i < COUNT; i++) {
        start(&g[i], i, 5, malloc(STACK_SIZE), STACK_SIZE);
        for (int step = 0; step <= i % 4; step++)
            E2E_EQUAL(resume(&g[i]), expected_value(step));
    }
    for (int i = 0; i < COUNT; i++)
        pthread_create(&threads[i], NULL, finish, &g[i]);
    for (int i = 0; i < COUNT; i++) {
        pthread_join(threads[i], NULL);
        E2E_EQUAL(g[i].value, -10);
    }
    if (e2e_plain())
        return;
    size_t calls = COUNT * (11 + 1 + 10 + 10); /* resume, generate, produce, yield_value */
    size_t returns = 0, seen = 0;
    for (int hook = 0; hook < 4; hook++) {
        seen += e2e_count(-1, hook, CT_EVENT_CALL);
        returns += e2e_count(-1, hook, CT_EVENT_RETURN);
    }
    E2E_EQUAL(seen, calls);
    E2E_EQUAL(returns, calls);
    e2e_forget();
}

int main(int argc, char **argv) {
    char local_stack[STACK_SIZE] __attribute__((aligned(16)));
    e2e_begin(argc, argv);
    e2e_allow_unnested();
    E2E_RECORD(yield_value);
    E2E_RECORD(produce);
    E2E_RECORD(generate);
    E2E_RECORD(resume);
    check_one(malloc(STACK_SIZE), STACK_SIZE, false);
    check_one(mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), STACK_SIZE, false);
    check_two();
    check_many();
    check_abandoned();
    check_migration();
    check_one(local_stack, sizeof local_stack, true);
    return e2e_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Functions whose beginning is hard to move, one per shape (entry_shapes_asm.S): loops to the first byte, calls, jumps,
 * RIP-relative operands, jump tables, landing places inside the first five bytes.
 *
 * What can't be hooked may be refused (the shapes that may are marked); the function works all the same, and what is
 * hooked is exact. */
#include "harness.h"
#include <string.h>
#include <unistd.h>

/* clang-format off */
#define SHAPES(X) \
    X(loop_short) X(loop_insn) X(loop_near) X(begins_with_jrcxz) X(begins_with_jcc) X(begins_with_near_jcc) \
    X(begins_with_call) X(begins_with_pc_thunk) X(pc_thunk) X(begins_with_call_pop) X(begins_with_memory_call) \
    X(begins_with_rip_load) X(begins_with_rip_store) X(begins_with_rip_compare) X(begins_with_rip_vector) \
    X(begins_with_rip_lea) X(begins_with_rip_divide) X(calls_divide) X(jump_table) X(bare_jump) \
    X(bare_short_jump) X(bare_memory_jump) X(only_ret) X(only_rep_ret) X(entered_inside) X(jumps_inside) \
    X(own_inner_loop) X(two_doors) X(second_door) X(begins_with_syscall) X(begins_with_push_rbp) \
    X(begins_with_sub_rsp) X(guarded_loop) X(helper)
/* clang-format on */
#define DECLARE(name) long name(long, long);
SHAPES(DECLARE)

struct shape {
    const char *name;
    long (*function)(long, long);
    bool may_refuse; /* a landing place or an own loop inside the first bytes */
    bool hooked;
};

#define SHAPE(n) {#n, n, false, false},
static struct shape shapes[] = {SHAPES(SHAPE)};
#define COUNT (sizeof shapes / sizeof *shapes)

static const char *const refusable[] = {"loop_short",     "loop_insn",      "loop_near",
                                        "entered_inside", "own_inner_loop", "two_doors",
                                        "second_door",    "guarded_loop",   "begins_with_call_pop"};

static struct shape *shape_of(const char *name) {
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(shapes[i].name, name) == 0)
            return &shapes[i];
    return NULL;
}

/* The tree as it is with everything hooked, without the functions that were refused. */
static void expect(const char *first, const char *second) {
    char text[256];
    bool outer = shape_of(first)->hooked, inner = second && shape_of(second)->hooked;
    /* at its return address: entry only */
    bool looks = strcmp(first, "pc_thunk") == 0 || strcmp(first, "begins_with_call_pop") == 0;
    bool inner_looks = second && strcmp(second, "pc_thunk") == 0;
    const char *inner_end = inner_looks ? ";" : "()";
    if (outer && inner)
        snprintf(text, sizeof text, "%s(%s%s)", first, second, inner_end);
    else if (inner)
        snprintf(text, sizeof text, "%s%s", second, inner_end);
    else
        snprintf(text, sizeof text, "%s%s", outer ? first : "", outer ? (looks ? ";" : "()") : "");
    E2E_EXPECT(text);
}

static void run(const char *name, const char *callee, long rdi, long rsi, long expected) {
    long result = shape_of(name)->function(rdi, rsi);
    if (result != expected)
        e2e_fail(__FILE__, __LINE__, "%s(%ld, %ld) is %ld, expected %ld", name, rdi, rsi, result, expected);
    expect(name, callee);
}

static void run_all(void) {
    run("loop_short", NULL, 5, 0, 15);
    run("loop_short", NULL, 1, 10, 13);
    run("loop_insn", NULL, 4, 0, 4);
    run("loop_near", NULL, 5, 0, 15);
    run("begins_with_call", "helper", 1, 0, 9);
    run("begins_with_pc_thunk", "pc_thunk", 5, 0, 5);
    run("begins_with_call_pop", NULL, 6, 0, 6);
    run("begins_with_memory_call", "helper", 1, 0, 10);
    run("begins_with_rip_load", NULL, 1, 0, 1001);
    run("begins_with_rip_store", NULL, 77, 0, 77);
    run("begins_with_rip_compare", NULL, 4, 0, 5);
    run("begins_with_rip_vector", NULL, 4, 0, 3004);
    run("begins_with_rip_lea", NULL, 4, 0, 1004);
    run("calls_divide", "begins_with_rip_divide", 700, 0, 100);
    run("calls_divide", "begins_with_rip_divide", -700, 0, -100);
    for (long i = 0; i < 3; i++)
        run("jump_table", NULL, i, 0, 100 + i);
    run("bare_jump", "helper", 3, 0, 4);
    run("bare_short_jump", NULL, 3, 0, 8);
    run("bare_memory_jump", "helper", 3, 0, 4);
    run("entered_inside", NULL, 1, 0, 12);
    run("jumps_inside", NULL, 1, 0, 111);
    run("own_inner_loop", NULL, 4, 0, 10);
    run("begins_with_syscall", NULL, 0, 0, getpid());
    run("begins_with_push_rbp", NULL, 9, 0, 10);
    run("begins_with_sub_rsp", NULL, 9, 0, 9);
    run("guarded_loop", NULL, 3, 1, 7);
    run("second_door", NULL, 5, 0, 7);
    run("helper", NULL, 5, 0, 6);
    shape_of("only_ret")->function(1, 2);
    expect("only_ret", NULL);
    shape_of("only_rep_ret")->function(1, 2);
    expect("only_rep_ret", NULL);
    /* falls into its second door: one function or two */
    E2E_EQUAL(two_doors(5, 0), 7);
    e2e_forget();
}

/* Conditions come from the caller: rcx for jrcxz, carry for jc. */
static void run_conditions(void) {
    for (long taken = 0; taken < 2; taken++) {
        long result;
        __asm__ volatile("mov %[count], %%rcx\n call begins_with_jrcxz"
                         : "=a"(result)
                         : "D"(5L), [count] "r"(1 - taken)
                         : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory");
        E2E_EQUAL(result, taken ? 105 : 5);
        expect("begins_with_jrcxz", NULL);
        __asm__ volatile("bt $0, %[flag]\n call begins_with_jcc"
                         : "=a"(result)
                         : "D"(5L), [flag] "r"(taken)
                         : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory");
        E2E_EQUAL(result, 6 + taken);
        expect("begins_with_jcc", NULL);
        __asm__ volatile("bt $0, %[flag]\n call begins_with_near_jcc"
                         : "=a"(result)
                         : "D"(5L), [flag] "r"(taken)
                         : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory");
        E2E_EQUAL(result, 6 + taken);
        expect("begins_with_near_jcc", NULL);
    }
}

static int hook_shape(struct shape *s) {
    int hook = e2e_try_record(s->name, (void *)s->function);
    s->hooked = hook >= 0;
    if (hook < 0 && !e2e_plain()) {
        printf("%s: %s\n", s->name, ct_status_text(hook));
        if (!s->may_refuse)
            e2e_fail(__FILE__, __LINE__, "%s was refused: %s", s->name, ct_status_name(hook));
    }
    return hook;
}

int main(int argc, char **argv) {
    static int hooks[COUNT];
    e2e_begin(argc, argv);
    for (size_t i = 0; i < sizeof refusable / sizeof *refusable; i++)
        shape_of(refusable[i])->may_refuse = true;
    run_all();
    run_conditions();
    for (size_t i = 0; i < COUNT; i++) { /* one at a time */
        hooks[i] = hook_shape(&shapes[i]);
        run_all();
        run_conditions();
        if (hooks[i] >= 0)
            E2E_EQUAL(ct_hooks_revert(e2e_hooks, hooks[i]), 0);
        shapes[i].hooked = false;
    }
    for (size_t i = 0; i < COUNT; i++) /* all together */
        hooks[i] = hook_shape(&shapes[i]);
    run_all();
    run_conditions();
    return e2e_end();
}

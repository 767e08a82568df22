/* SPDX-License-Identifier: Apache-2.0 */
/* Walks its own stack with libunwind, step by step and at once, and prints places in the program: as untraced. Two
 * libraries have the name and the functions, GNU's old one and LLVM's. Where one is not installed nothing is printed of
 * it. */
#include "zoo.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

ZOO_GATES

extern const char __executable_start[];

enum { FRAMES = 40, CURSOR_WORDS = 256, NONGNU_IP = 16, LLVM_IP = -1 };

static struct walker {
    int (*getcontext)(void *);
    int (*init)(void *, void *);
    int (*step)(void *);
    int (*get_reg)(void *, int, uint64_t *);
    int (*backtrace)(void **, int);
    int ip;
} walker;

static FN void print_place(uint64_t address) {
    long place = (const char *)address - __executable_start;
    printf(place > 0 && place < 1 << 20 ? " %lx" : " library", place);
}

static FN void show_steps(void) {
    struct {
        ucontext_t context;
        uint64_t more[64];
    } context;
    uint64_t cursor[CURSOR_WORDS], ip;
    int count = 0;
    walker.getcontext(&context);
    walker.init(cursor, &context);
    do {
        walker.get_reg(cursor, walker.ip, &ip);
        print_place(ip);
    } while (walker.step(cursor) > 0 && ++count < FRAMES);
    printf("\n");
}

static FN void show_backtrace(void) {
    void *frames[FRAMES];
    int count = walker.backtrace ? walker.backtrace(frames, FRAMES) : 0;
    for (int i = 0; i < count; i++)
        print_place((uint64_t)frames[i]);
    printf("\n");
}

static FN void recurse(int depth) {
    if (depth) {
        recurse(depth - 1);
    } else {
        show_steps();
        show_backtrace();
    }
    BARRIER();
}

static FN void on_signal(int number) {
    (void)number;
    recurse(2);
}

static FN void run(void) {
    for (int depth = 0; depth < 6; depth++)
        recurse(depth);
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    BARRIER();
}

static FN int load_nongnu(void) {
    void *library = dlopen("libunwind.so.8", RTLD_NOW);
    if (!library)
        return 0;
    *(void **)&walker.getcontext = dlsym(library, "_Ux86_64_getcontext");
    *(void **)&walker.init = dlsym(library, "_ULx86_64_init_local");
    *(void **)&walker.step = dlsym(library, "_ULx86_64_step");
    *(void **)&walker.get_reg = dlsym(library, "_ULx86_64_get_reg");
    *(void **)&walker.backtrace = dlsym(library, "unw_backtrace");
    walker.ip = NONGNU_IP;
    return 1;
}

static FN int load_llvm(void) {
    void *library = dlopen("libunwind.so.1", RTLD_NOW);
    if (!library)
        return 0;
    *(void **)&walker.getcontext = dlsym(library, "unw_getcontext");
    *(void **)&walker.init = dlsym(library, "unw_init_local");
    *(void **)&walker.step = dlsym(library, "unw_step");
    *(void **)&walker.get_reg = dlsym(library, "unw_get_reg");
    walker.backtrace = NULL;
    walker.ip = LLVM_IP;
    return 1;
}

int main(void) {
    int nongnu = load_nongnu();
    wait_for_start();
    if (nongnu)
        run();
    if (load_llvm())
        run();
    wait_for_end();
    return 0;
}

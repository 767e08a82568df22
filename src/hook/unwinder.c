/* SPDX-License-Identifier: Apache-2.0 */
/* Stack walks by others: see unwinder.h. Ordinary C: this file is not part of the freestanding runtime. It must have
 * unwind tables, because its frame is walked over. */
#include "hook/unwinder.h"
#include "hook/set.h"
#include <dlfcn.h>
#include <sys/auxv.h>

static _Unwind_Reason_Code (*original)(_Unwind_Trace_Fn, void *);

uint64_t ct_unwind_detour(uint64_t function) {
    return function == (uint64_t)&_Unwind_Backtrace ? (uint64_t)&ct_unwind_backtrace : 0;
}

void ct_unwind_set_original(uint64_t body) {
    original = (_Unwind_Reason_Code(*)(_Unwind_Trace_Fn, void *))body;
}

struct trace {
    _Unwind_Trace_Fn callback;
    void *arg;
    bool skipped;
};

/* The walk starts at the caller of _Unwind_Backtrace, which is ct_unwind_backtrace: that frame is not passed on. */
static _Unwind_Reason_Code pass_on(struct _Unwind_Context *context, void *arg) {
    struct trace *t = arg;
    if (!t->skipped) {
        t->skipped = true;
        return _URC_NO_REASON;
    }
    return t->callback(context, t->arg);
}

__attribute__((noinline)) _Unwind_Reason_Code ct_unwind_backtrace(_Unwind_Trace_Fn callback, void *arg) {
    struct trace t = {.callback = callback, .arg = arg};
    struct ct_block *b = ct_block_current();
    uint64_t sp = (uint64_t)__builtin_frame_address(0);
    if (b)
        ct_shadow_expose_returns(b, sp);
    _Unwind_Reason_Code code = original(pass_on, &t);
    /* In a handler that interrupted an unwinder: the frames that it walks over stay as they are. */
    if (b)
        ct_shadow_rehook_other_returns(b, sp);
    return code;
}

size_t ct_unwind_places(uint64_t places[4]) {
    size_t count = 0;
    void *clone_function = dlsym(RTLD_DEFAULT, "clone");
    if (clone_function)
        places[count++] = (uint64_t)clone_function;
    places[count++] = (uint64_t)&_Unwind_Resume;
    places[count++] = getauxval(AT_ENTRY);
    return count;
}

uint64_t ct_unwind_cfa(void *context) {
    return _Unwind_GetCFA(context);
}

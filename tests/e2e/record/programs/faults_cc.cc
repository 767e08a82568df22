/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that become exceptions (-fnon-call-exceptions): the handler throws, and the unwinder begins at the instruction
 * that had the fault, the first or second of its function. And a walk over the stack from there. */
#include "zoo.h"
#include <csignal>
#include <cstdint>
#include <cstring>
#include <unwind.h>

ZOO_GATES

struct fault {};
static int cleaned, walked;

/* value(p, q): *p + *q, with a frame and without. */
extern "C" FN long value(const volatile long *p, const volatile long *q) {
    return *p + *q;
}

struct guard {
    ~guard() {
        cleaned++;
    }
};

extern "C" FN long framed(const volatile long *p) {
    guard g;
    return *p + cleaned;
}

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *found) {
    int before = 0; /* it is the instruction itself, not the one after a call */
    uintptr_t pc = _Unwind_GetIPInfo(context, &before);
    void *function = _Unwind_FindEnclosingFunction(reinterpret_cast<void *>(pc + (before != 0)));
    if (function == reinterpret_cast<void *>(value) || function == reinterpret_cast<void *>(framed))
        *static_cast<bool *>(found) = true;
    walked++;
    return _URC_NO_REASON;
}

static FN void handler(int) {
    bool found = false;
    walked = 0;
    _Unwind_Backtrace(on_frame, &found);
    CHECK(found && walked > 3);
    throw fault();
}

static FN bool catches(const volatile long *p, const volatile long *q) {
    try {
        return value(p, q) == 0;
    } catch (fault &) {
        return true;
    }
}

static FN bool catches_framed(const volatile long *p) {
    int before = cleaned;
    try {
        return framed(p) == 0;
    } catch (fault &) {
        return cleaned == before + 1;
    }
}

static FN void everything() {
    const volatile long one = 1;
    for (int i = 0; i < 20; i++) {
        CHECK(catches(nullptr, &one));
        CHECK(catches(&one, nullptr));
        CHECK(catches_framed(nullptr));
    }
    CHECK(value(&one, &one) == 2);
}

int main() {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGSEGV, &action, nullptr);
    wait_for_start();
    everything();
    wait_for_end();
    everything();
    printf("%d wrong\n", zoo_failures);
    return zoo_failures != 0;
}

// SPDX-License-Identifier: Apache-2.0
// The exception of leave.c: no hooked function is called after it.
static void throw_here() {
    throw 1;
}

extern "C" void leave_by_exception(void (*thrower)(void (*how)()));
void leave_by_exception(void (*thrower)(void (*how)())) {
    try {
        thrower(throw_here);
    } catch (int) {
    }
}

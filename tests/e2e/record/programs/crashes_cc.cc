/* SPDX-License-Identifier: Apache-2.0 */
// An exception that nobody catches.
#include <stdexcept>

__attribute__((noinline)) void thrower(int n) {
    if (n == 0)
        throw std::runtime_error("nobody listens");
    thrower(n - 1);
    __asm__ volatile("");
}

int main() {
    thrower(4);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
// C++ names, and functions that are called once before the program waits for the end of its standard input.
#include <unistd.h>

namespace shop {
struct basket {
    volatile int sum = 0;
    __attribute__((noinline)) void add(int price);
};

void basket::add(int price) {
    sum = sum + price;
}

template <class T> __attribute__((noinline)) T twice(T price) {
    volatile T sum = price;
    return sum + sum;
}
} // namespace shop

int main() {
    shop::basket basket;
    basket.add(shop::twice(3));
    basket.add((int)shop::twice(1.5));
    char letter;
    while (read(0, &letter, 1) > 0) {
    }
    return basket.sum == 9 ? 0 : 1;
}

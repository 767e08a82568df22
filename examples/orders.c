/* SPDX-License-Identifier: Apache-2.0 */
/* A program that dies in its 777,778th order: for `contrail spawn --trigger crash`, see README.md. */
#include <stdlib.h>
#include <string.h>

struct order {
    int id;
    const char *customer;
};

static __attribute__((noinline)) int price(const struct order *order, int cents) {
    return (int)strlen(order->customer) * cents;
}

static __attribute__((noinline)) int handle(int id, const char *customer) {
    struct order order = {id, customer};
    return price(&order, id % 7);
}

int main(void) {
    long total = 0;
    for (int i = 0; i < 1000000; i++)
        total += handle(i, i == 777777 ? NULL : "acme");
    return total & 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A table of items. One label is longer than its place and runs over the pointer after it. The program dies 30,000
 * calls later, elsewhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 64, ROUNDS = 500 };

struct item {
    char label[16];
    int *price;
};

static struct item items[ITEMS];
static int prices[ITEMS];

/* Copies like strcpy, in a way that the compiler does not see through. */
static __attribute__((noinline)) void copy_text(char *to, const char *from) {
    while ((*to++ = *from++))
        __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void set_label(struct item *item, const char *label) {
    copy_text(item->label, label);
}

static __attribute__((noinline)) int price_of(const struct item *item) {
    return *item->price;
}

static __attribute__((noinline)) int total(int count) {
    int sum = 0;
    for (int i = 0; i < count; i++)
        sum += price_of(&items[i]);
    return sum;
}

static __attribute__((noinline)) void rename_item(int round) {
    if (round == 470)
        set_label(&items[63], "a label of thirty-two characters");
    else
        set_label(&items[round % ITEMS], "plain");
}

int main(void) {
    long sum = 0;
    for (int i = 0; i < ITEMS; i++) {
        prices[i] = i;
        items[i].price = &prices[i];
    }
    for (int round = 0; round < ROUNDS; round++) {
        rename_item(round);
        sum += total(round == ROUNDS - 1 ? ITEMS : ITEMS - 1);
    }
    printf("%ld\n", sum);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Functions whose names are long, and alike for 500 bytes; and one whose name looks like a pattern. */
#define KEPT         __attribute__((noinline))
#define TEN(text)    text text text text text text text text text text
#define LONG(ending) TEN(TEN("long_")) ending

KEPT void one(int number) __asm__(LONG("one"));
KEPT void two(int number) __asm__(LONG("two"));
KEPT void odd(int number) __asm__("_ZN3oddixEi"); /* odd::operator[](int) */

void odd(int number) {
    __asm__ volatile("" : : "r"(number));
}

void one(int number) {
    odd(number);
    __asm__ volatile("");
}

void two(int number) {
    one(number);
    __asm__ volatile("");
}

int main(void) {
    for (int i = 0; i < 3; i++)
        two(i);
    return 0;
}

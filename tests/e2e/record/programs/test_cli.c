/* SPDX-License-Identifier: Apache-2.0 */
/* The plain command line program: recursion, file reading, floating point, allocation, variadics, struct arguments. */
#include "zoo.h"
#include <stdint.h>
#include <string.h>

ZOO_GATES

static FN unsigned factorial(unsigned n) {
    unsigned below = n > 1 ? factorial(n - 1) : 1;
    BARRIER();
    return n ? n * below : 1;
}

static FN int fib(int n) {
    if (n < 2)
        return n;
    int a = fib(n - 1);
    int b = fib(n - 2);
    BARRIER();
    return a + b;
}

static FN int is_odd(int n);

static FN int is_even(int n) {
    int result = n == 0 ? 1 : is_odd(n - 1);
    BARRIER();
    return result;
}

static FN int is_odd(int n) {
    int result = n == 0 ? 0 : is_even(n - 1);
    BARRIER();
    return result;
}

static FN void recursion(void) {
    printf("factorial %u\n", factorial(10));
    printf("fib %d\n", fib(5));
    int even = is_even(4), odd = is_odd(4); /* one at a time: compilers differ in the order of arguments */
    printf("even %d odd %d\n", even, odd);
}

/* ---- files ---- */

static FN int count_line(char *line) {
    int words = 0;
    for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n"))
        words++;
    BARRIER();
    return words;
}

static FN void read_file(void) {
    char line[128];
    int lines = 0, words = 0;
    FILE *file = tmpfile();
    if (!file)
        abort();
    for (int i = 0; i < 5; i++)
        fprintf(file, "line %d has some words\n", i);
    rewind(file);
    while (fgets(line, sizeof line, file)) {
        words += count_line(line);
        lines++;
    }
    fclose(file);
    printf("%d lines, %d words\n", lines, words);
}

/* ---- floating point ---- */

static FN double mean(const double *values, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    BARRIER();
    return sum / count;
}

static FN float half(float x) {
    BARRIER();
    return x / 2;
}

static FN long double power(long double x, int n) {
    long double below = n ? power(x, n - 1) : 1;
    BARRIER();
    return n ? below * x : 1;
}

static FN void floating(void) {
    double values[] = {1.5, 2.25, 3.125, 1e10};
    double middle = mean(values, 4);
    float small = half(5);
    long double large = power(1.0625L, 12);
    printf("%.6f %.3f %.10Lf\n", middle, (double)small, large);
}

/* ---- allocation ---- */

struct list {
    struct list *next;
    int value;
};

static FN struct list *push(struct list *head, int value) {
    struct list *item = malloc(sizeof *item);
    if (!item)
        abort();
    item->next = head;
    item->value = value;
    return item;
}

static FN void release(struct list *head) {
    while (head) {
        struct list *next = head->next;
        free(head);
        head = next;
    }
    BARRIER();
}

static FN void allocation(void) {
    struct list *head = NULL;
    long sum = 0;
    for (int i = 0; i < 100; i++)
        head = push(head, i);
    for (struct list *item = head; item; item = item->next)
        sum += item->value;
    release(head);
    char *text = malloc(10);
    for (size_t size = 10; size < 100000; size *= 3)
        text = realloc(text, size);
    memset(text, 'x', 90);
    text[9] = 0;
    printf("%ld %s\n", sum, text);
    free(text);
}

/* ---- variadics ---- */

static FN long sum_of(int count, ...) {
    va_list args;
    long sum = 0;
    va_start(args, count);
    for (int i = 0; i < count; i++)
        sum += va_arg(args, long);
    va_end(args);
    BARRIER();
    return sum;
}

static FN double mixed(const char *kinds, ...) {
    va_list args;
    double sum = 0;
    va_start(args, kinds);
    for (; *kinds; kinds++)
        sum += *kinds == 'd'   ? va_arg(args, double)
               : *kinds == 'L' ? (double)va_arg(args, long double)
                               : va_arg(args, int);
    va_end(args);
    BARRIER();
    return sum;
}

static FN void variadics(void) {
    printf("%ld %ld\n", sum_of(3, 1L, 2L, 3L), sum_of(10, 1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L, 9L, 10L));
    printf("%.3f\n", mixed("iddLiddddddddddi", 1, 0.5, 0.25, 2.0L, 3, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1., 7));
}

/* ---- structs ---- */

struct small {
    int a;
    double b;
};
struct large {
    uint64_t values[12];
};

static FN struct small add_small(struct small x, struct small y) {
    return (struct small){x.a + y.a, x.b + y.b};
}

static FN struct large add_large(struct large x, int factor, struct large y) {
    struct large sum;
    for (int i = 0; i < 12; i++)
        sum.values[i] = x.values[i] + y.values[i] * (uint64_t)factor;
    BARRIER();
    return sum;
}

static FN void structs(void) {
    struct small s = add_small((struct small){1, 2.5}, (struct small){40, 0.25});
    struct large one, two;
    for (int i = 0; i < 12; i++) {
        one.values[i] = (uint64_t)i;
        two.values[i] = (uint64_t)i * i;
    }
    one = add_large(one, 3, two);
    printf("%d %.2f %llu %llu\n", s.a, s.b, (unsigned long long)one.values[5], (unsigned long long)one.values[11]);
}

int main(int argc, char **argv) {
    wait_for_start();
    recursion();
    read_file();
    floating();
    allocation();
    variadics();
    structs();
    for (int i = 1; i < argc; i++)
        printf("argument %d: %s\n", i, argv[i]);
    wait_for_end();
    return 3;
}

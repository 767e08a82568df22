/* SPDX-License-Identifier: Apache-2.0 */
/* Imports 20,000 orders, each with the settings of its customer. The name of one customer has a newline at its end, so
 * that its settings are not found; the import goes on with the default. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ORDERS = 20000, ODD_ORDER = 13337 };

static __attribute__((noinline)) int load_settings(const char *customer, char *settings, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "%s.conf", customer);
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return -1;
    ssize_t got = read(fd, settings, size - 1);
    close(fd);
    settings[got > 0 ? got : 0] = 0;
    return (int)got;
}

static __attribute__((noinline)) int import_order(int order, const char *customer) {
    char settings[64];
    if (load_settings(customer, settings, sizeof settings) < 0)
        strcpy(settings, "rate=1"); /* the bug hides here: nobody hears of it */
    return settings[5] - '0' + order % 3;
}

static int write_settings(void) {
    int fd = open("acme.conf", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, "rate=7\n", 7) != 7)
        return -1;
    return close(fd);
}

int main(void) {
    long total = 0;
    if (write_settings())
        return 1;
    for (int i = 0; i < ORDERS; i++)
        total += import_order(i, i == ODD_ORDER ? "acme\n" : "acme");
    unlink("acme.conf");
    printf("%ld\n", total);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* swaps LIBRARY FUNCTION LIBRARY FUNCTION: loads the first, calls its function three times and unloads it; then the
 * second, five times. Prints what they returned; the exit status is 0 when both were loaded at the same place. */
#include <dlfcn.h>
#include <stdio.h>

static void *call(const char *path, const char *name, int times) {
    void *library = dlopen(path, RTLD_NOW);
    int (*function)(int) = library ? (int (*)(int))dlsym(library, name) : NULL;
    int sum = 0;
    if (!function)
        return NULL;
    for (int i = 0; i < times; i++)
        sum += function(i);
    printf("%s %d\n", name, sum);
    dlclose(library);
    return (void *)function;
}

int main(int argc, char **argv) {
    if (argc < 5)
        return 2;
    void *first = call(argv[1], argv[2], 3), *second = call(argv[3], argv[4], 5);
    return first && first == second ? 0 : 1;
}

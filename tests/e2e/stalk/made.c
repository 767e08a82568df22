/* SPDX-License-Identifier: Apache-2.0 */
/* Calls code that it has made itself: 100 times. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

int main(void) {
#ifdef __x86_64__
    static const unsigned char code[] = {0x8d, 0x47, 0x01, 0xc3}; /* lea 1(%rdi), %eax; ret */
#else
    static const unsigned code[] = {0x11000400, 0xd65f03c0}; /* add w0, w0, #1; ret */
#endif
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int (*function)(int), sum = 0;
    if (memory == MAP_FAILED)
        return 1;
    memcpy(memory, code, sizeof code);
    __builtin___clear_cache(memory, (char *)memory + sizeof code);
    memcpy(&function, &memory, sizeof function);
    for (int i = 0; i < 100; i++)
        sum = function(sum);
    printf("%d\n", sum);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Code that the program writes at run time, and rewrites; calls from it into hooked functions and back. */
#include "zoo.h"
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

ZOO_GATES

static FN int target(int x) {
    BARRIER();
    return x * 2;
}

static FN int through_generated(uint8_t *code, int x) {
    static const uint8_t template[] = {
        0x48, 0x83, 0xec, 0x08,                      /* sub rsp, 8 */
        0x48, 0xb8, 0,    0,    0,    0, 0, 0, 0, 0, /* mov rax, target */
        0xff, 0xd0,                                  /* call rax */
        0x83, 0xc0, 0,                               /* add eax, n */
        0x48, 0x83, 0xc4, 0x08, 0xc3,                /* add rsp, 8; ret */
    };
    int (*function)(int);
    uintptr_t address = (uintptr_t)target;
    memcpy(code, template, sizeof template);
    memcpy(code + 6, &address, sizeof address);
    code[18] = (uint8_t)x;
    memcpy(&function, &code, sizeof function);
    int y = function(x);
    BARRIER();
    return y;
}

int main(void) {
    uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        return 77;
    wait_for_start();
    for (int i = 0; i < 50; i++)
        CHECK(through_generated(code, i) == 3 * i);
    puts("done");
    wait_for_end();
    return zoo_failures;
}

/* Has data of its own behind GS. */
#include "zoo.h"
#include <asm/prctl.h>
#include <sys/syscall.h>

ZOO_GATES

static unsigned long area[64] = {0, 42};

static FN unsigned long through_gs(void) {
    unsigned long value;
    __asm__ volatile("mov %%gs:8, %0" : "=r"(value));
    return value;
}

int main(void) {
    if (syscall(SYS_arch_prctl, ARCH_SET_GS, area) != 0)
        return 1;
    wait_for_start();
    for (int i = 0; i < 1000; i++)
        CHECK(through_gs() == 42);
    puts(zoo_failures ? "wrong" : "right");
    return zoo_failures;
}

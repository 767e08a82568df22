/* SPDX-License-Identifier: Apache-2.0 */
/* Takes GS in whatever program it is loaded into, before its first instruction. */
#include <sys/syscall.h>
#include <unistd.h>

enum { SET_GS = 0x1001 };

static unsigned long area[8];

__attribute__((constructor)) static void take(void) {
    (void)syscall(SYS_arch_prctl, SET_GS, area);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What differs under qemu's emulation of user programs. It has no ptrace, and threads of its own: so threads are not
 * stopped while code changes, which one instruction at a time allows there. It does not see code that was written
 * through /proc/self/mem: so the page is made writable instead. Linked by --wrap into a library for these tests. */
#include "os/os.h"
#include <string.h>
#include <sys/mman.h>

bool __wrap_ct_os_single_threaded(void);
int __wrap_ct_os_poke_at(const struct ct_os_poker *poker, uint64_t address, const void *bytes, size_t size);

bool __wrap_ct_os_single_threaded(void) {
    return true;
}

static int protection_at(void *arg, const struct ct_os_map *map) {
    uint64_t *query = arg;
    if (query[0] < map->start || query[0] >= map->end)
        return 0;
    query[1] = (map->prot & CT_OS_READ ? PROT_READ : 0u) | (map->prot & CT_OS_WRITE ? PROT_WRITE : 0u) |
               (map->prot & CT_OS_EXEC ? PROT_EXEC : 0u);
    return 1;
}

int __wrap_ct_os_poke_at(const struct ct_os_poker *poker, uint64_t address, const void *bytes, size_t size) {
    uint64_t page = address & ~UINT64_C(4095), end = (address + size + 4095) & ~UINT64_C(4095);
    uint64_t query[2] = {address, 0};
    (void)poker;
    if (!ct_os_each_map(protection_at, query))
        return -1;
    if (mprotect((void *)page, end - page, PROT_READ | PROT_WRITE | PROT_EXEC))
        return -1;
    memcpy((void *)address, bytes, size);
    mprotect((void *)page, end - page, (int)query[1]);
    ct_os_sync_code(address, size);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: mappings, second views of them, and access to memory whatever its protection.
 *
 * Invariants: no call replaces a mapping that is not ours; nothing is ever mapped writable and executable unless the
 * caller asks for both in one call; no file descriptor outlives the call (except in a poker). */
#include "os/os.h"
#include "os/thread.h"
#include "syscall.h"

#include <linux/memfd.h>
#include <linux/resource.h>

_Static_assert(CT_OS_READ == PROT_READ && CT_OS_WRITE == PROT_WRITE && CT_OS_EXEC == PROT_EXEC,
               "enum ct_os_prot has the kernel's values");

size_t ct_os_page_size(void) {
    return CT_PAGE_SIZE;
}

uint64_t ct_os_address_limit(void) {
    return CT_ADDRESS_LIMIT;
}

uint64_t ct_os_heap_end(void) {
    return (uint64_t)syscall1(__NR_brk, 0);
}

void *ct_os_alloc(size_t size, int prot) {
    if (ct_os_is_silent())
        return NULL;
    long at = sys_mmap(0, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    return failed(at) ? NULL : (void *)at;
}

void *ct_os_alloc_low(size_t size, int prot) {
    if (ct_os_is_silent())
        return NULL;
    long at = sys_mmap(0, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | CT_MAP_LOW, -1);
    return failed(at) ? NULL : (void *)at;
}

void *ct_os_alloc_large(size_t size, int prot) {
    enum { HUGE_PAGES = 14 }; /* MADV_HUGEPAGE */
    size_t room = size + CT_OS_LARGE;
    uint8_t *memory = ct_os_alloc(room, prot);
    if (!memory)
        return NULL;
    size_t before = (size_t)(-(uint64_t)memory % CT_OS_LARGE), after = room - before - size;
    if (before)
        (void)ct_os_free(memory, before);
    if (after)
        (void)ct_os_free(memory + before + size, after);
    (void)syscall3(__NR_madvise, (uint64_t)(memory + before), size, HUGE_PAGES);
    return memory + before;
}

#define POPULATE_WRITE 23 /* MADV_POPULATE_WRITE, since Linux 5.14 */

void ct_os_populate(void *start, size_t size) {
    if (!ct_os_is_silent())
        (void)syscall3(__NR_madvise, (uint64_t)start, size, POPULATE_WRITE);
}

int ct_os_free(void *start, size_t size) {
    return status_of(sys_munmap((uint64_t)start, size));
}

int ct_os_protect(void *start, size_t size, int prot) {
    return status_of(sys_mprotect((uint64_t)start, size, prot));
}

/* ---- reserve and commit ---- */

#define RESERVED (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

int ct_os_reserve_at(uint64_t address, size_t size) {
    long at = sys_mmap(address, size, PROT_NONE, RESERVED | MAP_FIXED_NOREPLACE, -1);
    if (failed(at))
        return status_of(at);
    if ((uint64_t)at != address) { /* kernels before 4.17 take the address as a hint */
        sys_munmap((uint64_t)at, size);
        return CT_ERR_BUSY;
    }
    return CT_OK;
}

int ct_os_commit(uint64_t address, size_t size, int prot) {
    long at = sys_mmap(address, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
    return failed(at) ? status_of(at) : CT_OK;
}

int ct_os_decommit(uint64_t address, size_t size) {
    long at = sys_mmap(address, size, PROT_NONE, RESERVED | MAP_FIXED, -1);
    return failed(at) ? status_of(at) : CT_OK;
}

int ct_os_commit_shared(uint64_t address, size_t size, int prot) {
    long at = sys_mmap(address, size, prot, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1);
    return failed(at) ? status_of(at) : CT_OK;
}

int ct_os_view(uint64_t address, size_t size, void **rw) {
    long view = sys_mremap(address, 0, size, MREMAP_MAYMOVE, 0);
    if (failed(view))
        return status_of(view);
    long result = sys_mprotect((uint64_t)view, size, PROT_READ | PROT_WRITE);
    if (failed(result)) {
        sys_munmap((uint64_t)view, size);
        return status_of(result);
    }
    *rw = (void *)view;
    return CT_OK;
}

/* A size beyond RLIMIT_FSIZE would raise SIGXFSZ, for memory files too. */
static bool file_size_allowed(size_t size) {
    struct rlimit64 limit;
    if (failed(syscall4(__NR_prlimit64, 0, RLIMIT_FSIZE, 0, &limit)))
        return false;
    return limit.rlim_cur >= size;
}

static long open_memory_file(size_t size) {
    if (!file_size_allowed(size))
        return -EPERM;
    long fd = syscall2(__NR_memfd_create, "contrail-code", MFD_CLOEXEC);
    if (failed(fd))
        return fd;
    long result = syscall2(__NR_ftruncate, fd, size);
    if (!failed(result))
        return fd;
    sys_close(fd);
    return result;
}

/* For processes that may execute files but not anonymous memory (SELinux without execmem). */
static int commit_dual_file(uint64_t rx, size_t size, void **rw) {
    long fd = open_memory_file(size);
    if (failed(fd))
        return status_of(fd);
    long view = sys_mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    long at = view;
    if (!failed(view)) {
        at = sys_mmap(rx, size, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, fd);
        if (failed(at))
            sys_munmap((uint64_t)view, size);
    }
    sys_close(fd);
    if (failed(at))
        return status_of(at);
    *rw = (void *)view;
    return CT_OK;
}

int ct_os_commit_dual(uint64_t rx, size_t size, void **rw) {
    int status = ct_os_commit_shared(rx, size, PROT_READ | PROT_EXEC); /* uses no descriptor number */
    if (status == CT_OK)
        status = ct_os_view(rx, size, rw);
    if (status != CT_OK)
        status = commit_dual_file(rx, size, rw);
    if (status != CT_OK)
        (void)ct_os_decommit(rx, size);
    return status;
}

int ct_os_wipe_on_fork(void *start, size_t size) {
    return status_of(syscall3(__NR_madvise, start, size, MADV_WIPEONFORK));
}

/* Copies word by word: a call of memcpy could enter a hooked function. Both are page-aligned. */
static void copy_words(void *to, const void *from, size_t size) {
    const uint64_t *in = from;
    uint64_t *out = to;
    for (size_t i = 0; i < size / sizeof *in; i++)
        out[i] = in[i];
}

/* Moves a mapping over another one in one step: threads that run there always find one. */
static long move_over(void *from, size_t size, uint64_t to) {
    return sys_mremap((uint64_t)from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
}

int ct_os_unshare(uint64_t address, size_t size, size_t used, int prot, void *rw) {
    long copy = sys_mmap(0, size, PROT_NONE, RESERVED, -1);
    if (failed(copy))
        return status_of(copy);
    void *copy_rw = NULL;
    int status = ct_os_commit_dual((uint64_t)copy, size, &copy_rw);
    if (status != CT_OK)
        goto free_copy;
    size_t page = ct_os_page_size();
    copy_words(copy_rw, (const void *)address, (used + page - 1) & ~(page - 1));
    ct_os_sync_code((uint64_t)copy, used);
    if (prot != (PROT_READ | PROT_EXEC))
        status = ct_os_protect((void *)copy, size, prot);
    if (status == CT_OK)
        status = status_of(move_over((void *)copy, size, address));
    if (status != CT_OK) {
        sys_munmap((uint64_t)copy_rw, size);
        goto free_copy;
    }
    if (rw)
        return status_of(move_over(copy_rw, size, (uint64_t)rw));
    sys_munmap((uint64_t)copy_rw, size);
    return CT_OK;
free_copy:
    sys_munmap((uint64_t)copy, size);
    return status;
}

/* ---- access ---- */

int ct_os_poke_open(struct ct_os_poker *poker) {
    long fd = sys_open("/proc/self/mem", O_RDWR);
    poker->fd = (int)fd;
    return status_of(fd);
}

int ct_os_poke_at(const struct ct_os_poker *poker, uint64_t address, const void *bytes, size_t size) {
    long done = syscall4(__NR_pwrite64, poker->fd, bytes, size, address);
    if (done == -EIO)
        return CT_ERR_NOT_MAPPED;
    if (failed(done))
        return status_of(done);
    return (size_t)done == size ? CT_OK : CT_ERR_NOT_MAPPED;
}

void ct_os_poke_close(struct ct_os_poker *poker) {
    sys_close(poker->fd);
    poker->fd = -1;
}

int ct_os_poke(uint64_t address, const void *bytes, size_t size) {
    struct ct_os_poker poker;
    int status = ct_os_poke_open(&poker);
    if (status != CT_OK)
        return status;
    status = ct_os_poke_at(&poker, address, bytes, size);
    ct_os_poke_close(&poker);
    return status;
}

/* For processes where a filter forbids process_vm_readv. Also reads memory that is mapped without read permission. */
static int peek_file(uint64_t address, void *bytes, size_t size) {
    long fd = sys_open("/proc/self/mem", O_RDONLY);
    if (failed(fd))
        return status_of(fd);
    long done = syscall4(__NR_pread64, fd, bytes, size, address);
    sys_close(fd);
    return done >= 0 && (size_t)done == size ? CT_OK : CT_ERR_NOT_MAPPED;
}

size_t ct_os_peek_some(int pid, uint64_t address, void *bytes, size_t size) {
    size_t page = ct_os_page_size(), left = page - (address & (page - 1)), first = left < size ? left : size;
    struct iovec to = {bytes, size};
    struct iovec from[2] = {{(void *)address, first}, {(void *)(address + first), size - first}};
    if (ct_os_is_silent())
        return 0;
    long done = syscall6(__NR_process_vm_readv, pid, (long)&to, 1, (long)from, size > first ? 2 : 1, 0);
    return done > 0 ? (size_t)done : 0;
}

int ct_os_peek(uint64_t address, void *bytes, size_t size) {
    struct iovec to = {bytes, size};
    struct iovec from = {(void *)address, size};
    if (ct_os_is_silent())
        return CT_ERR_NOT_MAPPED;
    long done = syscall6(__NR_process_vm_readv, ct_os_getpid(), (long)&to, 1, (long)&from, 1, 0);
    if (done >= 0 && (size_t)done == size)
        return CT_OK;
    if (done == -EPERM || done == -ENOSYS || done == -EACCES)
        return peek_file(address, bytes, size);
    return CT_ERR_NOT_MAPPED;
}

/* The operating system as the engine sees it: memory, maps, threads. Implemented by src/os/<os>.
 *
 * Everything here makes raw system calls and touches neither libc nor thread-local storage, so it may be called while
 * other threads are stopped (one of them may hold malloc's lock) and from the agent. */
#ifndef CT_OS_OS_H
#define CT_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "os/registers.h"

/* ---- memory ---- */

enum ct_os_prot { CT_OS_READ = 1, CT_OS_WRITE = 2, CT_OS_EXEC = 4 };

/* Asked of the machine: 4, 16 or 64 KiB on arm64. */
size_t ct_os_page_size(void);

/* No mapping of this process lies at or above it. */
uint64_t ct_os_address_limit(void);
/* Where the heap (brk) ends now; it grows upward from here. */
uint64_t ct_os_heap_end(void);

/* Anonymous private memory anywhere, or NULL. Released with ct_os_free. */
void *ct_os_alloc(size_t size, int prot);
/* The same where 31 bits are enough for its addresses, on machines whose instructions hold so few. */
void *ct_os_alloc_low(size_t size, int prot);
int ct_os_free(void *start, size_t size);
int ct_os_protect(void *start, size_t size, int prot);

/* Takes `size` bytes of address space exactly at `address` without memory behind it; CT_ERR_BUSY when something is
 * mapped there (never replaces a mapping). Commit gives memory to a part of it. */
int ct_os_reserve_at(uint64_t address, size_t size);
int ct_os_commit(uint64_t address, size_t size, int prot);
/* Takes the memory back; the addresses stay reserved (ct_os_free gives them up). */
int ct_os_decommit(uint64_t address, size_t size);

/* Two views of the same fresh memory: `rx` at the given address (reserved before), `*rw` anywhere.
 *
 * Such memory is shared with the children of a fork: what either process writes, the other one executes. Before the
 * child writes it must call ct_os_unshare. (ct_arena does so by itself.) */
int ct_os_commit_dual(uint64_t rx, size_t size, void **rw);
/* Like ct_os_commit, but shared as above, so that ct_os_view works on it. */
int ct_os_commit_shared(uint64_t address, size_t size, int prot);
/* Another, writable view of shared memory, whatever its own protection. Released with ct_os_free. */
int ct_os_view(uint64_t address, size_t size, void **rw);
/* Replaces shared memory by a copy that this process has for itself, in place: threads that execute it go on. The first
 * `used` bytes are copied; the copy has the protection `prot`, and takes the place of the view `rw` too if not NULL. */
int ct_os_unshare(uint64_t address, size_t size, size_t used, int prot, void *rw);

/* The child of a fork sees zeros in this page-aligned private range. */
int ct_os_wipe_on_fork(void *start, size_t size);

/* Writes to memory of this process whatever its protection (through /proc/self/mem); text stays r-x for everybody.
 * CT_ERR_NOT_MAPPED when a part is not mapped: what lies before that part may have been written.
 * It is no atomic store: threads must not execute the bytes meanwhile. */
int ct_os_poke(uint64_t address, const void *bytes, size_t size);

/* The same for many writes: the file is opened once. */
struct ct_os_poker {
    int fd;
};
int ct_os_poke_open(struct ct_os_poker *poker);
int ct_os_poke_at(const struct ct_os_poker *poker, uint64_t address, const void *bytes, size_t size);
void ct_os_poke_close(struct ct_os_poker *poker);

/* Code was written to these addresses, by stores through any mapping of them: from now on threads of this process that
 * come there execute it. To be called after every such write; one through ct_os_poke is the kernel's, which does it. */
void ct_os_sync_code(uint64_t start, size_t size);

/* Reads memory of this process without ever faulting: CT_ERR_NOT_MAPPED instead. */
int ct_os_peek(uint64_t address, void *bytes, size_t size);

/* ---- maps ---- */

/* Mappings that grow: leave room above the heap and below the stack. */
enum ct_os_map_role { CT_OS_MAP_OTHER, CT_OS_MAP_HEAP, CT_OS_MAP_STACK };

struct ct_os_map {
    uint64_t start, end, offset;
    uint64_t inode;
    uint8_t prot; /* enum ct_os_prot bits */
    bool shared;
    bool deleted;     /* the file has no name any more; `path` is its last one */
    uint8_t role;     /* enum ct_os_map_role */
    const char *path; /* "" when anonymous; valid during the callback only */
};

/* Calls `each` for every mapping in address order until it returns non-zero (which is then returned). */
int ct_os_each_map(int (*each)(void *arg, const struct ct_os_map *map), void *arg);
/* The same for another process. CT_ERR_NOT_FOUND: there is none. */
int ct_os_each_map_of(int pid, int (*each)(void *arg, const struct ct_os_map *map), void *arg);

/* ---- threads ---- */

int ct_os_gettid(void);
int ct_os_getpid(void);
/* Is this a thread of this process? (A main thread that has ended while others run still is.) */
bool ct_os_thread_alive(int tid);
bool ct_os_process_alive(int pid); /* or a thread of any */
/* Nobody else is here, so nobody can start a thread behind our back. False when it cannot be told. */
bool ct_os_single_threaded(void);
/* Is it a thread that the kernel has put into process `pid` to work for it (io_uring, vhost)? Such a one is listed with the others, but never
 * executes the program's code. */
bool ct_os_is_kernel_worker(int pid, int tid);

/* Stops every other thread of this process through a helper that shares memory but is outside the thread group.
 * Between stop and resume the caller must not take locks or call libc; its signals are blocked. The stopped threads are
 * numbered 0..count-1. System calls that the stop interrupted are repeated: no thread sees EINTR because of us. What
 * stays visible, as with SIGSTOP: a transfer that was cut in the middle returns its short count, and a time limit that
 * the kernel does not carry over a restart (epoll_wait, sigtimedwait, semtimedop, SO_RCVTIMEO) begins anew.
 *
 * One thread at a time can do so: another one that wants to waits for it.
 * CT_ERR_BUSY: a debugger is attached, or another thread keeps all stopped. CT_ERR_TIMEOUT: a thread did not stop in time
 * (uninterruptible sleep, vfork; those that only wait for the processor have longer). CT_ERR_PERMISSION_DENIED: the system
 * forbids ptrace. Then nothing has changed.
 * For the time of the stop the process is made dumpable if it was not (a value of 2 comes back as 0), and a tracer
 * that the program allowed with PR_SET_PTRACER is forgotten (it cannot be read back).
 * The kernel's own workers for the process (io_uring) are stopped and numbered too; their pc is 0.
 * Should somebody kill the helper, the threads run on and the functions below fail with CT_ERR_SYSTEM. */
struct ct_os_stopped;
int ct_os_stop_threads(struct ct_os_stopped **out);
/* With a time limit of one's own; the default is 2,000 ms. */
int ct_os_stop_threads_within(struct ct_os_stopped **out, unsigned limit_ms);
size_t ct_os_stopped_count(const struct ct_os_stopped *s);
int ct_os_stopped_tid(const struct ct_os_stopped *s, size_t i);
int ct_os_stopped_get_regs(struct ct_os_stopped *s, size_t i, struct ct_registers *regs);
/* Takes effect when the threads resume. CT_ERR_INVALID_ARGUMENT: a thread base or block that is no address. */
int ct_os_stopped_set_regs(struct ct_os_stopped *s, size_t i, const struct ct_registers *regs);
void ct_os_resume_threads(struct ct_os_stopped *s); /* also frees s */

#endif

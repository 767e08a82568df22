/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system as the engine sees it: memory, maps, threads. Implemented in src/os/linux.
 *
 * Everything here makes raw system calls and touches neither libc nor thread-local storage. So it may be called while
 * other threads are stopped (one of them may hold malloc's lock), and from the agent. */
#ifndef CT_OS_OS_H
#define CT_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "os/registers.h"

/* ---- memory ---- */

enum ct_os_prot { CT_OS_READ = 1, CT_OS_WRITE = 2, CT_OS_EXEC = 4 };
enum { CT_OS_LARGE = 2 << 20 };

/* As the kernel reports it: arm64 has 4, 16 or 64 KiB. */
size_t ct_os_page_size(void);

/* All mappings of this process lie below this address. */
uint64_t ct_os_address_limit(void);
/* Where the heap (brk) ends now; it grows upward from here. */
uint64_t ct_os_heap_end(void);

/* Anonymous private memory anywhere, or NULL. Released with ct_os_free. */
void *ct_os_alloc(size_t size, int prot);
/* Like ct_os_alloc, but at addresses of 31 bits, for machines whose instructions can hold only those. */
void *ct_os_alloc_low(size_t size, int prot);
/* Like ct_os_alloc, a multiple of CT_OS_LARGE in size and address, in huge pages where the system has some: one of
 * those is a single page fault. */
void *ct_os_alloc_large(size_t size, int prot);
int ct_os_free(void *start, size_t size);
/* Gives memory to these pages now, so that they need no page faults later. It does not matter if that fails. */
void ct_os_populate(void *start, size_t size);
int ct_os_protect(void *start, size_t size, int prot);

/* Reserves `size` bytes of address space exactly at `address`, without memory. CT_ERR_BUSY: something is mapped there
 * (a mapping is never replaced). ct_os_commit gives memory to a part of it. */
int ct_os_reserve_at(uint64_t address, size_t size);
int ct_os_commit(uint64_t address, size_t size, int prot);
/* Frees the memory; the addresses stay reserved (ct_os_free releases them). */
int ct_os_decommit(uint64_t address, size_t size);

/* Two views of the same new memory: `rx` at the given address (reserved before), `*rw` anywhere.
 *
 * Children of a fork share this memory: what either process writes, the other one executes. A child must call
 * ct_os_unshare before it writes. (ct_arena does so by itself.) */
int ct_os_commit_dual(uint64_t rx, size_t size, void **rw);
/* Like ct_os_commit, but shared as above: ct_os_view works on it. */
int ct_os_commit_shared(uint64_t address, size_t size, int prot);
/* Another, writable view of shared memory, whatever its own protection. Released with ct_os_free. */
int ct_os_view(uint64_t address, size_t size, void **rw);
/* Replaces shared memory with a private copy, in place: threads that execute it are not disturbed. The first `used`
 * bytes are copied. The copy has the protection `prot`, and also replaces the view `rw` if that is not NULL. */
int ct_os_unshare(uint64_t address, size_t size, size_t used, int prot, void *rw);

/* The child of a fork sees zeros in this page-aligned private range. */
int ct_os_wipe_on_fork(void *start, size_t size);

/* Writes to memory of this process, whatever its protection (through /proc/self/mem). Text stays r-x for everybody.
 * CT_ERR_NOT_MAPPED: a part is not mapped; what lies before that part may have been written. The store is not atomic:
 * no thread may execute the bytes meanwhile. */
int ct_os_poke(uint64_t address, const void *bytes, size_t size);

/* ct_os_poke for many writes: the file is opened once. */
struct ct_os_poker {
    int fd;
};
int ct_os_poke_open(struct ct_os_poker *poker);
int ct_os_poke_at(const struct ct_os_poker *poker, uint64_t address, const void *bytes, size_t size);
void ct_os_poke_close(struct ct_os_poker *poker);

/* Call this after every write of code by stores, through any mapping: threads of this process execute the new code from
 * then on. Writes by ct_os_poke do not need it, because the kernel does it. */
void ct_os_sync_code(uint64_t start, size_t size);

/* Reads memory of this process. Never faults: returns CT_ERR_NOT_MAPPED instead. */
int ct_os_peek(uint64_t address, void *bytes, size_t size);
/* Reads as many of these bytes (at most a page) as are mapped, with one system call; returns their number. `pid` is
 * this process, or one on the same memory. 0 also when the kernel does not let us, or no system call may be made. */
size_t ct_os_peek_some(int pid, uint64_t address, void *bytes, size_t size);

/* ---- maps ---- */

/* The heap grows upward and the stack downward: leave room there. */
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
/* The mappings of another process. CT_ERR_NOT_FOUND: there is no such process. */
int ct_os_each_map_of(int pid, int (*each)(void *arg, const struct ct_os_map *map), void *arg);

/* ---- threads ---- */

int ct_os_gettid(void);
int ct_os_getpid(void);
/* Is this a thread of this process? (A main thread that has ended while others run still is.) */
bool ct_os_thread_alive(int tid);
bool ct_os_process_alive(int pid); /* also true for the number of a thread, in any process */
/* Is this the only thread, so that nobody else can start one? False if that is unknown. */
bool ct_os_single_threaded(void);
/* Is it a thread that the kernel runs for process `pid` (io_uring, vhost)? Such threads are listed with the others, but
 * never execute the program's code. */
bool ct_os_is_kernel_worker(int pid, int tid);

/* Stops every other thread of this process. A helper process does it, which shares memory but is outside the thread
 * group. Between stop and resume the caller must not take locks or call libc; its signals are blocked. The stopped
 * threads are numbered 0..count-1. System calls that the stop interrupts are repeated: no thread sees EINTR because of
 * us. As with SIGSTOP, two things stay visible: a transfer that was cut in the middle returns its short count, and a
 * time limit that the kernel does not carry over a restart (epoll_wait, sigtimedwait, semtimedop, SO_RCVTIMEO) starts
 * from the beginning.
 *
 * One thread at a time can stop the others; a second one waits.
 * CT_ERR_BUSY: a debugger is attached, or another thread keeps all stopped. CT_ERR_TIMEOUT: a thread did not stop in
 * time (uninterruptible sleep, vfork; threads that only wait for the processor get longer). CT_ERR_PERMISSION_DENIED:
 * the system forbids ptrace. After an error nothing has changed.
 * During the stop the process is dumpable (a value of 2 becomes 0 afterwards), and a tracer that the program allowed
 * with PR_SET_PTRACER is lost, because it cannot be read back.
 * Threads that the kernel runs for the process (ct_os_is_kernel_worker) are left alone and not numbered.
 * If somebody kills the helper, the threads run on and the functions below fail with CT_ERR_SYSTEM. */
struct ct_os_stopped;
int ct_os_stop_threads(struct ct_os_stopped **out);
/* With another time limit; the default is 2,000 ms. */
int ct_os_stop_threads_within(struct ct_os_stopped **out, unsigned limit_ms);
size_t ct_os_stopped_count(const struct ct_os_stopped *s);
int ct_os_stopped_tid(const struct ct_os_stopped *s, size_t i);
int ct_os_stopped_get_regs(struct ct_os_stopped *s, size_t i, struct ct_registers *regs);
/* Takes effect when the threads resume. CT_ERR_INVALID_ARGUMENT: the thread base or the block is not an address. */
int ct_os_stopped_set_regs(struct ct_os_stopped *s, size_t i, const struct ct_registers *regs);
void ct_os_resume_threads(struct ct_os_stopped *s); /* also frees s */

#endif

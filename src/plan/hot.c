/* SPDX-License-Identifier: Apache-2.0 */
/* See hot.h. The only list: docs/OVERHEAD.md has the same, which a test compares. */
#include "plan/hot.h"
#include <stddef.h>
#include <string.h>

const char *const ct_hot_globs[] = {
    /* allocators: the C library's, and others that programs link */
    "malloc", "free", "calloc", "realloc", "cfree", "memalign", "aligned_alloc", "posix_memalign", "reallocarray",
    "malloc_usable_size", "__libc_malloc", "__libc_free", "__libc_calloc", "__libc_realloc", "_int_malloc", "_int_free*",
    "_int_realloc", "tcache_*", "unlink_chunk*", "malloc_consolidate", "alloc_perturb", "operator new*",
    "operator delete*", "je_malloc", "je_free", "je_calloc", "je_realloc", "tc_malloc", "tc_free", "mi_malloc*",
    "mi_free*", "g_malloc*", "g_free", "g_slice_*", "__rust_alloc*", "__rust_dealloc", "__rust_realloc", "__rdl_*",
    /* memory and strings, with the variants that the C library chooses from */
    "memcpy", "memmove", "memset", "memcmp", "memchr", "memrchr", "mempcpy", "strlen", "strnlen", "strcmp", "strncmp",
    "strcasecmp", "strncasecmp", "strchr", "strrchr", "strchrnul", "strcpy", "strncpy", "stpcpy", "strcat", "strstr",
    "__mem*_avx*", "__mem*_sse*", "__mem*_evex*", "__mem*_erms*", "__str*_avx*", "__str*_sse*", "__str*_evex*",
    "__stpcpy_*", "__rawmemchr_*",
    /* locks */
    "pthread_mutex_lock", "pthread_mutex_unlock", "pthread_mutex_trylock", "___pthread_mutex_lock",
    "___pthread_mutex_unlock", "___pthread_mutex_trylock", "__pthread_mutex_unlock_usercnt", "pthread_rwlock_*",
    "___pthread_rwlock_*", "pthread_spin_*", "__lll_lock_*", "lll_*",
    /* asked for all the time */
    "__errno_location", "__tls_get_addr*", "pthread_self", "pthread_getspecific", "___pthread_getspecific",
    "__ctype_*_loc", "clock_gettime", "__clock_gettime", "gettimeofday",
    /* lazy binding */
    "_dl_runtime_resolve*", "_dl_fixup", "_dl_lookup_symbol_x", "do_lookup_x", "check_match",
    NULL,
};

bool ct_hot_is_glob(const char *glob) {
    for (const char *const *g = ct_hot_globs; *g; g++)
        if (!strcmp(*g, glob))
            return true;
    return false;
}

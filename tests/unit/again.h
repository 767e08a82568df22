/* SPDX-License-Identifier: Apache-2.0 */
/* A system call that a stop may end with EINTR on arm64, where the kernel does not show its first argument
 * (docs/LIMITS.md): it is made again. Elsewhere no stop is ever seen. */
#ifndef AGAIN_H
#define AGAIN_H

#include <errno.h>

#ifdef __aarch64__
#define AGAIN(call)                                                                                                    \
    ({                                                                                                                 \
        long result_;                                                                                                  \
        do                                                                                                             \
            result_ = (call);                                                                                          \
        while (result_ == -1 && errno == EINTR);                                                                       \
        result_;                                                                                                       \
    })
#else
#define AGAIN(call) (call)
#endif

#endif

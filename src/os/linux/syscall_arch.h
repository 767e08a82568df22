/* SPDX-License-Identifier: Apache-2.0 */
/* Picks the architecture's system call header. */
#ifndef CT_OS_LINUX_SYSCALL_ARCH_H
#define CT_OS_LINUX_SYSCALL_ARCH_H

#if defined(__x86_64__)
#include "syscall_x64.h"
#elif defined(__aarch64__)
#include "syscall_a64.h"
#else
#error "no system call header for this architecture"
#endif

#endif

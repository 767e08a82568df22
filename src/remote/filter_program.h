/* SPDX-License-Identifier: Apache-2.0 */
/* The program of a seccomp filter. */
#ifndef CT_REMOTE_FILTER_PROGRAM_H
#define CT_REMOTE_FILTER_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/filter.h>

/* Does it allow this system call with any arguments? */
bool ct_filter_allows(const struct sock_filter *program, size_t count, uint32_t number);

#endif

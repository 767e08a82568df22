/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers for events, lent to thread writers between reserve and flush. */
#ifndef CT_TRACE_BUFFERS_H
#define CT_TRACE_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>

#define CT_BUFFER_MIN     (16u << 10)
#define CT_BUFFER_MAX     (256u << 10)
#define CT_BUFFER_CLASSES 5 /* 16 KiB, 32 … 256 KiB */

/* NULL when there is no memory. Any thread. */
void *ct_buffer_take(unsigned size_class);
void ct_buffer_give(void *buffer, unsigned size_class);
/* True when so much is lent that every holder that can give a buffer back should. */
bool ct_buffer_pressure(void);

#endif

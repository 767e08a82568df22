/* SPDX-License-Identifier: Apache-2.0 */
/* For CModules: the types and the few macros of GLib that small modules use. Written for Contrail; nothing is
 * linked. */
#ifndef CT_SCRIPT_GLIB_H
#define CT_SCRIPT_GLIB_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef char gchar;
typedef unsigned char guchar;
typedef short gshort;
typedef unsigned short gushort;
typedef int gint, gboolean;
typedef unsigned int guint;
typedef long glong;
typedef unsigned long gulong;
typedef int8_t gint8;
typedef uint8_t guint8;
typedef int16_t gint16;
typedef uint16_t guint16;
typedef int32_t gint32;
typedef uint32_t guint32;
typedef int64_t gint64;
typedef uint64_t guint64;
typedef size_t gsize;
typedef ptrdiff_t gssize;
typedef float gfloat;
typedef double gdouble;
typedef void *gpointer;
typedef const void *gconstpointer;
typedef void (*GDestroyNotify)(gpointer data);

#define TRUE  1
#define FALSE 0
#ifndef NULL
#define NULL ((void *)0)
#endif
#define G_BEGIN_DECLS
#define G_END_DECLS
#define G_GNUC_UNUSED              __attribute__((unused))
#define G_N_ELEMENTS(a)            (sizeof(a) / sizeof((a)[0]))
#define GPOINTER_TO_SIZE(p)        ((gsize)(p))
#define GSIZE_TO_POINTER(n)        ((gpointer)(gsize)(n))
#define GPOINTER_TO_INT(p)         ((gint)(glong)(p))
#define GINT_TO_POINTER(n)         ((gpointer)(glong)(n))
#define GPOINTER_TO_UINT(p)        ((guint)(gulong)(p))
#define GUINT_TO_POINTER(n)        ((gpointer)(gulong)(n))

#define g_atomic_int_get(p)        __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define g_atomic_int_set(p, value) __atomic_store_n((p), (value), __ATOMIC_SEQ_CST)
#define g_atomic_int_add(p, value) __atomic_fetch_add((p), (value), __ATOMIC_SEQ_CST)
#define g_atomic_int_inc(p)        ((void)__atomic_fetch_add((p), 1, __ATOMIC_SEQ_CST))

#endif

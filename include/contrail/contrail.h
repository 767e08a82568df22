/* Contrail's public API in one include. */
#ifndef CONTRAIL_CONTRAIL_H
#define CONTRAIL_CONTRAIL_H

#include <contrail/cpu.h>
#include <contrail/event.h>
#include <contrail/hook.h>
#include <contrail/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* "0.1.0" */
const char *ct_version(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

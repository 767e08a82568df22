/* SPDX-License-Identifier: Apache-2.0 */
/* What the whole-library test runs: each part prints lines that are the same in every run. */
#ifndef E2E_WORKLOAD_H
#define E2E_WORKLOAD_H

#ifdef __cplusplus
extern "C" {
#endif

void workload_c(int scale);
void workload_math(int scale);
void workload_sqlite(int scale);
void workload_crypto(int scale);
void workload_python(int scale);
void workload_cpp(int scale);

/* Loads what is loaded lazily, so that it is there to be hooked. */
static inline void workload_prepare(void) {
}

static inline void workload(int quick) {
    int scale = quick ? 1 : 10;
    workload_c(scale);
    workload_math(scale);
    workload_cpp(scale);
    workload_sqlite(scale);
    workload_crypto(scale);
    workload_python(scale);
}

static inline void workload_quick(void) {
    workload_c(1);
    workload_cpp(1);
    workload_sqlite(1);
}

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef E2E_MODULE_LIBRARY_H
#define E2E_MODULE_LIBRARY_H
#define EXPORTED __attribute__((visibility("default")))
EXPORTED int library_work(int x);
EXPORTED int library_indirect(int x);
EXPORTED int library_callback(int (*f)(int), int x);
#endif

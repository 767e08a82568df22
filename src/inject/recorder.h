/* SPDX-License-Identifier: Apache-2.0 */
/* Is somebody recording this process now? */
#ifndef CT_INJECT_RECORDER_H
#define CT_INJECT_RECORDER_H

#include "remote/remote.h"

struct ct_os_map;
/* Is it the shared memory of a recorder, by its name? */
bool ct_recorder_is_memory(const struct ct_os_map *map);
/* `shm`: where the shared memory of the recorder is in the process (abi/shm_abi.h). The process can write the word
 * there that names the recorder's thread. So that word is believed only as far as the kernel confirms it: the thread
 * exists, it is not the process's own, its owner may record this process, and it has the same memory mapped. */
bool ct_recorder_is_alive(struct ct_remote *remote, uint64_t shm);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Functions in the target that scripts serve: a few bytes each, which put their number on the stack and go to the
 * agent. */
#include "os/os.h"
#include "script/script_internal.h"
#include "script/script_thunk.h"
#include <contrail/status.h>
#include <sys/mman.h>

int ct_script_callback(struct ct_script *s, uint32_t slot, uint64_t *address, uint32_t *id) {
    uint8_t bytes[CT_SCRIPT_THUNK];
    uint32_t per_page = (uint32_t)(ct_os_page_size() / CT_SCRIPT_THUNK);
    pthread_mutex_lock(&s->worker);
    uint32_t number = s->thunk_count, place = number % per_page;
    int status = place ? 0 : ct_script_alloc(s, slot, 0, 1, PROT_READ | PROT_EXEC, &s->thunks);
    if (!status) {
        *address = s->thunks + place * CT_SCRIPT_THUNK;
        *id = number;
        ct_script_write_thunk(bytes, number, s->shared->callback_entry);
        status = ct_script_write(s, *address, bytes, sizeof bytes);
        s->thunk_count += !status;
    }
    pthread_mutex_unlock(&s->worker);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the target: functions by name. */
#include "script/script_internal.h"
#include "symbols/name_match.h"
#include <contrail/status.h>
#include <string.h>

int64_t ct_script_find_functions(struct ct_script *s, const char *name_or_glob, uint64_t *addresses, size_t room) {
    const char *const globs[] = {name_or_glob, NULL};
    int64_t count = 0;
    pthread_mutex_lock(&s->work);
    int status = ct_script_is_gone(s) ? 0 : ct_script_update(s);
    for (size_t p = 0; !status && p < s->plan_count; p++)
        for (size_t i = 0; i < s->plans[p].plan->module_count; i++) {
            const struct ct_target_module *m = &s->plans[p].plan->modules[i];
            for (size_t k = 0; k < m->function_count; k++)
                if (m->functions[k].name[0] && ct_name_fits(globs, m->functions[k].name)) {
                    if ((size_t)count < room)
                        addresses[count] = m->bias + m->functions[k].offset;
                    count++;
                }
        }
    pthread_mutex_unlock(&s->work);
    return status ? status : count;
}

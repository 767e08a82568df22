/* SPDX-License-Identifier: Apache-2.0 */
/* Coverage of a module in bytes of code. A module whose tables name few of its functions has little of it, however many
 * of these have a hook. */
#include "plan/target_plan.h"

#define LARGE_CODE (64u << 10) /* bytes */

enum { ALIGNMENT = 16 }; /* of functions: what is up to it after one is padding */

static bool is_part(const struct ct_target_function *f) {
    return f->skip == CT_HOOK_SKIP_COLD || f->skip == CT_HOOK_SKIP_FRAGMENT || f->skip == CT_HOOK_SKIP_ODD_ENTRY;
}

/* Functions are by offset, and may overlap: each byte counts once, for the first that has it. */
struct ct_target_bytes ct_target_module_bytes(const struct ct_target_module *module) {
    struct ct_target_bytes bytes = {.code = module->code_bytes};
    uint64_t reach = 0;
    for (size_t i = 0; i < module->function_count; i++) {
        const struct ct_target_function *f = &module->functions[i];
        uint64_t start = f->offset > reach ? f->offset : reach, end = f->offset + f->size;
        uint64_t padded = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (i + 1 == module->function_count || module->functions[i + 1].offset >= padded)
            end = padded;
        else if (module->functions[i + 1].offset > end)
            end = module->functions[i + 1].offset;
        if (end <= start)
            continue;
        reach = end;
        bytes.known += is_part(f) ? 0 : end - start;
        if (!f->skip)
            bytes.hooked += end - start;
        else if (is_part(f))
            bytes.code -= bytes.code > end - start ? end - start : bytes.code;
    }
    if (bytes.hooked > bytes.code)
        bytes.hooked = bytes.code;
    return bytes;
}

bool ct_target_lacks_functions(const struct ct_target_bytes *bytes) {
    return bytes->known < bytes->code / 2;
}

bool ct_target_is_poor(const struct ct_target_bytes *bytes, bool program) {
    return (program && !bytes->known) || (bytes->code >= LARGE_CODE && ct_target_lacks_functions(bytes));
}

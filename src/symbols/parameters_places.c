/* SPDX-License-Identifier: Apache-2.0 */
/* Where the values of a signature are, by the calling convention of its machine. */
#include "symbols/parameters.h"

const struct ct_convention *ct_convention_of(const struct ct_machine *machine) {
    return machine == &ct_machine_a64 ? &ct_convention_a64 : &ct_convention_x64;
}

void ct_signature_place(const struct ct_convention *convention, struct ct_signature *signature) {
    const struct ct_type *result = signature->result;
    struct ct_passing passing = {0};
    if (!signature->convention)
        return;
    if (result->kind == CT_TYPE_STRUCT && signature->plain_only)
        passing.unsure = true;
    else
        signature->result_place = convention->result(&passing, result);
    for (size_t i = 0; i < signature->count; i++) {
        struct ct_parameter *p = &signature->parameters[i];
        struct ct_value_place place = convention->argument(&passing, p->type, signature->plain_only);
        bool both = p->place.kind == CT_VALUE_PLACE_REGISTERS && place.kind == CT_VALUE_PLACE_REGISTERS;
        if (p->place.kind == CT_VALUE_PLACE_UNKNOWN)
            p->place = place;
        else if (both && p->place.pieces[0] != place.pieces[0] && !signature->local)
            p->place = (struct ct_value_place){0}; /* they disagree: who knows */
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Relocations that compilers of x86_64 write. */
#include "script/script_object.h"
#include <contrail/status.h>
#include <elf.h>
#include <string.h>

#ifndef R_X86_64_GOTPCRELX
#define R_X86_64_GOTPCRELX     41
#define R_X86_64_REX_GOTPCRELX 42
#endif

static int put(struct ct_object_image *m, const struct ct_object_fix *f, uint64_t value, size_t size) {
    if (f->end - f->at < size)
        return CT_ERR_OUT_OF_RANGE;
    memcpy(m->bytes + f->at, &value, size);
    return 0;
}

static int put_relative(struct ct_object_image *m, const struct ct_object_fix *f, uint64_t target) {
    int64_t distance = (int64_t)(target + (uint64_t)f->addend - (m->address + f->at));
    return distance == (int32_t)distance ? put(m, f, (uint64_t)distance, 4) : CT_ERR_OUT_OF_RANGE;
}

/* A word with the symbol's address, within reach. */
static uint64_t word_for(struct ct_object_image *m, const struct ct_object_fix *f) {
    if (!m->word_of[f->symbol])
        m->word_of[f->symbol] = ++m->word_count;
    uint64_t at = m->words + (m->word_of[f->symbol] - 1) * 8ull;
    memcpy(m->bytes + at, &f->value, sizeof f->value);
    return m->address + at;
}

/* jmp *[rip]; address */
static uint64_t jump_for(struct ct_object_image *m, const struct ct_object_fix *f) {
    static const uint8_t code[] = {0xff, 0x25, 0, 0, 0, 0};
    if (!m->jump_of[f->symbol])
        m->jump_of[f->symbol] = ++m->jump_count;
    uint64_t at = m->jumps + (m->jump_of[f->symbol] - 1) * (uint64_t)CT_OBJECT_JUMP;
    memcpy(m->bytes + at, code, sizeof code);
    memcpy(m->bytes + at + sizeof code, &f->value, sizeof f->value);
    return m->address + at;
}

int ct_object_fix(struct ct_object_image *m, const struct ct_object_fix *f) {
    uint64_t value = f->value + (uint64_t)f->addend;
    switch (f->type) {
    case R_X86_64_NONE:
        return 0;
    case R_X86_64_64:
        return put(m, f, value, 8);
    case R_X86_64_PC64:
        return put(m, f, value - (m->address + f->at), 8);
    case R_X86_64_32:
        return value == (uint32_t)value ? put(m, f, value, 4) : CT_ERR_OUT_OF_RANGE;
    case R_X86_64_32S:
        return (int64_t)value == (int32_t)value ? put(m, f, value, 4) : CT_ERR_OUT_OF_RANGE;
    case R_X86_64_PC32:
        return put_relative(m, f, f->value);
    case R_X86_64_PLT32:
        return put_relative(m, f, f->value) ? put_relative(m, f, jump_for(m, f)) : 0;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
        return put_relative(m, f, word_for(m, f));
    default:
        return CT_ERR_UNSUPPORTED;
    }
}

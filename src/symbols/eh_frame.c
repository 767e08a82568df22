/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over .eh_frame: CIEs, and FDEs with their ranges and entry state.
 *
 * Numbers in the file are never trusted: records are cut to the section, an FDE must refer to a CIE that the walk has
 * already passed (so work is linear in the size of the section), and a record with a pointer encoding that only makes
 * sense at run time is left out. */
#include "symbols/eh_frame.h"
#include "base/grow.h"
#include "symbols/cfa.h"
#include "symbols/functions.h"
#include <contrail/status.h>
#include <dwarf.h>
#include <stdlib.h>

struct ct_cie {
    size_t place;
    bool usable, augmented, signal_frame;
    struct ct_cfa_rules rules;
    struct ct_personality personality;
    struct ct_reader code; /* its own instructions */
};

/* One length-prefixed record. */
struct record {
    size_t place; /* of the length field */
    size_t id_place;
    uint32_t id; /* 0: CIE, else distance back from id_place to the CIE */
    struct ct_reader body;
};

/* ---- finding the section ---- */

static uint64_t read_encoded(struct ct_reader *r, uint8_t encoding, const struct ct_span *in, bool *ok);

/* Finds .eh_frame through PT_GNU_EH_FRAME, in files without section headers. */
static bool find_by_header(struct ct_eh_frame *frame, const struct ct_elf *elf) {
    Elf64_Phdr segment;
    if (!ct_elf_segment_of_type(elf, PT_GNU_EH_FRAME, &segment))
        return false;
    struct ct_span header = ct_elf_segment_bytes(elf, &segment);
    struct ct_reader r = ct_reader_of(header.data, header.size);
    bool ok = ct_reader_u8(&r) == 1;
    uint8_t encoding = ct_reader_u8(&r);
    ct_reader_skip(&r, 2);
    uint64_t address = read_encoded(&r, encoding, &header, &ok);
    if (r.bad || !ok)
        return false;
    frame->bytes = ct_elf_at(elf, address);
    frame->ends_at_zero = true;
    return frame->bytes.size != 0;
}

int ct_eh_frame_open(struct ct_eh_frame *frame, const struct ct_elf *elf) {
    struct ct_elf_section section;
    *frame = (struct ct_eh_frame){.elf = elf, .machine = elf->machine};
    if (ct_elf_section_named(elf, ".eh_frame", &section) && section.bytes.size)
        frame->bytes = section.bytes;
    else if (!find_by_header(frame, elf))
        return CT_ERR_NOT_FOUND;
    if (frame->bytes.size > UINT32_MAX)
        frame->bytes.size = UINT32_MAX;
    return 0;
}

void ct_eh_frame_close(struct ct_eh_frame *frame) {
    free(frame->cies);
    frame->cies = NULL;
}

/* ---- encoded pointers ---- */

static uint64_t read_format(struct ct_reader *r, uint8_t encoding, bool *ok) {
    switch (encoding & 0x0f) {
    case DW_EH_PE_absptr:
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8:
        return ct_reader_u64(r);
    case DW_EH_PE_uleb128:
        return ct_reader_uleb(r);
    case DW_EH_PE_sleb128:
        return (uint64_t)ct_reader_sleb(r);
    case DW_EH_PE_udata2:
        return ct_reader_u16(r);
    case DW_EH_PE_sdata2:
        return (uint64_t)(int16_t)ct_reader_u16(r);
    case DW_EH_PE_udata4:
        return ct_reader_u32(r);
    case DW_EH_PE_sdata4:
        return (uint64_t)(int32_t)ct_reader_u32(r);
    default:
        *ok = false;
        return 0;
    }
}

/* Reads absolute and self-relative pointers. Compilers for our machines do not write pointers relative to text, data or
 * function. */
static uint64_t read_encoded(struct ct_reader *r, uint8_t encoding, const struct ct_span *in, bool *ok) {
    uint64_t here = in->address + (size_t)(r->at - in->data);
    uint64_t value = read_format(r, encoding, ok);
    switch (encoding & 0x70) {
    case 0:
        return value;
    case DW_EH_PE_pcrel:
        return value ? here + value : 0;
    default:
        *ok = false;
        return 0;
    }
}

/* ---- CIE ---- */

static bool read_augmentation(const struct ct_eh_frame *frame, struct ct_cie *cie, const char *letters,
                              struct ct_reader *data) {
    bool ok = true;
    for (; *letters && ok; letters++) {
        switch (*letters) {
        case 'R':
            cie->rules.encoding = ct_reader_u8(data);
            break;
        case 'P': {
            uint8_t encoding = ct_reader_u8(data);
            cie->personality.offset = read_encoded(data, encoding, &frame->bytes, &ok);
            cie->personality.indirect = encoding & DW_EH_PE_indirect;
            break;
        }
        case 'L':
            ct_reader_u8(data);
            break;
        case 'S':
            cie->signal_frame = true;
            break;
        case 'B': /* arm64: return addresses are signed with the other key; no data */
            break;
        default:
            ok = false;
        }
    }
    return ok && !data->bad;
}

/* Reads the part after the augmentation string. */
static bool read_cie_body(const struct ct_eh_frame *frame, struct ct_cie *cie, const char *letters, uint8_t version,
                          struct ct_reader *r) {
    struct ct_cfa_rules *rules = &cie->rules;
    if (version == 4 && (ct_reader_u8(r) != 8 || ct_reader_u8(r) != 0)) /* address size, segment selector size */
        return false;
    rules->code_align = ct_reader_uleb(r);
    rules->data_align = (uint64_t)ct_reader_sleb(r);
    rules->ra_register = version == 1 ? ct_reader_u8(r) : ct_reader_uleb(r);
    if (*letters == 'z') {
        cie->augmented = true;
        uint64_t size = ct_reader_uleb(r);
        if (size > ct_reader_left(r))
            return false;
        struct ct_reader data = ct_reader_of(r->at, size);
        ct_reader_skip(r, size);
        if (!read_augmentation(frame, cie, letters + 1, &data))
            return false;
    } else if (*letters) {
        return false;
    }
    if (r->bad)
        return false;
    cie->code = *r;
    ct_cfa_run(rules, *r, UINT64_MAX, &rules->initial);
    return true;
}

static bool read_cie(const struct ct_eh_frame *frame, const struct record *record, struct ct_cie *cie) {
    struct ct_reader r = record->body;
    *cie = (struct ct_cie){.place = record->place, .rules = {.machine = frame->machine, .encoding = DW_EH_PE_absptr}};
    uint8_t version = ct_reader_u8(&r);
    const char *letters = (const char *)r.at;
    const uint8_t *zero = ct_reader_left(&r) ? memchr(r.at, 0, ct_reader_left(&r)) : NULL;
    if (!zero || (version != 1 && version != 3 && version != 4))
        return false;
    r.at = zero + 1;
    return read_cie_body(frame, cie, letters, version, &r);
}

static int add_cie(struct ct_eh_frame *frame, const struct record *record) {
    if (!ct_grow(&frame->cies, &frame->cie_capacity, frame->cie_count, sizeof *frame->cies, 16))
        return CT_ERR_NO_MEMORY;
    struct ct_cie *cie = &frame->cies[frame->cie_count++];
    bool usable = read_cie(frame, record, cie); /* writes all of *cie */
    cie->usable = usable;
    return 0;
}

static const struct ct_cie *find_cie(const struct ct_eh_frame *frame, const struct record *record) {
    if (record->id > record->id_place)
        return NULL;
    size_t place = record->id_place - record->id;
    size_t low = 0, high = frame->cie_count;
    /* Nearly always the newest. */
    if (high && frame->cies[high - 1].place == place)
        low = high - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (frame->cies[middle].place == place)
            return frame->cies[middle].usable ? &frame->cies[middle] : NULL;
        if (frame->cies[middle].place < place)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- FDE ---- */

/* Leaves `r` at the instructions. */
static bool read_fde(const struct ct_eh_frame *frame, const struct ct_cie *cie, struct ct_reader *r,
                     struct ct_fde *fde) {
    bool ok = true;
    uint8_t encoding = cie->rules.encoding;
    fde->start = read_encoded(r, encoding, &frame->bytes, &ok);
    fde->size = read_format(r, encoding, &ok);
    if (cie->augmented)
        ct_reader_skip(r, ct_reader_uleb(r));
    return ok && !r->bad && !(encoding & DW_EH_PE_indirect) && fde->size && fde->start + fde->size > fde->start;
}

static uint32_t flags_at(const struct ct_cie *cie, struct ct_reader instructions, uint64_t offset) {
    struct ct_cfa_row row = cie->rules.initial;
    ct_cfa_run(&cie->rules, instructions, offset, &row);
    return ct_cfa_entry_flags(&cie->rules, &row) | (cie->signal_frame ? CT_FUNC_ODD_ENTRY : 0u);
}

/* A cold part whose first code is a landing pad begins with a nop (0 means "none" in the tables of exceptions). At the
 * nop the CFA is that of an entry, after it that of the middle of a function. Exceptions land after it. On arm64
 * glibc's resolver of lazy bindings begins like that too. */
static bool begins_with_landing_pad(const struct ct_eh_frame *frame, const struct ct_cie *cie,
                                    const struct record *record, const struct ct_fde *fde) {
    struct ct_span code = ct_elf_at(frame->elf, fde->start);
    const struct ct_machine *machine = frame->machine;
    return code.size >= machine->nop_size && !memcmp(code.data, machine->nop, machine->nop_size) &&
           (flags_at(cie, record->body, machine->nop_size) & CT_FUNC_ODD_ENTRY);
}

/* Reads the record at `place`; false at the end. */
static bool read_record(const struct ct_eh_frame *frame, size_t *place, struct record *record) {
    const uint8_t *data = frame->bytes.data;
    for (;;) {
        struct ct_reader r = ct_reader_of(data + *place, frame->bytes.size - *place);
        if (ct_reader_left(&r) < 4)
            return false;
        record->place = *place;
        uint64_t length = ct_reader_u32(&r);
        if (length == 0xffffffff)
            length = ct_reader_u64(&r);
        if (length > ct_reader_left(&r))
            return false;
        *place = (size_t)(r.at - data) + length;
        if (length >= 4) {
            record->id_place = (size_t)(r.at - data);
            record->body = ct_reader_of(r.at, length);
            record->id = ct_reader_u32(&record->body);
            return true;
        }
        if (length == 0 && frame->ends_at_zero)
            return false;
    }
}

int ct_eh_frame_each(struct ct_eh_frame *frame, int (*each)(void *arg, const struct ct_fde *fde), void *arg) {
    struct record record;
    size_t place = 0;
    int result = 0;
    while (!result && read_record(frame, &place, &record)) {
        if (record.id == 0) {
            result = add_cie(frame, &record);
            continue;
        }
        const struct ct_cie *cie = find_cie(frame, &record);
        struct ct_fde fde = {.place = (uint32_t)record.place, .flags = CT_FUNC_FDE};
        if (!cie || !read_fde(frame, cie, &record.body, &fde))
            continue;
        fde.flags |= flags_at(cie, record.body, 0);
        if (begins_with_landing_pad(frame, cie, &record, &fde))
            fde.flags |= CT_FUNC_ODD_ENTRY;
        result = each(arg, &fde);
    }
    return result;
}

uint32_t ct_eh_frame_flags_at(const struct ct_eh_frame *frame, uint32_t place, uint64_t offset) {
    struct record record;
    struct ct_fde fde;
    size_t at = place;
    if (!read_record(frame, &at, &record) || record.id == 0)
        return CT_FUNC_ODD_ENTRY;
    const struct ct_cie *cie = find_cie(frame, &record);
    if (!cie || !read_fde(frame, cie, &record.body, &fde))
        return CT_FUNC_ODD_ENTRY;
    return flags_at(cie, record.body, offset);
}

bool ct_eh_frame_code_at(const struct ct_eh_frame *frame, uint32_t place, struct ct_fde_code *out) {
    struct record record;
    size_t at = place;
    if (!read_record(frame, &at, &record) || record.id == 0)
        return false;
    const struct ct_cie *cie = find_cie(frame, &record);
    if (!cie || !read_fde(frame, cie, &record.body, &out->fde))
        return false;
    out->rules = &cie->rules;
    out->initial = cie->code;
    out->code = record.body;
    out->signal_frame = cie->signal_frame;
    return true;
}

bool ct_eh_frame_personality(const struct ct_eh_frame *frame, size_t i, struct ct_personality *out) {
    if (i >= frame->cie_count)
        return false;
    *out = frame->cies[i].usable ? frame->cies[i].personality : (struct ct_personality){0};
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Texts and structures that arguments point to, captured at the call, and floating-point arguments and results. See
 * agent_values.h and struct ct_shm_piece of abi/shm_abi.h.
 *
 * The memory may be unmapped at any moment, so the kernel reads it for us. A record is reserved first, with room for
 * all texts, and the kernel copies into it: no buffer is needed on the program's stack. A signal handler may come at
 * any instruction: the record counts once its check word is there. */
#include "agent/agent_values.h"
#include "agent/agent_detail.h"
#include "hook/frame.h"
#include "os/os.h"

#define LOWEST 65536u /* no program has memory below (vm.mmap_min_addr) */

static bool may_point(const struct ct_block *b, uint64_t value, uint64_t slot) {
    uint64_t in_stack = value - slot;
    return value >= LOWEST && value < ct_os_address_limit() && in_stack >= b->stack_bytes;
}

/* Texts have no control characters but those of lines, and at least one character. Other bytes may be UTF-8. */
static bool is_text(const uint8_t *bytes, uint32_t size) {
    for (uint32_t i = 0; i < size; i++) {
        uint8_t c = bytes[i];
        if (!c)
            return i > 0;
        if (c == 0x7f || (c < 0x20 && (c < '\t' || c > '\r')))
            return false;
    }
    return size > 0;
}

/* Bytes up to the end of the text, which counts. */
static uint32_t length_of(const uint8_t *bytes, uint32_t size) {
    for (uint32_t i = 0; i < size; i++)
        if (!bytes[i])
            return i + 1;
    return size;
}

/* Fills a piece with the text at an address, or with whatever is there (CT_RULE_WHOLE). All bytes of its room are
 * written: nothing of an older record stays. */
static void fill_piece(struct ct_shm_piece *p, int pid, uint64_t address, uint32_t room, uint32_t rule) {
    uint8_t *bytes = (uint8_t *)(p + 1);
    uint32_t size = (uint32_t)ct_os_peek_some(pid, address, bytes, room);
    size = size > room ? room : rule & CT_RULE_WHOLE ? size : length_of(bytes, size);
    if (rule & CT_RULE_IF_PRINTABLE && !is_text(bytes, size))
        size = 0;
    for (uint32_t i = size; i < room; i++)
        bytes[i] = 0;
    p->address = address;
    p->size = (uint16_t)size;
    p->room = (uint16_t)room;
    p->reserved = 0;
}

/* Like the stubs do it. */
static void publish(struct ct_block *b, struct ct_shm_detail *r, const struct ct_detail_note *note, uint32_t size) {
    uint32_t tag = (note->tag & ~(uint32_t)CT_TAG_KIND) | CT_EVENT_VALUES, hook = CT_VALUES_HOOK(note->hook, size);
    r->stamp = note->stamp;
    r->tag = tag;
    r->hook = hook;
    __atomic_store_n(&r->check,
                     note->stamp * (uint64_t)(int64_t)CT_DETAIL_MIX ^ ((uint64_t)hook << 32 | tag) ^ b->detail_key,
                     __ATOMIC_RELEASE);
}

static uint32_t least(uint32_t size) {
    return size < CT_DETAIL_RETURN_SIZE ? CT_DETAIL_RETURN_SIZE : size;
}

/* Arguments that may point to texts, as bits. */
static uint32_t wanted_texts(const struct ct_block *b, uint32_t rule, uint64_t slot, struct ct_special_frame *frame,
                             uint32_t *count) {
    uint32_t mask = rule >> CT_RULE_TEXTS & 0x3f, wanted = 0;
    for (uint32_t i = 0; i < CT_TRIGGER_ARGUMENTS; i++)
        if (mask & 1u << i && may_point(b, *ct_frame_argument(slot, frame, i), slot)) {
            wanted |= 1u << i;
            ++*count;
        }
    return wanted;
}

/* Returns the end of the piece. */
static uint64_t put_reals(uint64_t place, uint32_t size, bool returned) {
    struct ct_shm_piece *p = (struct ct_shm_piece *)place;
    ct_frame_store_reals((uint64_t *)(p + 1), returned);
    p->address = CT_PIECE_REALS;
    p->size = p->room = (uint16_t)size;
    p->reserved = 0;
    return place + sizeof *p + size;
}

void ct_agent_values_capture(struct ct_block *b, const struct ct_detail_note *note, uint64_t slot,
                             struct ct_special_frame *frame, uint32_t room) {
    bool returned = (note->tag & CT_TAG_KIND) == CT_EVENT_RETURN;
    uint32_t rule = b->rules[note->hook], count = 0, piece = (uint32_t)sizeof(struct ct_shm_piece) + room;
    uint32_t texts = room && !returned ? wanted_texts(b, rule, slot, frame, &count) : 0;
    uint32_t reals = rule & CT_RULE_REALS ? 8 * (returned ? CT_REALS_AT_RETURN : CT_REALS_AT_CALL) : 0;
    uint32_t used = CT_VALUES_HEAD + count * piece + (reals ? (uint32_t)sizeof(struct ct_shm_piece) + reals : 0);
    uint32_t size = least(used);
    if ((!count && !reals) || note->hook >= CT_VALUES_HOOKS || size > CT_VALUES_MOST)
        return;
    uint64_t at = ct_agent_detail_room(b, size), place = at + CT_VALUES_HEAD;
    if (!at)
        return;
    if (reals)
        place = put_reals(place, reals, returned);
    for (; texts; texts &= texts - 1, place += piece)
        fill_piece((struct ct_shm_piece *)place, b->pid,
                   *ct_frame_argument(slot, frame, (unsigned)__builtin_ctz(texts)), room, rule);
    for (uint32_t i = used; i < size; i += 8)
        *(uint64_t *)(at + i) = 0;
    publish(b, (struct ct_shm_detail *)at, note, size);
}

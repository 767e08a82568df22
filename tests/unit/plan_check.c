/* SPDX-License-Identifier: Apache-2.0 */
/* The judge of plan_check.h: reads stubs, patches and what is left of functions back, with Zydis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <Zydis/Zydis.h>

#include "plan_check.h"

/* ---- reading instructions ---- */

struct insn {
    ZydisDecodedInstruction i;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    uint64_t at, next;
    const uint8_t *bytes;
};

static bool decode(const uint8_t *bytes, size_t size, uint64_t address, struct insn *insn) {
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    insn->at = address;
    insn->bytes = bytes;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, size, &insn->i, insn->operands)))
        return false;
    insn->next = address + insn->i.length;
    return true;
}

static struct insn decode_patched(const struct subject *s, uint64_t address) {
    size_t available;
    struct insn insn = {0};
    const uint8_t *bytes = subject_bytes(s, address, &available);
    if (!bytes || !decode(bytes, available, address, &insn))
        fail_msg("no instruction at %#llx", (unsigned long long)address);
    return insn;
}

static bool decode_original(const struct subject *s, uint64_t address, uint64_t end, struct insn *insn) {
    size_t at = (size_t)(address - TEXT_BASE);
    return decode(s->original + at, (size_t)(end - address), address, insn);
}

static uint64_t operand_address(const struct insn *insn, unsigned operand) {
    ZyanU64 address = 0;
    assert_true(ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&insn->i, &insn->operands[operand], insn->at, &address)));
    return address;
}

static bool is_relative_branch(const struct insn *insn) {
    return insn->i.raw.imm[0].is_relative;
}

static uint64_t target_of(const struct insn *insn) {
    return operand_address(insn, 0);
}

static int rip_operand(const struct insn *insn) {
    for (int i = 0; i < insn->i.operand_count; i++)
        if (insn->operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY && insn->operands[i].mem.base == ZYDIS_REGISTER_RIP)
            return i;
    return -1;
}

static bool falls_through(const struct insn *insn) {
    switch (insn->i.meta.category) {
    case ZYDIS_CATEGORY_UNCOND_BR:
    case ZYDIS_CATEGORY_RET:
    case ZYDIS_CATEGORY_CALL: /* it comes back, but as an arrival of its own */
        return false;
    default:
        return insn->i.mnemonic != ZYDIS_MNEMONIC_UD2;
    }
}

const uint8_t *subject_bytes(const struct subject *s, uint64_t address, size_t *available) {
    if (address - TEXT_BASE < TEXT_SIZE) {
        *available = (size_t)(TEXT_BASE + TEXT_SIZE - address);
        return s->patched + (address - TEXT_BASE);
    }
    if (address - STUBS_BASE < s->stubs_used) {
        *available = (size_t)(STUBS_BASE + s->stubs_used - address);
        return s->stubs + (address - STUBS_BASE);
    }
    *available = 0;
    return NULL;
}

uint64_t subject_follow(const struct subject *s, uint64_t address) {
    for (int i = 0; i < 16; i++) {
        size_t available;
        struct insn insn;
        const uint8_t *bytes = subject_bytes(s, address, &available);
        if (address - TEXT_BASE >= TEXT_SIZE || !decode(bytes, available, address, &insn))
            return address;
        if (insn.i.mnemonic == ZYDIS_MNEMONIC_JMP && is_relative_branch(&insn))
            address = target_of(&insn);
        else if (insn.i.mnemonic == ZYDIS_MNEMONIC_ENDBR64 || insn.i.mnemonic == ZYDIS_MNEMONIC_NOP)
            address = insn.next;
        else
            return address;
    }
    fail_msg("jumps go round in circles");
    return 0;
}

bool subject_is_taken(const struct subject *s, uint64_t from, uint64_t to) {
    for (uint64_t at = from; at < to; at++)
        if (ct_scan_bit(&s->scan, s->scan.taken, at))
            return true;
    return false;
}

bool subject_has_guest(const struct subject *s, size_t index) {
    for (size_t i = 0; i < s->scan.func_count; i++)
        if (s->hooks[i].planned && s->hooks[i].plan.host == s->funcs[index].start)
            return true;
    return false;
}

/* ---- one plan: the stub ---- */

static struct insn expect(const struct subject *s, uint64_t at, ZydisMnemonic mnemonic, uint64_t target) {
    struct insn insn = decode_patched(s, at);
    assert_int_equal(insn.i.mnemonic, mnemonic);
    assert_int_equal(target_of(&insn), target);
    return insn;
}

static uint64_t expected_enter(const struct subject *s, const struct ct_plan_request *r) {
    if (r->action == CT_ACTION_LISTEN)
        return s->shared.enter_listen;
    if (r->special || r->action == CT_ACTION_NONE)
        return s->shared.enter_special;
    return r->entry_only ? s->shared.enter_entry : s->shared.enter_record;
}

static void expect_word(const struct hooked *h, uint64_t word, ZydisMnemonic mnemonic, uint64_t target) {
    struct insn first, second;
    uint8_t bytes[8];
    memcpy(bytes, &word, 8);
    assert_true(decode(bytes, 8, h->plan.stub, &first));
    assert_int_equal(first.i.mnemonic, mnemonic);
    assert_int_equal(first.i.length, 5);
    assert_int_equal(target_of(&first), target);
    assert_true(decode(bytes + 5, 3, first.next, &second));
    assert_int_equal(second.i.mnemonic, ZYDIS_MNEMONIC_NOP);
    assert_int_equal(second.i.length, 3);
}

static void check_head(const struct subject *s, const struct hooked *h) {
    const struct ct_plan_request *r = &h->request;
    uint64_t stub = h->plan.stub, first = stub + CT_STUB_BODY, now;
    size_t available;
    assert_int_equal(stub % 8, 0);
    memcpy(&now, subject_bytes(s, stub, &available), 8);
    assert_int_equal(now, h->plan.word_on);
    if (r->action == CT_ACTION_REPLACE || r->action == CT_ACTION_PASS)
        expect_word(h, h->plan.word_on, ZYDIS_MNEMONIC_JMP, first);
    else
        expect_word(h, h->plan.word_on, ZYDIS_MNEMONIC_CALL, expected_enter(s, r));
    /* a detour of the engine's own stays when the user's hook is off */
    expect_word(h, h->plan.word_off, ZYDIS_MNEMONIC_JMP,
                r->detour && r->action != CT_ACTION_REPLACE ? first : h->plan.body);
    bool call = !r->entry_only && !r->detour;
    struct insn body = expect(s, stub + CT_STUB_CALL_BODY, call ? ZYDIS_MNEMONIC_CALL : ZYDIS_MNEMONIC_JMP, first);
    assert_int_equal(body.next, stub + CT_STUB_RESUME);
    struct insn leave =
        expect(s, stub + CT_STUB_RESUME, ZYDIS_MNEMONIC_JMP,
               r->action == CT_ACTION_LISTEN || r->special ? s->shared.leave_listen : s->shared.leave_record);
    assert_true(leave.next <= stub + CT_STUB_NUMBER);
    uint32_t number;
    memcpy(&number, subject_bytes(s, stub + CT_STUB_NUMBER, &available), 4);
    assert_int_equal(number, r->number);
    if (r->detour)
        assert_int_equal(expect(s, first, ZYDIS_MNEMONIC_JMP, r->detour).next, h->plan.body);
    else
        assert_int_equal(h->plan.body, first);
}

/* ---- where control arrives ---- */

/* A loop to the entry that was redirected: the same instruction with another target. */
static bool is_branch_patch(const struct hooked *h, const struct ct_patch *p) {
    return p->at != h->plan.place && p->at >= h->request.function && p->at < h->request.end;
}

/* Where does a branch to this place lead now? Entries of hooked functions to the stub, everything else to the same
 * instruction as ever. */
static void check_arrival(const struct subject *s, uint64_t target, const char *what) {
    if (target - TEXT_BASE >= TEXT_SIZE)
        return;
    for (size_t i = 0; i < s->scan.func_count; i++)
        if (s->hooks[i].planned && (target == s->hooks[i].request.function || target == s->hooks[i].plan.place)) {
            assert_int_equal(subject_follow(s, target), s->hooks[i].plan.stub);
            return;
        }
    for (size_t i = 0; i < s->scan.func_count; i++)
        for (unsigned k = 0; s->hooks[i].planned && k < s->hooks[i].plan.patch_count; k++) {
            const struct ct_patch *p = &s->hooks[i].plan.patches[k];
            if (target >= p->at && target < p->at + p->size && !(is_branch_patch(&s->hooks[i], p) && target == p->at))
                fail_msg("%s %#llx is under a patch", what, (unsigned long long)target);
        }
}

/* ---- one plan: the body ---- */

/* Bytes of the function from `place` that the body stands for, and where each instruction is in it. */
struct copy {
    size_t covered;
    unsigned count;
    uint16_t from[512], to[512];
};

static int copy_index(const struct copy *c, uint64_t offset) {
    for (unsigned i = 0; i < c->count; i++)
        if (c->from[i] == offset)
            return (int)i;
    return -1;
}

static void read_copy(const struct hooked *h, struct copy *c) {
    const struct ct_plan *p = &h->plan;
    c->count = p->whole ? p->whole->count : p->move_count;
    for (unsigned i = 0; i < c->count; i++) {
        c->from[i] = p->whole ? p->whole->at[i].from : p->move_from[i];
        c->to[i] = p->whole ? p->whole->at[i].to : p->move_to[i];
    }
}

/* A branch of the body goes where the original goes; inside the copy it stays inside. */
static void check_target(const struct subject *s, const struct hooked *h, const struct copy *c, uint64_t original,
                         uint64_t moved) {
    int inside = copy_index(c, original - h->plan.place);
    uint64_t wanted = inside >= 0 ? h->plan.body + c->to[inside] : original;
    if (moved != wanted)
        fail_msg("a branch of the body goes to %#llx, not %#llx", (unsigned long long)moved,
                 (unsigned long long)wanted);
    if (inside < 0)
        check_arrival(s, original, "the target of a moved branch");
}

/* push <return address>; jmp target. Of calls through memory and registers only the pushed address is looked for. */
static void check_moved_call(const struct subject *s, const struct insn *original, uint64_t at) {
    struct insn push = decode_patched(s, at), jump = decode_patched(s, push.next);
    assert_int_equal(push.i.mnemonic, ZYDIS_MNEMONIC_PUSH);
    assert_true(rip_operand(&push) >= 0);
    size_t available;
    uint64_t value;
    memcpy(&value, subject_bytes(s, operand_address(&push, (unsigned)rip_operand(&push)), &available), 8);
    assert_int_equal(value, original->next);
    check_arrival(s, value, "where a moved call returns to");
    assert_int_equal(jump.i.mnemonic, ZYDIS_MNEMONIC_JMP);
    if (is_relative_branch(original))
        assert_int_equal(target_of(&jump), target_of(original));
}

static void check_moved(const struct subject *s, const struct hooked *h, const struct copy *c,
                        const struct insn *original, uint64_t at) {
    if (original->i.meta.category == ZYDIS_CATEGORY_CALL) {
        check_moved_call(s, original, at);
        return;
    }
    struct insn moved = decode_patched(s, at);
    assert_int_equal(moved.i.mnemonic, original->i.mnemonic);
    int rip = rip_operand(original);
    if (rip >= 0) {
        assert_int_equal(operand_address(&moved, (unsigned)rip), operand_address(original, (unsigned)rip));
    } else if (is_relative_branch(original)) {
        uint64_t target = target_of(&moved);
        if (target == moved.next + 2) { /* loop, jrcxz: over a short jump to one that reaches */
            struct insn island = decode_patched(s, target);
            assert_int_equal(island.i.mnemonic, ZYDIS_MNEMONIC_JMP);
            target = target_of(&island);
        }
        check_target(s, h, c, target_of(original), target);
    } else {
        assert_int_equal(moved.i.length, original->i.length);
        assert_memory_equal(moved.bytes, original->bytes, moved.i.length);
    }
}

static void check_body(const struct subject *s, const struct hooked *h, struct copy *c) {
    const struct ct_plan *p = &h->plan;
    uint64_t at = p->place, size = 0;
    for (unsigned i = 0; i < p->patch_count; i++)
        if (p->patches[i].at == p->place)
            size = p->patches[i].size;
    size = p->room > size ? p->room : size;
    uint64_t wanted = p->whole || p->place + size > h->request.end ? h->request.end : p->place + size;
    struct insn insn;
    read_copy(h, c);
    for (unsigned i = 0; at < wanted; i++, at = insn.next) {
        assert_true(i < c->count);
        assert_int_equal(c->from[i], at - p->place);
        assert_true(decode_original(s, at, h->request.end, &insn));
        check_moved(s, h, c, &insn, p->body + c->to[i]);
        if (insn.next >= wanted)
            assert_int_equal(i + 1, c->count);
    }
    c->covered = (size_t)(at - p->place);
    assert_true(c->count > 0);
    if (!falls_through(&insn))
        return;
    /* after the last instruction: back to the function */
    struct insn last = decode_patched(s, p->body + c->to[c->count - 1]);
    uint64_t back = last.next;
    if (is_relative_branch(&last) && target_of(&last) == last.next + 2) { /* an island comes first */
        struct insn over = decode_patched(s, back);
        back = target_of(&over);
    }
    expect(s, back, ZYDIS_MNEMONIC_JMP, at);
    check_arrival(s, at, "where the body goes back to");
}

/* ---- one plan: the patches ---- */

static bool in_a_function(const struct subject *s, uint64_t from, uint64_t to) {
    for (size_t i = 0; i < s->scan.func_count; i++)
        if (from < s->funcs[i].end && to > s->funcs[i].start)
            return true;
    return false;
}

/* The bytes of a hooked function that run elsewhere, after the jump at its entry. */
static bool in_room(const struct subject *s, uint64_t host, uint64_t from, uint64_t to) {
    for (size_t i = 0; i < s->scan.func_count; i++) {
        const struct ct_plan *p = &s->hooks[i].plan;
        if (s->hooks[i].planned && p->function == host)
            return from >= p->place + 5 && to <= p->place + p->room;
    }
    return false;
}

static void check_patches(const struct subject *s, const struct hooked *h) {
    const struct ct_plan *p = &h->plan;
    const struct ct_plan_request *r = &h->request;
    assert_in_range(p->patch_count, 1, CT_PATCHES_MAX);
    for (unsigned i = 0; i < p->patch_count; i++) {
        const struct ct_patch *patch = &p->patches[i];
        assert_in_range(patch->size, 1, CT_PATCH_MAX);
        assert_memory_equal(patch->original, s->original + (patch->at - TEXT_BASE), patch->size);
        uint64_t end = patch->at + patch->size;
        bool inside = patch->at >= r->function && patch->at < r->end;
        uint64_t foreign = inside && end > r->end ? r->end : inside ? end : patch->at;
        if (foreign == end)
            continue;
        /* Bytes outside the function are nobody's, or free in their host, and marked. */
        assert_true(in_room(s, p->host, foreign, end) || !in_a_function(s, foreign, end));
        for (uint64_t at = foreign; at < end; at++)
            assert_false(ct_scan_bit(&s->scan, s->scan.landing, at) || ct_scan_bit(&s->scan, s->scan.referenced, at));
        if (patch->at != p->place)
            assert_int_equal(patch->forward, subject_follow(s, patch->at));
    }
}

/* Every address of the function: a thread there is moved to the same instruction of the body, if the patch or, when
 * all of it moves, the copy, is in his way. */
static void check_moves(const struct hooked *h, const struct copy *c) {
    const struct ct_plan *p = &h->plan;
    uint64_t patch_end = p->place;
    for (unsigned i = 0; i < p->patch_count; i++)
        if (p->patches[i].at == p->place)
            patch_end += p->patches[i].size;
    patch_end = p->room > patch_end - p->place ? p->place + p->room : patch_end;
    for (uint64_t pc = h->request.function - 8; pc < h->request.end + 8; pc++) {
        int index = copy_index(c, pc - p->place);
        bool moves = index >= 0 && pc >= p->place && (p->whole || pc < patch_end);
        uint64_t wanted = moves ? p->body + c->to[index] : 0;
        assert_int_equal(ct_plan_moved(p, pc, true), wanted);
        assert_int_equal(ct_plan_moved(p, pc, false), pc == p->place ? 0 : wanted);
    }
}

static void apply(struct subject *s, const struct ct_plan *p) {
    for (unsigned i = 0; i < p->patch_count; i++)
        memcpy(s->patched + (p->patches[i].at - TEXT_BASE), p->patches[i].bytes, p->patches[i].size);
}

enum ct_hook_skip_reason subject_plan_as(struct subject *s, size_t index, const struct ct_plan_request *request) {
    struct hooked *h = &s->hooks[index];
    size_t at = (s->stubs_used + 7) & ~(size_t)7;
    struct ct_code_buf out = {.bytes = s->stubs + at, .capacity = CT_STUB_MAX, .address = STUBS_BASE + at};
    assert_true(at + CT_STUB_MAX <= STUBS_SIZE && !h->planned);
    h->request = *request;
    enum ct_hook_skip_reason reason = ct_plan_hook(request, &out, &h->plan);
    if (reason) {
        assert_int_equal(out.length, 0);
        assert_int_equal(h->plan.patch_count, 0);
        assert_null(h->plan.whole);
        return reason;
    }
    assert_false(out.overflow);
    assert_int_equal(h->plan.function, request->function);
    assert_int_equal(h->plan.stub, out.address);
    h->stub_size = out.length;
    h->planned = true;
    s->stubs_used = at + out.length;
    apply(s, &h->plan);
    struct copy copy;
    check_head(s, h);
    check_body(s, h, &copy);
    check_patches(s, h);
    check_moves(h, &copy);
    assert_int_equal(subject_follow(s, request->function), h->plan.stub);
    return CT_HOOK_SKIP_NONE;
}

enum ct_hook_skip_reason subject_plan(struct subject *s, size_t index) {
    struct ct_plan_request request = subject_request(s, index);
    return subject_plan_as(s, index, &request);
}

void subject_revert(struct subject *s, size_t index) {
    struct hooked *h = &s->hooks[index];
    for (unsigned i = h->plan.patch_count; i-- > 0;) {
        const struct ct_patch *p = &h->plan.patches[i];
        memcpy(s->patched + (p->at - TEXT_BASE), p->original, p->size);
    }
    ct_plan_release(&h->request, &h->plan);
    assert_null(h->plan.whole);
    h->planned = false;
    for (unsigned i = 0; i < h->plan.patch_count; i++) {
        const struct ct_patch *p = &h->plan.patches[i];
        assert_memory_equal(s->patched + (p->at - TEXT_BASE), s->original + (p->at - TEXT_BASE), p->size);
        assert_false(subject_is_taken(s, p->at, p->at + p->size));
    }
}

/* ---- all plans together ---- */

static void check_no_overlap(const struct subject *s) {
    static uint8_t owner[TEXT_SIZE];
    memset(owner, 0, sizeof owner);
    for (size_t i = 0; i < s->scan.func_count; i++)
        for (unsigned k = 0; s->hooks[i].planned && k < s->hooks[i].plan.patch_count; k++) {
            const struct ct_patch *p = &s->hooks[i].plan.patches[k];
            for (unsigned b = 0; b < p->size; b++)
                assert_int_equal(owner[p->at - TEXT_BASE + b]++, 0);
        }
    for (size_t at = 0; at < TEXT_SIZE; at++)
        if (!owner[at])
            assert_int_equal(s->patched[at], s->original[at]);
}

/* What is left of a function: each instruction outside the patch is as it was, or is a loop to the entry that leads to
 * the body. */
static void check_rest(const struct subject *s, const struct hooked *h, uint64_t at, uint64_t end) {
    struct insn original = {0};
    original.i.meta.category = ZYDIS_CATEGORY_RET;
    for (; at < end && decode_original(s, at, end, &original); at = original.next) {
        struct insn now = decode_patched(s, at);
        assert_int_equal(now.i.mnemonic, original.i.mnemonic);
        assert_int_equal(now.i.length, original.i.length);
        bool relative = is_relative_branch(&original);
        uint64_t target = relative ? target_of(&original) : 0;
        bool entry = h && relative && (target == h->request.function || target == h->plan.place);
        if (entry && original.i.meta.category != ZYDIS_CATEGORY_CALL) {
            assert_int_equal(subject_follow(s, target_of(&now)), h->plan.body);
            continue;
        }
        assert_memory_equal(now.bytes, original.bytes, now.i.length);
        if (relative)
            check_arrival(s, target, "the target of a branch");
        if (original.i.meta.category == ZYDIS_CATEGORY_CALL)
            check_arrival(s, original.next, "where a call returns to");
        if (falls_through(&original))
            check_arrival(s, original.next, "the next instruction");
    }
    /* Who falls out of the function falls through nops into whatever comes next. */
    while (at == end && falls_through(&original) && decode_original(s, at, TEXT_BASE + TEXT_SIZE, &original) &&
           original.i.mnemonic == ZYDIS_MNEMONIC_NOP && !in_a_function(s, at, at + 1)) {
        assert_memory_equal(s->patched + (at - TEXT_BASE), original.bytes, original.i.length);
        at = end = original.next;
    }
}

void subject_check(struct subject *s) {
    check_no_overlap(s);
    for (size_t i = 0; i < s->scan.func_count; i++) {
        const struct hooked *h = &s->hooks[i];
        if (!h->planned) {
            check_rest(s, NULL, s->funcs[i].start, s->funcs[i].end);
            continue;
        }
        struct copy copy;
        check_head(s, h);
        check_body(s, h, &copy);
        check_patches(s, h);
        assert_int_equal(subject_follow(s, h->request.function), h->plan.stub);
        if (!h->plan.whole)
            check_rest(s, h, h->plan.place + copy.covered, h->request.end);
    }
}

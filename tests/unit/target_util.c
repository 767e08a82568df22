/* SPDX-License-Identifier: Apache-2.0 */
/* See target_util.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <Zydis/Zydis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "contrail/status.h"
#include "target_util.h"

/* ---- processes ---- */

static void open_target(struct target *t) {
    struct ct_remote_error error = {{0}};
    int status = ct_remote_open(&t->remote, t->pid, &error);
    if (status)
        fail_msg("%s: %s", ct_status_name(status), error.text);
}

void target_start(struct target *t, const char *path, const char *const *arguments) {
    int ends[2];
    char line[64];
    assert_int_equal(pipe(ends), 0);
    t->pid = fork();
    assert_true(t->pid >= 0);
    if (!t->pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execv(path, (char *const *)arguments);
        _exit(127);
    }
    close(ends[1]);
    ssize_t size = read(ends[0], line, sizeof line - 1);
    close(ends[0]);
    if (size < 5 || memcmp(line, "ready", 5))
        fail_msg("%s did not start", path);
    open_target(t);
}

void target_fork(struct target *t) {
    t->pid = fork();
    assert_true(t->pid >= 0);
    if (!t->pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    open_target(t);
}

void target_end(struct target *t) {
    if (t->remote)
        ct_remote_close(t->remote);
    kill(t->pid, SIGKILL);
    waitpid(t->pid, NULL, 0);
    *t = (struct target){0};
}

struct ct_target_plan *target_plan(const struct target *t, const struct ct_target_plan_options *options) {
    struct ct_target_plan *plan = NULL;
    struct ct_remote_error error = {{0}};
    int status = ct_target_plan_make(&plan, t->remote, options, &error);
    if (status)
        fail_msg("%s: %s", ct_status_name(status), error.text);
    assert_non_null(plan);
    return plan;
}

const struct ct_target_module *target_module(const struct ct_target_plan *plan, const char *name) {
    for (size_t i = 0; i < plan->module_count; i++) {
        size_t length = strlen(plan->modules[i].path), tail = strlen(name);
        if (length >= tail && !strcmp(plan->modules[i].path + length - tail, name))
            return &plan->modules[i];
    }
    fail_msg("no module %s", name);
    return NULL;
}

const struct ct_target_function *target_function(const struct ct_target_module *module, const char *name) {
    for (size_t i = 0; i < module->function_count; i++)
        if (!strcmp(module->functions[i].name, name))
            return &module->functions[i];
    return NULL;
}

const struct ct_target_hook *target_hook(const struct ct_target_plan *plan, const char *module, const char *function) {
    const struct ct_target_function *f = target_function(target_module(plan, module), function);
    if (!f)
        fail_msg("%s has no function %s", module, function);
    return f->hook < 0 ? NULL : &plan->hooks[f->hook];
}

/* ---- reading code ---- */

struct insn {
    ZydisDecodedInstruction i;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    uint64_t at;
};

static bool decode(const uint8_t *bytes, size_t size, uint64_t at, struct insn *insn) {
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    insn->at = at;
    return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, size, &insn->i, insn->operands));
}

/* The absolute address that an operand names, 0 when none does. */
static uint64_t named_address(const struct insn *insn) {
    for (int k = 0; k < insn->i.operand_count; k++) {
        const ZydisDecodedOperand *o = &insn->operands[k];
        bool relative = o->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && o->imm.is_relative;
        uint64_t address;
        if (!relative && !(o->type == ZYDIS_OPERAND_TYPE_MEMORY && o->mem.base == ZYDIS_REGISTER_RIP))
            continue;
        assert_true(ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&insn->i, o, insn->at, &address)));
        return address;
    }
    return 0;
}

static const uint8_t *region_bytes(const struct ct_target_plan *plan, uint64_t address, size_t *left) {
    for (size_t i = 0; i < plan->region_count; i++) {
        const struct ct_target_region *r = &plan->regions[i];
        if (address >= r->address && address < r->address + r->used) {
            *left = (size_t)(r->address + r->used - address);
            return r->bytes + (address - r->address);
        }
    }
    return NULL;
}

static struct insn stub_insn(const struct ct_target_plan *plan, uint64_t at) {
    struct insn insn = {0};
    size_t left = 0;
    const uint8_t *bytes = region_bytes(plan, at, &left);
    if (!bytes || !decode(bytes, left, at, &insn))
        fail_msg("no instruction in a stub at %llx", (unsigned long long)at);
    return insn;
}

static void expect(const struct ct_target_plan *plan, uint64_t at, ZydisMnemonic mnemonic, uint64_t to) {
    struct insn insn = stub_insn(plan, at);
    assert_int_equal(insn.i.mnemonic, mnemonic);
    assert_int_equal(named_address(&insn), to);
}

/* ---- one hook ---- */

static void check_head(const struct ct_target_plan *plan, size_t number) {
    const struct ct_target_hook *h = &plan->hooks[number];
    const struct ct_plan *p = &h->plan;
    struct ct_shared_code shared;
    size_t left;
    uint32_t written;
    const struct ct_target_region *r = plan->regions;
    while (p->stub < r->address || p->stub >= r->address + r->used)
        assert_true(++r < plan->regions + plan->region_count);
    ct_shared_code_at(&shared, r->address);
    uint64_t enter = h->special || h->action == CT_ACTION_NONE ? shared.enter_special
                     : h->entry_only                           ? shared.enter_entry
                                                               : shared.enter_record;
    assert_int_equal(p->stub % 8, 0);
    assert_int_equal(p->body, p->stub + CT_STUB_BODY);
    expect(plan, p->stub, ZYDIS_MNEMONIC_CALL, enter);
    expect(plan, p->stub + CT_STUB_CALL_BODY, h->entry_only ? ZYDIS_MNEMONIC_JMP : ZYDIS_MNEMONIC_CALL, p->body);
    bool walks = h->action == CT_ACTION_RECORD && (h->special == CT_SPECIAL_LOOK || h->special == CT_SPECIAL_TRACE);
    uint64_t leave = h->special && !walks ? shared.leave_listen : shared.leave_record;
    expect(plan, p->stub + CT_STUB_RESUME, ZYDIS_MNEMONIC_JMP, leave);
    memcpy(&written, region_bytes(plan, p->stub + CT_STUB_NUMBER, &left), 4);
    assert_int_equal(written, number);
    assert_memory_equal(region_bytes(plan, p->stub, &left), &p->word_on, 8);
}

static bool inside(const struct ct_target_module *m, uint64_t address) {
    return address >= m->start && address < m->end;
}

/* The body names addresses of its own module, or of itself, and goes back into the function or ends. */
static void check_body(const struct ct_target_plan *plan, const struct ct_target_hook *h,
                       const struct ct_target_module *m) {
    const struct ct_target_function *f = &m->functions[(uint32_t)h->function_id];
    uint64_t start = m->bias + f->offset, end = start + f->size, at = h->plan.body;
    for (int steps = 0;; steps++) {
        struct insn insn = stub_insn(plan, at);
        uint64_t address = named_address(&insn);
        assert_true(steps < 200);
        if (address && !inside(m, address) && !(address >= h->plan.body && address < h->plan.body + CT_STUB_MAX))
            fail_msg("%s: the body names %llx", f->name, (unsigned long long)address);
        if (insn.i.mnemonic == ZYDIS_MNEMONIC_JMP || insn.i.mnemonic == ZYDIS_MNEMONIC_RET ||
            insn.i.mnemonic == ZYDIS_MNEMONIC_UD2 || insn.i.mnemonic == ZYDIS_MNEMONIC_HLT) {
            if (insn.i.mnemonic == ZYDIS_MNEMONIC_JMP && address > h->plan.place && address <= end)
                return;
            if (!h->plan.whole)
                return;
            if (at + insn.i.length >= h->plan.body + h->plan.whole->at[h->plan.whole->count - 1].to)
                return;
        }
        at += insn.i.length;
    }
}

/* From the entry to the stub, over a springboard perhaps; all the others lead to the stub or the body. */
static void check_patches(const struct ct_target_hook *h, const struct ct_target_module *m) {
    const struct ct_target_function *f = &m->functions[(uint32_t)h->function_id];
    bool entry = false;
    assert_in_range(h->plan.patch_count, 1, CT_PATCHES_MAX);
    for (unsigned i = 0; i < h->plan.patch_count; i++) {
        const struct ct_patch *p = &h->plan.patches[i];
        struct insn insn;
        assert_in_range(p->size, 2, CT_PATCH_MAX);
        assert_true(inside(m, p->at) && inside(m, p->at + p->size - 1));
        assert_true(decode(p->bytes, p->size, p->at, &insn));
        uint64_t to = named_address(&insn);
        for (unsigned k = 0; to != h->plan.stub && to != h->plan.body && k < h->plan.patch_count; k++)
            if (h->plan.patches[k].at == to || h->plan.patches[k].at + CT_TWO_JUMPS / 2 == to) {
                assert_true(decode(h->plan.patches[k].bytes + (to - h->plan.patches[k].at), 5, to, &insn));
                to = named_address(&insn);
            }
        if (to != h->plan.stub && to != h->plan.body)
            fail_msg("%s: a patch leads to %llx", f->name, (unsigned long long)to);
        if (p->at == h->plan.place) {
            assert_int_equal(to, h->plan.stub);
            entry = true;
        }
        if (p->forward)
            assert_true(p->forward == h->plan.stub || p->forward == h->plan.body);
    }
    assert_true(entry);
    assert_true(h->plan.place == h->plan.function || h->plan.place == h->plan.function + 4);
}

/* ---- the whole plan ---- */

struct range {
    uint64_t start, end;
};

static int compare_ranges(const void *a, const void *b) {
    const struct range *left = a, *right = b;
    return left->start < right->start ? -1 : left->start > right->start;
}

static void check_disjoint(struct range *ranges, size_t count) {
    qsort(ranges, count, sizeof *ranges, compare_ranges);
    for (size_t i = 1; i < count; i++)
        if (ranges[i].start < ranges[i - 1].end)
            fail_msg("two things at %llx", (unsigned long long)ranges[i].start);
}

static void check_no_overlaps(const struct ct_target_plan *plan) {
    struct range *ranges = calloc(plan->hook_count * CT_PATCHES_MAX + 1, sizeof *ranges);
    size_t count = 0;
    assert_non_null(ranges);
    for (size_t i = 0; i < plan->hook_count; i++)
        for (unsigned k = 0; k < plan->hooks[i].plan.patch_count; k++) {
            const struct ct_patch *p = &plan->hooks[i].plan.patches[k];
            ranges[count++] = (struct range){p->at, p->at + p->size};
        }
    check_disjoint(ranges, count);
    for (size_t i = 0; i < plan->hook_count; i++)
        ranges[i] = (struct range){plan->hooks[i].plan.stub, plan->hooks[i].plan.body + 1};
    check_disjoint(ranges, plan->hook_count);
    free(ranges);
}

static void check_originals(const struct target *t, const struct ct_target_plan *plan) {
    for (size_t i = 0; i < plan->hook_count; i++)
        for (unsigned k = 0; k < plan->hooks[i].plan.patch_count; k++) {
            const struct ct_patch *p = &plan->hooks[i].plan.patches[k];
            uint8_t now[CT_PATCH_MAX];
            assert_int_equal(ct_remote_read(t->remote, p->at, now, p->size), 0);
            assert_memory_equal(now, p->original, p->size);
        }
}

struct free_search {
    const struct ct_target_region *region;
};

static int must_be_elsewhere(void *arg, const struct ct_os_map *map) {
    const struct free_search *s = arg;
    uint64_t start = s->region->address, end = start + s->region->size;
    if (map->start < end && map->end > start)
        fail_msg("the region at %llx is over %s", (unsigned long long)start, map->path);
    return 0;
}

static void check_regions(const struct target *t, const struct ct_target_plan *plan) {
    for (size_t i = 0; i < plan->region_count; i++) {
        const struct ct_target_region *r = &plan->regions[i];
        assert_int_equal(r->address % 4096, 0);
        assert_int_equal(r->size % 4096, 0);
        assert_true(r->used && r->used <= r->size);
        assert_memory_equal(r->bytes, ct_hook_code, ct_hook_code_end - ct_hook_code);
        ct_remote_each_map(t->remote, must_be_elsewhere, &(struct free_search){r});
        for (size_t k = 0; k < i; k++)
            assert_true(plan->regions[k].address >= r->address + r->size ||
                        r->address >= plan->regions[k].address + plan->regions[k].size);
    }
}

#ifdef __x86_64__
enum { READS_CODE = true };
#else
enum { READS_CODE = false }; /* Zydis knows x86_64 only; plan_a64 looks at arm64's stubs */
#endif

static void check_module(const struct ct_target_plan *plan, const struct ct_target_module *m, size_t *hooks) {
    size_t hooked = 0, entry_only = 0, skipped[CT_HOOK_SKIP_COUNT] = {0};
    for (size_t i = 0; i < m->function_count; i++) {
        const struct ct_target_function *f = &m->functions[i];
        const struct ct_target_hook *h = f->hook >= 0 ? &plan->hooks[f->hook] : NULL;
        assert_non_null(f->name);
        assert_true(inside(m, m->bias + f->offset));
        assert_true(!i || f->offset > m->functions[i - 1].offset);
        skipped[f->skip]++;
        assert_true(h || f->skip);
        if (!h)
            continue;
        assert_int_equal(f->hook, *hooks);
        ++*hooks;
        assert_int_equal(h->function_id, (uint64_t)m->id << 32 | i);
        assert_int_equal(h->plan.function, m->bias + f->offset);
        assert_int_equal(h->action, f->skip ? CT_ACTION_NONE : CT_ACTION_RECORD);
        assert_true(h->service || !f->skip);
        assert_int_equal(h->entry_only, f->entry_only);
        hooked += !f->skip;
        entry_only += !f->skip && f->entry_only;
        if (READS_CODE) {
            check_head(plan, (size_t)f->hook);
            check_body(plan, h, m);
            check_patches(h, m);
        }
    }
    assert_int_equal(m->hooked, hooked);
    assert_int_equal(m->entry_only, entry_only);
    for (int i = 1; i < CT_HOOK_SKIP_COUNT; i++)
        assert_int_equal(m->skipped[i], skipped[i]);
}

void target_check(const struct target *t, const struct ct_target_plan *plan) {
    size_t hooks = 0;
    for (size_t i = 0; i < plan->module_count; i++) {
        assert_int_equal(plan->modules[i].id, i + 1);
        check_module(plan, &plan->modules[i], &hooks);
    }
    assert_int_equal(hooks, plan->hook_count);
    check_no_overlaps(plan);
    check_originals(t, plan);
    check_regions(t, plan);
}

/* ---- two plans ---- */

static void check_same_hook(const struct ct_target_hook *a, const struct ct_target_hook *b) {
    struct ct_target_hook left = *a, right = *b;
    left.plan.whole = right.plan.whole = NULL;
    assert_memory_equal(&left, &right, sizeof left);
    assert_int_equal(!a->plan.whole, !b->plan.whole);
    if (a->plan.whole) {
        assert_int_equal(a->plan.whole->count, b->plan.whole->count);
        assert_memory_equal(a->plan.whole->at, b->plan.whole->at, a->plan.whole->count * sizeof a->plan.whole->at[0]);
    }
}

static void check_same_module(const struct ct_target_module *a, const struct ct_target_module *b) {
    assert_string_equal(a->path, b->path);
    assert_string_equal(a->build_id, b->build_id);
    assert_int_equal(a->bias, b->bias);
    assert_int_equal(a->start, b->start);
    assert_int_equal(a->end, b->end);
    assert_int_equal(a->table_hash, b->table_hash);
    assert_int_equal(a->function_count, b->function_count);
    assert_int_equal(a->hooked, b->hooked);
    assert_int_equal(a->entry_only, b->entry_only);
    assert_memory_equal(a->skipped, b->skipped, sizeof a->skipped);
    for (size_t i = 0; i < a->function_count; i++) {
        struct ct_target_function left = a->functions[i], right = b->functions[i];
        assert_string_equal(left.name, right.name);
        left.name = right.name = NULL;
        assert_memory_equal(&left, &right, sizeof left);
    }
}

void target_check_same(const struct ct_target_plan *a, const struct ct_target_plan *b) {
    assert_int_equal(a->module_count, b->module_count);
    assert_int_equal(a->hook_count, b->hook_count);
    assert_int_equal(a->region_count, b->region_count);
    assert_int_equal(a->get_cfa, b->get_cfa);
    for (size_t i = 0; i < a->module_count; i++)
        check_same_module(&a->modules[i], &b->modules[i]);
    for (size_t i = 0; i < a->hook_count; i++)
        check_same_hook(&a->hooks[i], &b->hooks[i]);
    for (size_t i = 0; i < a->region_count; i++) {
        assert_int_equal(a->regions[i].address, b->regions[i].address);
        assert_int_equal(a->regions[i].size, b->regions[i].size);
        assert_int_equal(a->regions[i].used, b->regions[i].used);
        assert_memory_equal(a->regions[i].bytes, b->regions[i].bytes, a->regions[i].used);
    }
}

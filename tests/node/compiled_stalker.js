/* SPDX-License-Identifier: Apache-2.0 */
/* A transform and a sink in C, on examples/scripts/sample.c: four rounds, walk(0) to walk(3). */
'use strict';

const assert = require('node:assert/strict');

const words = Memory.alloc(64); /* callouts, steps above 1, calls of step, returns, blocks, transformed, destroyed */
const count = (i) => words.add(8 * i).readU64().toNumber();
const step = Process.mainModule.getSymbolByName('step');
const module = new CModule(`
#include <gum/gumstalker.h>

extern guint64 step[];
static guint64 begun;

static void on_step(GumCpuContext *cpu, gpointer data) {
  ++*(guint64 *)data;
}

static void on_destroy(gpointer data) {
  ++((guint64 *)data)[6];
}

/* Counts calls of step(n) with n > 1 inline. */
#if defined(__x86_64__)
static void count_inline(GumX86Writer *w, guint64 *counter) {
  const gpointer small = &begun;
  gum_x86_writer_put_pushfx(w);
  gum_x86_writer_put_push_reg(w, GUM_X86_R9);
  gum_x86_writer_put_cmp_reg_i32(w, GUM_X86_EDI, 1);
  gum_x86_writer_put_jcc_short_label(w, X86_INS_JLE, small, GUM_NO_HINT);
  gum_x86_writer_put_push_reg(w, GUM_X86_R12);
  gum_x86_writer_put_mov_reg_address(w, GUM_X86_R12, (GumAddress)counter);
  gum_x86_writer_put_mov_reg_reg_ptr(w, GUM_X86_R9, GUM_X86_R12);
  gum_x86_writer_put_inc_reg(w, GUM_X86_R9);
  gum_x86_writer_put_add_reg_imm(w, GUM_X86_R9, 300);
  gum_x86_writer_put_lea_reg_reg_offset(w, GUM_X86_R9, GUM_X86_R9, -300);
  gum_x86_writer_put_mov_reg_ptr_reg(w, GUM_X86_R12, GUM_X86_R9);
  gum_x86_writer_put_pop_reg(w, GUM_X86_R12);
  gum_x86_writer_put_label(w, small);
  gum_x86_writer_put_pop_reg(w, GUM_X86_R9);
  gum_x86_writer_put_popfx(w);
  gum_x86_writer_put_nop_padding(w, 3);
}
#else
static void count_inline(GumArm64Writer *w, guint64 *counter) {
  const gpointer small = &begun;
  gum_arm64_writer_put_push_reg_reg(w, ARM64_REG_X9, ARM64_REG_X10);
  gum_arm64_writer_put_push_reg_reg(w, ARM64_REG_X11, ARM64_REG_X12);
  gum_arm64_writer_put_mov_reg_nzcv(w, ARM64_REG_X9);
  gum_arm64_writer_put_cmp_reg_imm(w, ARM64_REG_W0, 1);
  gum_arm64_writer_put_b_cond_label(w, ARM64_CC_LE, small);
  gum_arm64_writer_put_cbz_reg_label(w, ARM64_REG_W0, small);
  gum_arm64_writer_put_tbnz_reg_imm_label(w, ARM64_REG_W0, 31, small);
  gum_arm64_writer_put_ldr_reg_address(w, ARM64_REG_X10, (GumAddress)counter);
  gum_arm64_writer_put_ldr_reg_reg(w, ARM64_REG_X11, ARM64_REG_X10);
  gum_arm64_writer_put_add_reg_reg_imm(w, ARM64_REG_X11, ARM64_REG_X11, 301);
  gum_arm64_writer_put_mov_reg_reg(w, ARM64_REG_X12, ARM64_REG_X11);
  gum_arm64_writer_put_sub_reg_reg_imm(w, ARM64_REG_X12, ARM64_REG_X12, 300);
  gum_arm64_writer_put_str_reg_reg_offset(w, ARM64_REG_X12, ARM64_REG_X10, 0);
  gum_arm64_writer_put_label(w, small);
  gum_arm64_writer_put_mov_nzcv_reg(w, ARM64_REG_X9);
  gum_arm64_writer_put_pop_reg_reg(w, ARM64_REG_X11, ARM64_REG_X12);
  gum_arm64_writer_put_pop_reg_reg(w, ARM64_REG_X9, ARM64_REG_X10);
  gum_arm64_writer_put_nop(w);
}
#endif

void transform(GumStalkerIterator *iterator, GumStalkerOutput *output, gpointer user_data) {
  guint64 *words = user_data;
  const cs_insn *insn;
  words[5]++;
  if (begun == 0)
    begun = ct_clock();
  while (gum_stalker_iterator_next(iterator, &insn)) {
    if (insn->address == (guint64)step) {
      gum_stalker_iterator_put_callout(iterator, on_step, words, on_destroy);
      count_inline(output->writer.instance, &words[1]);
    }
    gum_stalker_iterator_keep(iterator);
  }
}

void process(const GumEvent *event, GumCpuContext *cpu_context, gpointer user_data) {
  guint64 *words = user_data;
  words[2] += event->type == GUM_CALL && event->call.target == step;
  words[3] += event->type == GUM_RET;
  words[4] += event->type == GUM_BLOCK && event->block.start < event->block.end;
}

guint64 since(void) {
  return ct_clock() - begun;
}
`, {step});

let followed = false;
Interceptor.attach(Process.mainModule.getSymbolByName('licence_is_valid'), {
  onEnter() {
    if (followed)
      return;
    followed = true;
    Stalker.follow({
      events: {call: true, ret: true, block: true}, transform: module.transform, onEvent: module.process, data: words,
    });
  },
});

const finish = Process.mainModule.getSymbolByName('finish');
Interceptor.attach(finish, {
  onEnter() {
    Stalker.unfollow();
  },
});

/* The thread has handed over its events when it has left the Stalker's code. */
Interceptor.attach(Module.getGlobalExportByName('exit'), {
  onEnter() {
    try {
      assert.equal(count(0), 6);
      assert.equal(count(1), 1);
      assert.equal(count(2), 6);
      assert.ok(count(3) >= 6 && count(4) >= 6 && count(5) >= 6, 'returns, blocks, transformed');
      assert.ok(new NativeFunction(module.since, 'uint64', [])() > 0);
      assert.throws(() => Stalker.follow({transform: 5}), /transform is a function/);
      console.log('compiled stalker: all right');
    } catch (error) {
      console.log(error.message, Array.from({length: 7}, (_, i) => count(i)).join());
    }
  },
});

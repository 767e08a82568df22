/* SPDX-License-Identifier: Apache-2.0 */
/* CModule as listener, callout and probe, on examples/scripts/sample.c. */
'use strict';

const assert = require('node:assert/strict');

const counts = Memory.alloc(32); /* calls of price, callouts, probes */
const [calls, callouts, probes] = [0, 8, 16].map((at) => counts.add(at));
const module = new CModule(`
#include <gum/guminterceptor.h>
#include <gum/gumstalker.h>

extern guint64 calls;
static gint net_before;

void on_enter(GumInvocationContext *ic) {
  calls++;
  *GUM_IC_GET_INVOCATION_DATA(ic, gsize) = GPOINTER_TO_SIZE(gum_invocation_context_get_nth_argument(ic, 0));
  gum_invocation_context_replace_nth_argument(ic, 0, GSIZE_TO_POINTER(200));
}

void on_leave(GumInvocationContext *ic) {
  gsize before = *GUM_IC_GET_INVOCATION_DATA(ic, gsize), more = GPOINTER_TO_SIZE(GUM_IC_GET_FUNC_DATA(ic, gpointer));
  gum_invocation_context_replace_return_value(ic, (char *)gum_invocation_context_get_return_value(ic) + before + more);
}

void count(GumCpuContext *cpu, gpointer data) {
  ++*(guint64 *)data;
}

int twice(int n) {
  return 2 * n + net_before;
}
`, {calls});

Interceptor.attach(Process.mainModule.getSymbolByName('price'),
  {onEnter: module.on_enter, onLeave: module.on_leave}, ptr(5));

const twice = new NativeFunction(module.twice, 'int', ['int']);
const step = Process.mainModule.getSymbolByName('step');
let followed = false, called = 0;
Interceptor.attach(Process.mainModule.getSymbolByName('licence_is_valid'), {
  onEnter() {
    if (followed)
      return;
    followed = true;
    called = twice(21);
    Stalker.addCallProbe(step, module.count, probes);
    Stalker.follow({
      transform(iterator) {
        let instruction = iterator.next();
        const inside = instruction.address.equals(step);
        do {
          if (inside && instruction.address.equals(step))
            iterator.putCallout(module.count, callouts);
          iterator.keep();
        } while ((instruction = iterator.next()) !== null);
      },
    });
  },
});

const finish = Process.mainModule.getSymbolByName('finish');
Interceptor.attach(finish, {
  onEnter() {
    try {
      assert.equal(called, 42);
      assert.equal(calls.readU64().toNumber(), 4);
      /* walk(0) to walk(3): what the probe and the callout have seen. */
      assert.equal(callouts.readU64().toNumber(), 6);
      assert.equal(probes.readU64().toNumber(), 6);
      console.log('compiled: all right');
    } catch (error) {
      console.log(error.message);
    }
  },
});

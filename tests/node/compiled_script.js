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

/* Structures that no registers hold. */
typedef struct { glong a; gint b; gdouble c; } Three;

Three sum(Three x, gint n, Three y) {
  x.a += y.a + n;
  x.b += y.b;
  x.c += y.c;
  return x;
}

Three passed_on(Three (*f)(glong, Three), Three x) {
  Three result = f(2, x);
  result.a += x.a;
  return result;
}
`, {calls});

Interceptor.attach(Process.mainModule.getSymbolByName('price'),
  {onEnter: module.on_enter, onLeave: module.on_leave}, ptr(5));

const twice = new NativeFunction(module.twice, 'int', ['int']);
const three = ['long', 'int', 'double'];
const sum = new NativeFunction(module.sum, three, [three, 'int', three]);
const passedOn = new NativeFunction(module.passed_on, three, ['pointer', three]);
const times = new NativeCallback((n, [a, b, c]) => sum([a * n, b * n, c * n], 1, [100, 10, 1]), three, ['long', three]);
const numbers = (values) => values.map(Number);
let sums = null;
const step = Process.mainModule.getSymbolByName('step');
let followed = false, called = 0;
Interceptor.attach(Process.mainModule.getSymbolByName('licence_is_valid'), {
  onEnter() {
    if (followed)
      return;
    followed = true;
    called = twice(21);
    sums = [numbers(sum([1, 2, 0.5], 3, [10, 20, 0.25])), numbers(passedOn(times, [5, 6, 0.5]))];
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
      assert.deepEqual(sums, [[14, 22, 0.75], [116, 22, 2]]);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* libpython: a script inside an embedded interpreter. */
#include <Python.h>
/* after Python.h, which wants to be first */
#include "workload.h"

static const char script[] =
    "import json, re, hashlib, threading, itertools, functools, collections, random, decimal, fractions, struct, zlib\n"
    "random.seed(42)\n"
    "def fib(n):\n"
    "    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
    "print('fib', fib(12 + SCALE // 2))\n"
    "data = [{'id': i, 'name': 'n%d' % (i * 7919 % 1000), 'values': [i, i / 3, None, True]} for i in range(100 * "
    "SCALE)]\n"
    "text = json.dumps(data, sort_keys=True)\n"
    "print('json', len(text), json.loads(text) == data, hashlib.sha256(text.encode()).hexdigest())\n"
    "print('re', len(re.findall(r'\"n(\\d+)\"', text)), re.sub(r'(a)(b+)', r'\\2\\1', 'abbb cab'))\n"
    "values = [random.random() for _ in range(1000 * SCALE)]\n"
    "values.sort()\n"
    "print('sorted', values[0], values[-1], sum(values))\n"
    "print('words', collections.Counter('the cat the dog the end'.split()).most_common(2))\n"
    "def thrower(n):\n"
    "    if n == 0:\n"
    "        raise ValueError('bottom')\n"
    "    try:\n"
    "        thrower(n - 1)\n"
    "    finally:\n"
    "        caught.append(n)\n"
    "caught = []\n"
    "for i in range(10 * SCALE):\n"
    "    try:\n"
    "        thrower(10)\n"
    "    except ValueError as e:\n"
    "        caught.append(str(e))\n"
    "print('exceptions', len(caught), caught[-1])\n"
    "print('big', 3 ** 2000 % 10 ** 50, (2 ** 521 - 1) * (2 ** 607 - 1) % 999999937, pow(7, 10 ** 40, 10 ** 9 + 7))\n"
    "def numbers():\n"
    "    a = yield 0\n"
    "    while True:\n"
    "        a = yield a * 2\n"
    "g = numbers()\n"
    "next(g)\n"
    "print('generators', sum(g.send(i) for i in range(100 * SCALE)), "
    "list(itertools.islice(itertools.permutations('abc'), 4)))\n"
    "results = {}\n"
    "lock = threading.Lock()\n"
    "def work(n):\n"
    "    total = 0\n"
    "    for i in range(300 * SCALE):\n"
    "        total += i * n\n"
    "        if i % 50 == 0:\n"
    "            with lock:\n"
    "                results[n] = total\n"
    "    with lock:\n"
    "        results[n] = total\n"
    "threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n"
    "for t in threads:\n"
    "    t.start()\n"
    "for t in threads:\n"
    "    t.join()\n"
    "print('threads', sorted(results.items()))\n"
    "decimal.getcontext().prec = 50\n"
    "print('decimal', decimal.Decimal(2).sqrt(), fractions.Fraction(355, 113) + fractions.Fraction(1, 7))\n"
    "packed = zlib.compress(text.encode(), 9)\n"
    "print('zlib', zlib.decompress(packed).decode() == text, struct.pack('<IdQ', 1, 2.5, 3).hex())\n"
    "class Meta(type):\n"
    "    def __call__(cls, *args):\n"
    "        return super().__call__(*args)\n"
    "class Point(metaclass=Meta):\n"
    "    __slots__ = ('x', 'y')\n"
    "    def __init__(self, x, y):\n"
    "        self.x, self.y = x, y\n"
    "    def __add__(self, other):\n"
    "        return Point(self.x + other.x, self.y + other.y)\n"
    "total = functools.reduce(lambda a, b: a + b, [Point(i, -i) for i in range(100 * SCALE)])\n"
    "print('objects', total.x, total.y, '%.10f %s %r' % (1 / 3, 'text', {'k': (1, 2.5)}))\n"
    "import sys\n"
    "sys.stdout.flush()\n";

void workload_python(int scale) {
    char setting[64];
    fflush(stdout);
    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.use_hash_seed = 1;
    config.hash_seed = 0;
    config.buffered_stdio = 1;
    PyStatus status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        printf("python does not start: %s\n", status.err_msg ? status.err_msg : "");
        return;
    }
    snprintf(setting, sizeof setting, "SCALE = %d\n", scale);
    if (PyRun_SimpleString(setting) != 0 || PyRun_SimpleString(script) != 0)
        printf("the script failed\n");
    if (Py_FinalizeEx() < 0)
        printf("python does not end\n");
    fflush(stdout);
}

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh LIBRARY: programs of the distribution, each run as it is and with every function of the program and its
# libraries hooked (hook_everything.c). Output, errors and exit code must be the same, and no event may be lost.
#
# Programs that are not installed are left out; exit code 77 when none is there.
set -u
library=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ran=0
failed=0

# try COMMAND...
try() {
    command -v "$1" >/dev/null || return 0
    ran=$((ran + 1))
    "$@" >"$work/plain.out" 2>"$work/plain.err" </dev/null
    plain=$?
    rm -f "$work/report"
    CONTRAIL_REPORT=$work/report LD_PRELOAD=$library "$@" >"$work/hooked.out" 2>"$work/hooked.err" </dev/null
    hooked=$?
    problem=
    [ $plain = $hooked ] || problem="exit code $plain became $hooked"
    cmp -s "$work/plain.out" "$work/hooked.out" || problem="$problem; output differs"
    cmp -s "$work/plain.err" "$work/hooked.err" || problem="$problem; errors differ"
    grep -qs ' abandoned 0 ' "$work/report" || problem="$problem; no report, or events were lost"
    if [ -n "$problem" ]; then
        failed=$((failed + 1))
        echo "FAILED  $*: $problem"
        diff "$work/plain.out" "$work/hooked.out" | head -n 5
        diff "$work/plain.err" "$work/hooked.err" | head -n 5
    else
        echo "ok      $1: $(tail -n 1 "$work/report")"
    fi
}

cat >"$work/sample.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }
int main(int argc, char **argv) { qsort(argv + 1, argc - 1, sizeof *argv, compare);
    for (int i = 1; i < argc; i++) puts(argv[i]); }
C
cat >"$work/sample.cc" <<'C'
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
std::map<std::string, std::vector<int>> table;
int main() { try { table.at("x").at(1); } catch (const std::out_of_range &) { return 3; } }
C

try /bin/true
try ls -l /usr
try sort -r /etc/passwd
try sed -n 's/root/ROOT/gp' /etc/passwd
try awk 'BEGIN { for (i = 0; i < 30000; i++) s += sqrt(i); print s }'
try find /etc -name 'p*'
try tar -cf - /etc/apt
try xz -T2 -0 -k -c /usr/bin/perl
try sh -c 'for i in 1 2 3; do echo $i | cat; done; echo $(ls /etc | wc -l); exit 5'
try bash -c 'trap "echo bye" EXIT; f() { local n=$1; ((n)) && f $((n - 1)) || echo done; }; f 50; (exit 3); echo $?
sleep 0.01 & wait; kill -9 $$'
try perl -e 'my %h; $h{$_ % 7}++ for 1..20000; print join(",", map {"$_=$h{$_}"} sort keys %h), "\n";
eval { die "x\n" }; print $@; exit 4'
try /usr/bin/python3 -c '
import json, re, threading, subprocess, hashlib
def work():
    for i in range(100): json.loads(json.dumps({"a": [1, 2.5, {"b": i}], "c": "x" * i}))
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(subprocess.run(["echo", "child"], capture_output=True).stdout, hashlib.sha256(b"x" * 100000).hexdigest())
def deep(n): return n and deep(n - 1) + 1
try: deep(100000)
except RecursionError as e: print("caught", e)
print(re.sub(r"(\w+) (\w+)", r"\2 \1", "hello world"), 3 ** 500, sum(i * i for i in range(10000)))
'
try sqlite3 :memory: 'create table t(a, b);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000)
insert into t select x, x * x % 97 from c;
select b, count(*), sum(a) from t group by b order by 2 desc, 1 limit 5; select * from nothing;'
try openssl dgst -sha256 /usr/bin/perl
try git --version
try gcc -O2 -S -o - "$work/sample.c"
try g++ -std=c++17 -O1 -S -o - "$work/sample.cc"
try gdb --version
try cmake --version
try node -e 'console.log([1, 2, 3].map(x => x * 2)); process.exit(6)'

echo "$ran programs, $failed failed"
[ $ran -gt 0 ] || exit 77
[ $failed = 0 ]

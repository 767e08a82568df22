#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs of the distribution, and two that are built here: natively, recorded, and followed with all events and exact
# times. Output and exit status are the same, and the traces are whole.
#   programs.sh CONTRAIL [NAME...]
contrail=$(realpath "$1") || exit 1
shift
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
chosen=" $* "
failed=0
slow=
[ -z "${CONTRAIL_TEST_EMULATED:-}" ] || slow='--startup-timeout 120'

run() { # file for output, command
    local out=$1
    shift
    timeout 300 "$@" </dev/null >"$out" 2>"$out.errors"
    echo "status $?" >>"$out"
}

compare() { # name, way, options of contrail
    local name=$1 way=$2
    shift 2
    run got "$contrail" "$@"
    if ! cmp -s expected got; then
        echo "FAILED: $name, $way"
        diff expected got | head -5
        tail -5 got.errors
        failed=1
        return
    fi
    local said
    if ! said=$("$contrail" verify traces/* 2>&1); then
        echo "FAILED: $name, $way: ${said:0:500}"
        failed=1
    else
        echo "ok: $name, $way ($("$contrail" info traces/* | grep -m1 -o '[0-9.,]* [kM]* *events'))"
    fi
}

check() { # name, command
    local name=$1
    shift
    [ "$chosen" = '  ' ] || [ "${chosen/ $name /}" != "$chosen" ] || return
    if ! command -v "$1" >/dev/null; then
        echo "skipped: $name, no $1"
        return
    fi
    run expected "$@"
    rm -rf traces
    # shellcheck disable=SC2086
    compare "$name" recorded spawn --quiet $slow --output traces -- "$@"
    rm -rf traces
    compare "$name" followed stalk --quiet --events call,ret,block,exec,compile --clock exact --output traces -- "$@"
}

export HOME=$work GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_AUTHOR_DATE='1700000000 +0000'
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_COMMITTER_DATE='1700000000 +0000'
for i in $(seq 1 2000); do echo "line $i of $((i * 7919 % 1000))"; done >data
cat >throws.cc <<'END'
#include <cstdio>
#include <stdexcept>
static int unwound;
struct guard { ~guard() { unwound++; } };
static int dive(int depth) {
    guard g;
    if (!depth) throw std::runtime_error("bottom");
    return dive(depth - 1) + 1;
}
int main() {
    int caught = 0;
    for (int i = 0; i < 40; i++)
        try { dive(i % 10); } catch (const std::runtime_error &e) { caught += e.what()[0] == 'b'; }
    printf("%d %d\n", caught, unwound);
    return 4;
}
END
cat >static.c <<'END'
#include <stdio.h>
#include <stdlib.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
    static int numbers[200];
    for (int i = 0; i < 200; i++) numbers[i] = i * 7919 % 1009;
    qsort(numbers, 200, sizeof *numbers, compare);
    printf("%d %d\n", numbers[0], numbers[199]);
    return 3;
}
END
g++ -O1 throws.cc -o throws
musl-gcc -O1 -static static.c -o static

check busybox busybox sh -c 'busybox sort -n data | busybox head -n 3; busybox sed -n 5p data; busybox md5sum data'
check bash bash -c 'f() { ((n++ < 20)) && f; }; f; for w in a b a; do ((t_$w++)); done
echo $n $t_a $(echo sub); exit 3'
check coreutils bash -c 'sort -rn -k4 data | head -n 5; wc data; sha256sum data; ls -l --time-style=+ data
cut -c1-6 data | uniq | tail -n 2'
check python3 python3 -c 'import json
print(len(json.dumps([{"n": i} for i in range(50)])), 3 ** 100)
try: 1 / 0
except ZeroDivisionError as e: print(e)'
check sqlite3 sqlite3 :memory: 'create table t(a, b); insert into t values (1, 2), (3, 4), (5, 6);
select sum(a * b), max(b) from t; create index i on t(b); select a from t where b > 3 order by b desc;'
check lua lua5.4 -e 'print(pcall(error, "x")) local s = {} for i = 1, 200 do s[i] = string.format("%d", i) end
print(#table.concat(s)) print(coroutine.wrap(function() coroutine.yield(7) end)())'
check perl perl -e 'my %h; $h{$_ % 7} += $_ for 1..200; print join(",", map {"$_=$h{$_}"} sort keys %h), "\n";
eval { die "thrown\n" }; print $@; exit 4'
check git bash -c 'rm -rf r && git init -q -b main r && cd r && echo one >f && git add . && git commit -qm one &&
echo two >>f && git commit -qam two && git log -p --format="%H %s"'
check xz bash -c 'xz -T2 -1 -c --block-size=10000 data | xz -dc | md5sum'
check openssl bash -c 'openssl dgst -sha512 data; openssl enc -aes-256-ctr -K 07 -iv 09 -in data 2>/dev/null | md5sum'
check exceptions ./throws
check musl ./static
exit $failed

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What emulation cannot show (docs/ARM64.md), on an arm64 machine: builds Contrail, runs the litmus tests of memory
# order and of changing code, all tests, and the benchmarks. Everything is also written to build/arm64-hardware.txt.
#
# usage: arm64-hardware.sh [--seconds N] [--litmus | --tests | --bench]
# --seconds: how long each litmus test runs (20). With one of the other words, only that part.
set -eu
cd "$(dirname "$0")/.."
seconds=20
parts="litmus tests bench"
while [ $# -gt 0 ]; do
    case $1 in
    --seconds)
        seconds=${2:?--seconds needs a number}
        shift
        ;;
    --litmus | --tests | --bench) parts=${1#--} ;;
    *)
        sed -n 's/^# usage: /usage: /p' "$0"
        exit 2
        ;;
    esac
    shift
done
if [ "$(uname -m)" != aarch64 ]; then
    echo "this machine is $(uname -m), not arm64 hardware; make test-arm64 runs what emulation can show"
    exit 77
fi
results=build/arm64-hardware.txt
failed=
mkdir -p build

# part NAME COMMAND...: its output goes to the screen and the file. The others run even if it fails.
part() {
    name=$1
    shift
    {
        echo "=== $name"
        if "$@" 2>&1; then
            echo "=== $name: passed"
        else
            echo "=== $name: FAILED"
        fi
    } | tee -a "$results"
    ! tail -n 1 "$results" | grep -q FAILED || failed="$failed $name"
}

machine() {
    uname -srm
    nproc
    lscpu
    grep -m 1 Features /proc/cpuinfo
    systemd-detect-virt 2>/dev/null || true
}

# Also on two processors alone: neighbours share more than others do.
litmus() {
    bad=0
    build/tests/arm64/litmus "$seconds" || bad=1
    last=$(($(nproc) - 1))
    [ $last -gt 0 ] || return $bad
    for pair in "0,1" "0,$last"; do
        echo "on processors $pair"
        taskset -c "$pair" build/tests/arm64/litmus "$seconds" || bad=1
    done
    return $bad
}

: >"$results"
part machine machine
part build make
for each in $parts; do
    case $each in
    litmus) part "litmus" litmus ;;
    tests) part "tests" make test ;;
    bench) part "benchmarks" make bench-parts ;;
    esac
done
echo "everything is in $results"
[ -z "$failed" ] || {
    echo "failed:$failed"
    exit 1
}

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# All that `make test` checks: both compilers without warnings, every suite, the unit suite under sanitizers and as
# clang compiles it, the layers, a short run of hostile targets. With --long also what takes longer (make check-all).
# --others and --arm64 are the parts that run beside other suites.
#
# The last line is `N passed, M failed`, the one before it `K skipped` when there are any; the exit code says so too.
# A line `K unstable` comes before them when tests passed only when they ran again. Every build and each of the checks
# of sources counts as one.
set -u
cd "$(dirname "$0")/.." || exit 1

# Undefined behaviour is a failure, not a remark.
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}"

long=
[ "${1:-}" != --long ] || long=yes
mkdir -p build
summary=build/test-summary.txt
passed=0
failed=0
skipped=0
logs=
processes=$((2 * $(nproc))) # many tests wait for the most part
jobs= # of ninja, when it does not have the machine for itself
only= # of `build`: a suite, and perhaps names of tests
objects= # of `build`: --objects, what that suite does not need is compiled as well, but not linked
# Tests of code of ours that has several threads. What writes to shared memory as a target does races by intention.
threaded="drain_crew export export_ranges overload pack_pool packed_trace query_sql report_functions report_graph
    report_ranges ticker trace_ahead trace_writer windows"

# A python3 that is a script, which looks for the true one (pyenv), takes ten times as long to start. Tests start
# hundreds.
python=$(python3 -c 'import sys; print(sys.executable)')
if [ -x "$python" ] && [ "$python" != "$(command -v python3)" ]; then
    PATH=$(dirname "$python"):$PATH
fi

# check NAME COMMAND...: one result. Its output is shown only when it fails, or ends with 77: it was skipped.
check() {
    name=$1
    shift
    output=$(mktemp)
    started=$(date +%s)
    "$@" >"$output" 2>&1
    result=$?
    if [ $result = 0 ]; then
        passed=$((passed + 1))
        echo "ok      $name ($(($(date +%s) - started)) s)"
        rm -f "$output"
        return 0
    elif [ $result = 77 ]; then
        skipped=$((skipped + 1))
        echo "skipped: $name: $(tail -n 1 "$output")"
        rm -f "$output"
        return 0
    fi
    failed=$((failed + 1))
    cat "$output"
    echo "FAILED  $name"
    rm -f "$output"
    return 1
}

# build DIR CC CXX MESON-OPTIONS... With $only: what that suite, or those tests of it, need.
build() {
    dir=$1
    export CC="$2" CXX="$3" # for ninja as well: it may configure again
    shift 3
    [ -f "$dir/build.ninja" ] || meson setup "$dir" "$@" >"$dir.log" || {
        cat "$dir.log"
        return 1
    }
    rm -f "$dir.log"
    # shellcheck disable=SC2046,SC2086
    ninja --quiet $jobs -C "$dir" $([ -z "$only" ] || scripts/suite_targets.py $objects "$dir" $only)
}

# Warnings are for all that is compiled. With --long all is linked, too.
build_clang() {
    if [ -n "$long" ]; then
        build build-clang clang clang++ -Ddebug=false
    else
        objects=--objects only=unit build build-clang clang clang++ -Ddebug=false
    fi
}

# Sanitizers make gcc warn of what is not so; the other builds have seen the true warnings. Without an optimiser they
# compile in an eighth of the time, and see every access that the source makes. Only what the unit suite runs is built.
build_sanitized() {
    only=unit build build-asan gcc g++ -Db_sanitize=address,undefined -Db_lundef=false -Dwerror=false -Doptimization=0
}

build_threaded() {
    only="unit $threaded" build build-tsan gcc g++ -Db_sanitize=thread -Db_lundef=false -Dwerror=false -Doptimization=1
}

# suite LABEL DIR MESON-TEST-OPTIONS...: runs tests, shows the output of those that fail, leaves a log to count. Time
# limits are for tests that hang, not for machines that are slow.
suite() {
    label=$1 dir=$2
    shift 2
    echo "--- $label"
    rm -f "$dir/meson-logs/contrail-tests.json"
    meson test -C "$dir" --no-rebuild --num-processes "$processes" --timeout-multiplier 4 \
        --logbase contrail-tests --print-errorlogs "$@" | grep -v '^$'
    log=$dir/meson-logs/contrail-tests.json
    run_again "$@"
    logs="$logs
$label=$log"
}

# run_again MESON-TEST-OPTIONS...: the few tests of $log that failed, once more, one at a time. One that passes then met
# a machine under load, or has found something rare: the results name it as unstable. With --long it stays a failure.
run_again() {
    again=$(python3 scripts/count_tests.py --failed "$log")
    if [ -n "$long" ] || [ -z "$again" ] || [ "$(echo "$again" | wc -l)" -gt 3 ]; then
        return
    fi
    # shellcheck disable=SC2086
    meson test -C "$dir" --no-rebuild --num-processes 1 --timeout-multiplier 4 --logbase contrail-again \
        --print-errorlogs "$@" $again | grep -v '^$'
    log=$log,$dir/meson-logs/contrail-again.json
}

# What is left after the suite of the gcc build. It runs beside that, with what the tests leave of the processors: many
# of them wait.
# Builds are last: they use all processors when the suite has ended.
others() {
    check "layers" scripts/check-layers.sh
    check "licence lines, 120 columns" scripts/check_sources.py
    check "format" scripts/format.sh --check
    check "shell scripts" scripts/check-shell.sh
    check "hostile targets, guided by coverage" scripts/fuzz-hostile.sh 10
    if check "build with clang" build_clang; then
        suite "clang, unit suite" build-clang --suite unit
    fi
    beside --arm64 build/arm64
    if check "build with sanitizers" build_sanitized; then
        suite "sanitizers, unit suite" build-asan --suite unit --timeout-multiplier 8
    fi
    joined build/arm64
}

# The arm64 tests, of the build that there is: a part, or with --long all. Their logs are counted with the others'.
arm64_tests() {
    [ -f build-arm64/quick.built ] || return
    # shellcheck disable=SC2046
    scripts/arm64_test.py $([ -n "$long" ] || echo --quick) build-arm64/quick
    for part in user guest; do
        log=build-arm64/quick/meson-logs/contrail-$part.json
        if [ -f $log ]; then
            logs="$logs
arm64, $part=$log"
        else
            skipped=$((skipped + 1)) # the script has said why
        fi
    done
}

# beside PART FILES: runs a part of the script in the background. Its output is in FILES-output.txt, and what it has
# counted in FILES-results.txt: `PASSED FAILED SKIPPED`, then the lines of $logs.
beside() {
    rm -f "$2-results.txt"
    nice scripts/run-tests.sh "$1" ${long:+--long} >"$2-output.txt" 2>&1 &
}

# joined FILES: waits for it, shows its output, and adds what it has counted.
joined() {
    wait
    cat "$1-output.txt"
    if ! read -r more_passed more_failed more_skipped <"$1-results.txt"; then
        echo "FAILED  a part that runs beside others was cut short"
        more_passed=0 more_failed=1 more_skipped=0
    fi
    passed=$((passed + more_passed)) failed=$((failed + more_failed)) skipped=$((skipped + more_skipped))
    logs="$logs
$(sed 1d "$1-results.txt")"
}

if [ "${1:-}" = --others ] || [ "${1:-}" = --arm64 ]; then
    [ "${2:-}" != --long ] || long=yes
    jobs=-j$(nproc) processes=$(($(nproc) + 1))
    if [ "$1" = --others ]; then
        files=build/other
        others
    else
        files=build/arm64
        # shellcheck disable=SC2086
        check "cross-build for arm64" scripts/cross-arm64.sh --quick $jobs
        arm64_tests
    fi
    printf '%s %s %s%s\n' "$passed" "$failed" "$skipped" "$logs" >$files-results.txt
    exit
fi
rm -f "$summary"
if check "build with gcc" build build gcc g++; then
    beside --others build/other
    suite "gcc, all suites" build
    joined build/other
else
    others
fi
if [ -n "$long" ]; then
    check "function tables against elfutils, every file" scripts/check-functions.sh
    check "decoder against Zydis, every file" make --no-print-directory check-decoder
    check "arm64 decoder against objdump, every file" make --no-print-directory check-decoder-arm64
    check "long fuzzing" scripts/fuzz-long.sh
    check "moved code, by chance" env CONTRAIL_TEST_CASES=300000 build/tests/unit/relocate_exec_test
    if [ -x build-arm64/quick/tests/unit/relocate_exec_a64_test ]; then
        check "moved arm64 code, by chance" env CONTRAIL_TEST_CASES=100000 scripts/arm64-user.sh \
            build-arm64/quick/tests/unit/relocate_exec_a64_test
    fi
    for test in os_threads os_calls; do
        check "stops of threads, $test" env CONTRAIL_TEST_LONG=1 build/tests/unit/${test}_test
    done
    check "signals inside a listener" env CONTRAIL_TEST_STEPS=800 build/tests/e2e/e2e_stepping --listen --kind=4
    check "a million random blocks, followed" env STALK_BLOCKS=1000000 build/tests/unit/stalk_conformance_test
    check "10,000 follows and unfollows" env STALK_LOOPS=10000 build/tests/unit/stalk_threads_test
    check "programs of the distribution, more of their work" python3 tests/fidelity/fidelity.py --tag fixed \
        --work 0.05 --work-attached 0.5 --contrail build/src/cli/contrail --build build/tests/fidelity
    check "hostile tables, by chance" build/tests/fuzz/hostile_tables --cases 10000
    check "a library with newer structs" python3 tests/tools/abi_test.py --newer-library . gcc
    if check "build with the thread sanitizer" build_threaded; then
        # shellcheck disable=SC2086
        suite "thread sanitizer, controller" build-tsan --timeout-multiplier 8 $threaded
    fi
    check "Debian packages" scripts/check-deb.sh
    # 77: speedscope cannot be had here
    check "picture of a trace in speedscope" tests/export/picture.py build/src/cli/contrail build/tests/export/npm
    record="--contrail build/src/cli/contrail --build build/tests/e2e/record"
    # shellcheck disable=SC2086
    {
        check "200 kills of contrail, 200 of its target" python3 tests/e2e/record/kill.py $record --times 200
        check "200 kills of a script" build/tests/unit/script_test build/tests/unit/script_target --kills 200
        check "attach and detach, 500 times" python3 tests/e2e/record/loop.py $record --times 500
        check "1,000 times a library, 8 threads" python3 tests/e2e/record/libraries.py build/src/cli/contrail --long
        check "processes that a followed program makes" \
            python3 tests/e2e/record/family.py build/src/cli/contrail --stalk
        check "programs that are easily harmed" python3 tests/e2e/stalk/unharmed.py \
            --contrail build/src/cli/contrail --build build/tests/e2e/stalk --times 20
        check "following while threads come and go" python3 tests/e2e/stalk/command.py \
            --contrail build/src/cli/contrail --build build/tests/e2e/stalk --long churn
        check "recorded programs, all variants in all modes" python3 tests/e2e/record/run.py $record
        check "the same without GS" env LD_PRELOAD="$PWD/build/tests/e2e/record/libtakes_gs.so" \
            python3 tests/e2e/record/run.py $record injected/exceptions_signals injected/seccomp \
            injected/shared_memory_child injected/signals injected/small_signal_stack injected/spawn injected/threads
        check "followed and let go, again and again" python3 tests/e2e/stalk/command.py \
            --contrail build/src/cli/contrail --build build/tests/e2e/stalk --long again_and_again
        check "hazard programs of both compilers, followed" env CONTRAIL_TEST_LONG=1 tests/e2e/stalk/zoo.sh \
            build/tests/e2e/stalk/libstalk_preload.so tests/e2e/record/programs STALK_TRUST=1
        check "programs built with sanitizers" python3 tests/e2e/record/sanitizers.py $record --times 10
        check "leaks found 200 times of 200" python3 tests/e2e/record/sanitizers.py $record --times 200 \
            gcc_address_clean gcc_address_leak gcc_address_threads gcc_leak_leak \
            clang_address_clean clang_address_leak clang_leak_leak
        check "programs with ten times the work, followed" env CONTRAIL_TEST_WORK=10 \
            tests/e2e/stalk/programs.sh build/tests/e2e/stalk/libstalk_preload.so \
            STALK_CHILDREN=1 STALK_EVENTS=call,ret,block STALK_TRUST=0:STALK_MEMORY=2
        check "200 kills of Node beside a script" env CONTRAIL_TEST_LONG=1 node tests/node/real.js \
            build/src/cli/contrail build/bindings/node/contrail.node build/tests/node/sample examples/scripts kills
        check "clock after 60 s" python3 tests/e2e/record/clock.py $record --seconds 60
    }
fi

echo "--- results"
# One argument per line of $logs.
IFS='
'
# shellcheck disable=SC2086
python3 scripts/count_tests.py --plain "$passed $failed $skipped" $logs >build/test-results.txt
status=$?
tail -n 1 build/test-results.txt >"$summary"
cat build/test-results.txt
exit $status

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Coverage-guided fuzzing of what reads a target's memory, by targets that write what they like:
# scripts/fuzz-hostile.sh [SECONDS [NAME]]   (for each of the two, or for one: hostile_lane, hostile_tables)
#
# Needs clang with its fuzzer runtime. Begins with the corpora of tests/fuzz; what is new is kept in build-fuzz/. A
# finding stops, its input is left in build-fuzz/: add it to tests/fuzz/hostile_seeds.py with the fix. An endless loop
# (30 s) and memory without bound are findings too.
set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
names=${2:-hostile_lane hostile_tables}
CC=$(command -v clang-14 || command -v clang) || {
    echo "fuzz-hostile: clang is missing (make setup installs it)" >&2
    exit 1
}
export CC
build="build-fuzz/hostile"
mkdir -p build-fuzz
[ -f $build/build.ninja ] || meson setup $build -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false \
    -Doptimization=1 -Dwerror=false >build-fuzz/setup.log || {
    cat build-fuzz/setup.log
    exit 1
}
for name in $names; do
    ninja --quiet -C $build "tests/fuzz/$name"
done

# libFuzzer leaves without clearing up after the target. In memory where possible: files are written for every case.
TMPDIR=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo /tmp)" contrail-fuzz-XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
# More memory than there is may be asked for: that it is not given is nothing unusual.
export ASAN_OPTIONS="allocator_may_return_null=1"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1"
for name in $names; do
    mkdir -p "build-fuzz/corpus-$name"
    # What once was a finding, first: each of it, whatever becomes of the rest.
    $build/tests/fuzz/"$name" -timeout=30 -rss_limit_mb=1500 -artifact_prefix=build-fuzz/ tests/fuzz/corpus_"$name"/*
    $build/tests/fuzz/"$name" -max_len=1500 -timeout=30 -rss_limit_mb=1500 -max_total_time="$seconds" \
        -artifact_prefix=build-fuzz/ -print_final_stats=1 "build-fuzz/corpus-$name" "tests/fuzz/corpus_$name"
done

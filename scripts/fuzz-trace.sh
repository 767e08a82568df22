#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Coverage-guided fuzzing of the readers of trace files and of names: scripts/fuzz-trace.sh [SECONDS]   (for each of the
# four)
#
# Needs clang with its fuzzer runtime. Corpora are kept in build-fuzz/. A finding stops; its input is left in
# build-fuzz/.
set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
cc=$(command -v clang-14 || command -v clang) || {
    echo "fuzz-trace: clang is missing (make setup installs it)" >&2
    exit 1
}
# libFuzzer leaves without clearing up after the target. In memory where possible: files are written for every case.
TMPDIR=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo /tmp)" contrail-fuzz-XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
for name in json trace detail demangle; do
    corpus=build-fuzz/corpus-$name
    mkdir -p "$corpus"
    "$cc" -std=gnu11 -g -O1 -Wall -Wextra -Wno-missing-field-initializers -D_GNU_SOURCE -DCT_LIBFUZZER \
        '-DCT_VERSION="fuzz"' \
        -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -Isrc -Iinclude -I. \
        -o "build-fuzz/${name}_fuzz" "tests/fuzz/${name}_fuzz.c" src/trace/*.c src/symbols/*.c \
        src/os/linux/*.c src/base/*.c -lpthread -llz4
    "build-fuzz/${name}_fuzz" -max_len=4096 -max_total_time="$seconds" -artifact_prefix=build-fuzz/ \
        -print_final_stats=1 "$corpus"
done

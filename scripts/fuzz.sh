#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Coverage-guided fuzzing of the decoder against Zydis: scripts/fuzz.sh [SECONDS [CORPUS]]
#
# Needs clang with its fuzzer runtime. The corpus (default build-fuzz/corpus) is kept from run to run. A finding prints
# its bytes and stops; its input is left in build-fuzz/. Add it to tests/unit/decode_test.c with the fix.
set -eu
cd "$(dirname "$0")/.."

seconds=${1:-300}
corpus=${2:-build-fuzz/corpus}
cc=$(command -v clang-14 || command -v clang) || {
    echo "fuzz: clang is missing (make setup installs it)" >&2
    exit 1
}
mkdir -p build-fuzz "$corpus"
python3 src/isa/x64/decode_gen.py src/isa/x64/decode_table.txt build-fuzz/x64_decode_tables.c
"$cc" -std=gnu11 -g -O2 -Wall -Wextra -D_GNU_SOURCE -DCT_LIBFUZZER -fsanitize=fuzzer,address,undefined \
    -fno-sanitize-recover=undefined -Isrc -Iinclude -o build-fuzz/decode_fuzz \
    tests/fuzz/decode_fuzz.c tests/diff/compare.c src/isa/x64/decode.c src/isa/x64/decode_effects.c \
    build-fuzz/x64_decode_tables.c -lZydis
exec build-fuzz/decode_fuzz -max_len=32 -len_control=0 -use_value_profile=1 -max_total_time="$seconds" \
    -artifact_prefix=build-fuzz/ -print_final_stats=1 "$corpus"

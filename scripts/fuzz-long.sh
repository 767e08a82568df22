#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The fuzzers for longer than `make test` has time: damaged files under sanitizers, from other seeds; the decoder
# against Zydis on every encoding, then guided by coverage; hostile targets for an hour.
set -eu
cd "$(dirname "$0")/.."

rounds=${FUZZ_ROUNDS:-1000000}
for seed in 3 5; do
    build-asan/tests/unit/functions_fuzz_test build-asan/tests/unit/libfunctions_sample.so "$rounds" "$seed"
done
build/tests/fuzz/decode_fuzz --sweep
scripts/fuzz.sh "${FUZZ_SECONDS:-300}"
scripts/fuzz-trace.sh "${FUZZ_SECONDS:-300}"
scripts/fuzz-hostile.sh "${HOSTILE_SECONDS:-1800}"

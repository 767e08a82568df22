#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds everything for arm64 into build-arm64/tree. 77: the cross compiler or the libraries cannot be had here
# (no network, no rights, not Debian); the last line says so.
#
# usage: cross-arm64.sh [NINJA-OPTION...]
set -eu
cd "$(dirname "$0")/.."
mkdir -p build-arm64
if ! cross=$(scripts/setup-arm64.sh 2>build-arm64/setup.log) || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
    cat build-arm64/setup.log
    echo "the arm64 compiler and libraries could not be installed"
    exit 77
fi
unset CC CXX # they are of this machine
[ -f build-arm64/tree/build.ninja ] || meson setup build-arm64/tree --cross-file "$cross" >build-arm64/tree.log || {
    cat build-arm64/tree.log
    rm -rf build-arm64/tree
    exit 1
}
ninja --quiet "$@" -C build-arm64/tree

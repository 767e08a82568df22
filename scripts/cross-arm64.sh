#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds everything for arm64 into build-arm64/tree. 77: the cross compiler or the libraries cannot be had here
# (no network, no rights, not Debian); the last line says so.
#
# usage: cross-arm64.sh [--quick] [NINJA-OPTION...]
# --quick: does it compile? Into build-arm64/quick, with less optimisation and without debug information.
set -eu
cd "$(dirname "$0")/.."
tree=build-arm64/tree
options=
if [ "${1:-}" = --quick ]; then
    shift
    tree=build-arm64/quick
    options="-Doptimization=1 -Ddebug=false"
fi
mkdir -p build-arm64
rm -f $tree.built
if ! cross=$(scripts/setup-arm64.sh 2>build-arm64/setup.log) || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
    cat build-arm64/setup.log
    echo "the arm64 compiler and libraries could not be installed"
    exit 77
fi
unset CC CXX # they are of this machine
# shellcheck disable=SC2086
[ -f $tree/build.ninja ] || meson setup $tree --cross-file "$cross" $options >$tree.log || {
    cat $tree.log
    rm -rf $tree
    exit 1
}
ninja --quiet "$@" -C $tree
touch $tree.built # tests may use it

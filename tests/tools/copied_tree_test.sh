#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# copied_tree_test.sh SOURCE: in a copy of a tree that was built, make builds the copy, not the tree it was copied from.
set -eu
source=$(cd "$1" && pwd -P)
work=$(cd "$(mktemp -d)" && pwd -P)
trap 'rm -rf "$work"' EXIT
cp "$source/Makefile" "$work"
mkdir -p "$work/build/meson-info"
touch "$work/build/build.ninja"

# built_from PATH: what make would do when the build directory names this source
built_from() {
    echo "{\"directories\": {\"source\": \"$1\", \"build\": \"$1/build\"}}" >"$work/build/meson-info/meson-info.json"
    make -n -C "$work" all
}

built_from /somewhere/else | grep -q "meson setup" || { echo "the build directory of another tree is used"; exit 1; }
! built_from "$work" | grep -q "meson setup" || { echo "the tree's own build directory is made again"; exit 1; }

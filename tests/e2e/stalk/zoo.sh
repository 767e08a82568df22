#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The hazard programs (tests/e2e/record/programs), built by gcc or clang in turn, natively and followed: same output,
# same exit status.
#   zoo.sh PRELOAD PROGRAMS [MODE...]   modes as in programs.sh
# CONTRAIL_TEST_LONG=1: each is built by both (make check-all).
# CONTRAIL_PREBUILT, CONTRAIL_CROSS: as in ../record/prebuilt.py; with a cross compiler the programs are only built.
preload=$(realpath "$1") || exit 1
programs=$2
shift 2
[ $# -gt 0 ] || set -- ''
failed=0
prebuilt=${CONTRAIL_PREBUILT:-/nonexistent}/zoo
cross=${CONTRAIL_CROSS:-}
if [ -n "$cross" ]; then
    work=$prebuilt
    rm -rf "$work"
    mkdir -p "$work"
else
    work=$(mktemp -d) || exit 1
    trap 'rm -rf "$work"' EXIT
fi
# Those that print what differs from run to run, or what they are linked with, and those that need more than one file,
# or flags of their own. (crowd takes a busy machine for an error.)
left_out=' clock fast_clock crowd descriptors surroundings constructors uses_library uses_library_old uses_library_new'
left_out="$left_out dlopen_plugin turns_boost turns_stackless takes_gs zero_pointers "
# Those with x86_64's instructions.
case ${cross:-$(uname -m)} in
x86_64*) ;;
*) left_out="${left_out}short_leaves short_leaves_changing short_leaves_only turns uses_gs " ;;
esac

build() { # source, name of the compiler, compiler for C, for C++
    name=$(basename "${1%.*}")
    compiler=$3
    [ "${1##*.}" = cc ] && compiler=$4
    $compiler -D_GNU_SOURCE -w -g -O1 -I "$programs/../.." "$1" -o "$work/$2_$name" -lpthread -ldl -lm 2>/dev/null ||
        { echo "FAILED: $name does not build with $compiler"; failed=1; }
}

build_all() {
    local with_clang=
    for source in "$programs"/*.c "$programs"/*.cc; do
        name=$(basename "${source%.*}")
        case $left_out$name in *" $name "* | *_library) continue ;; esac
        if [ -n "${CONTRAIL_TEST_LONG:-}" ] || [ -z "$with_clang" ]; then
            build "$source" gcc "${cross}gcc" "${cross}g++"
            with_clang=$(command -v clang-14)
            [ -z "$cross" ] || with_clang=
            [ -n "${CONTRAIL_TEST_LONG:-}" ] || continue
        fi
        [ -z "$with_clang" ] || build "$source" clang clang-14 clang++-14
        with_clang=
    done
}

if [ -d "$prebuilt" ] && [ -z "$cross" ]; then
    cp "$prebuilt"/* "$work"
else
    build_all
fi
[ -z "$cross" ] || exit "$failed"
cd "$work" || exit 1
for program in ./*; do
    expected=$(timeout 200 "$program" 2>&1 </dev/null; echo "status $?")
    for mode in "$@"; do
        # shellcheck disable=SC2086 # settings, one word each
        got=$(timeout 200 env LD_PRELOAD="$preload" ${mode//:/ } "$program" 2>&1 </dev/null; echo "status $?")
        [ "$expected" = "$got" ] && continue
        echo "FAILED: $program${mode:+ ($mode)}"
        diff <(echo "$expected") <(echo "$got") | head -5
        failed=1
    done
done
echo "$(find . -mindepth 1 -maxdepth 1 | wc -l) programs"
exit $failed

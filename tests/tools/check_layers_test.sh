#!/bin/sh
# The layer check finds each kind of violation in a small tree, and nothing in a clean one.
# usage: check_layers_test.sh path/to/check-layers.sh
set -u
check=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

fresh() {
    rm -rf "$tree/src" "$tree/include"
    for layer in base isa os code symbols hook trace report export cli; do
        mkdir -p "$tree/src/$layer"
    done
    mkdir -p "$tree/include/contrail"
}

# expect 0|1 "what" file content...
expect() {
    wanted=$1 what=$2 file=$3
    fresh
    shift 3
    printf '%s\n' "$@" >"$tree/$file"
    output=$(sh "$check" "$tree")
    status=$?
    [ "$status" = 0 ] || status=1
    if [ "$status" != "$wanted" ] || { [ "$wanted" = 1 ] && [ -z "$output" ]; }; then
        echo "FAILED: $what ($file)"
        echo "$output"
        failures=$((failures + 1))
    else
        echo "ok: $what"
    fi
}

expect 0 "downward include" src/hook/a.c '#include "symbols/functions.h"' '#include "hook/a.h"'
expect 1 "upward include" src/symbols/a.c '#include "hook/a.h"'
expect 1 "upward include with spaces" src/base/a.h '  #  include "isa/isa.h"'
expect 1 "include between neighbours" src/report/a.c '#include "export/a.h"'
expect 1 "private header of another folder" src/hook/a.c '#include "symbols/functions_internal.h"'
expect 0 "private header" src/hook/a.c '#include "hook/a_internal.h"'
expect 0 "include in a comment" src/base/a.h '/*' '#include "isa/isa.h"' '*/'
expect 0 "system header" src/hook/a.c '#include <stdlib.h>'

expect 1 "architecture" src/hook/a.c '#ifdef __x86_64__' '#endif'
expect 1 "system" src/hook/a.c '#if FOO && defined(__linux__)' '#endif'
expect 1 "architecture in a public header" include/contrail/a.h '#if defined __aarch64__' '#endif'
expect 0 "architecture in src/isa" src/isa/a.c '#ifdef __x86_64__' '#endif'
expect 0 "system in src/os" src/os/a.c '#ifdef __linux__' '#endif'
expect 0 "architecture in the atomics" src/base/atomic.h '#ifdef __x86_64__' '#endif'
expect 0 "compiler" src/hook/a.c '#ifdef __clang__' '#endif'

expect 1 "printf" src/hook/a.c 'void f(void) { printf("x"); }'
expect 1 "exit" src/symbols/a.c 'void f(void) {' '    exit(1);' '}'
expect 1 "stderr" src/symbols/a.c 'void f(void) { fputs("x", stderr); }'
expect 1 "abort after a comment" src/hook/a.c 'void f(void) { /* why */ abort (); }'
expect 0 "printf in src/cli" src/cli/a.c 'void f(void) { printf("x"); exit(0); }'
expect 0 "snprintf" src/hook/a.c 'void f(void) { snprintf(b, 1, "x"); ct_os_exit(1); }'
expect 0 "printf in comment and string" src/hook/a.c '/* printf(1) */ // exit(1)' 'char *s = "exit(\"(1)"; /* a' ' exit(1) */'

expect 1 "public header with an inner one" include/contrail/a.h '#include "hook/a.h"'
expect 1 "public header with a system header" include/contrail/a.h '#include <sys/types.h>'
expect 0 "public header with public ones" include/contrail/a.h '#include <contrail/b.h>' '#include <stdint.h>'

expect 1 "libc in src/code" src/code/a.c '#include <string.h>'
expect 1 "libc in src/os" src/os/a.c '#include <sys/mman.h>'
expect 0 "kernel header in src/os" src/os/a.c '#include <linux/mman.h>' '#include <asm/unistd.h>' '#include <stdatomic.h>'
expect 0 "status in src/isa" src/isa/a.c '#include <contrail/status.h>' '#include <stddef.h>'

fresh
mkdir -p "$tree/src/surprise"
echo >"$tree/src/surprise/a.c"
if sh "$check" "$tree" >/dev/null; then
    echo "FAILED: unknown layer"
    failures=$((failures + 1))
fi

[ "$failures" = 0 ]

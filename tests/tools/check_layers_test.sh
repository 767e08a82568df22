#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The layer check finds each kind of violation in a small tree, and nothing in a clean one.
# usage: check_layers_test.sh path/to/check-layers.sh
set -u
check=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

fresh() {
    rm -rf "$tree/src" "$tree/include" "$tree/abi"
    for layer in base isa isa/x64 isa/a64 os os/linux code symbols hook trace report export cli; do
        mkdir -p "$tree/src/$layer"
    done
    mkdir -p "$tree/include/contrail" "$tree/abi"
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
expect 0 "printf in comment and string" src/hook/a.c \
    '/* printf(1) */ // exit(1)' 'char *s = "exit(\"(1)"; /* a' ' exit(1) */'

expect 1 "public header with an inner one" include/contrail/a.h '#include "hook/a.h"'
expect 1 "public header with a system header" include/contrail/a.h '#include <sys/types.h>'
expect 0 "public header with public ones" include/contrail/a.h '#include <contrail/b.h>' '#include <stdint.h>'

expect 1 "libc in src/code" src/code/a.c '#include <string.h>'
expect 1 "libc in src/os" src/os/a.c '#include <sys/mman.h>'
expect 0 "kernel header in src/os" src/os/a.c \
    '#include <linux/mman.h>' '#include <asm/unistd.h>' '#include <stdatomic.h>'
expect 0 "status in src/isa" src/isa/a.c '#include <contrail/status.h>' '#include <stddef.h>'

expect 0 "abi with abi and public ones" abi/a.h '#include "abi/b.h"' '#include <contrail/event.h>' '#include <stdint.h>'
expect 0 "abi from above" src/base/a.h '#include "abi/a.h"'
expect 1 "abi with a layer" abi/a.h '#include "hook/layout.h"'
expect 1 "libc in abi" abi/a.h '#include <stdio.h>'
expect 1 "architecture in abi" abi/a.h '#ifdef __x86_64__' '#endif'

# What is of one machine, in files that are of none.
for word in 'struct user_regs_struct regs;' 'regs.fs_base = 0;' 'regs.gs_base = 0;' 'b->xsave_size = 0;' \
    'int a = CT_BLOCK_XSAVE_SIZE;' 'if (m == EM_X86_64) {}' 'if (m == EM_AARCH64) {}' 'int r = R_X86_64_RELATIVE;' \
    '__asm__("" : : : "memory"); rdtsc();' 'ct_x64_decode_x64();' 'struct ct_cpu_x64 cpu;' 'int n = COUNT_X64;' \
    'f_a64();' 'uint64_t tpidr;'; do
    expect 1 "$word" src/hook/a.c "$word"
    expect 0 "$word in an x64 file" src/hook/a_x64.c "$word"
done
expect 1 "a machine in a header" include/contrail/a.h 'struct ct_cpu_x64 cpu;'
expect 1 "a machine in abi" abi/a.h 'uint64_t gs_base;'
expect 1 "a machine in src/os" src/os/linux/a.c 'uint64_t gs_base;'
expect 1 "a machine beside its folder" src/isa/a.c 'f_x64();'
expect 0 "a machine in its folder" src/isa/x64/a.c 'f_x64();'
expect 0 "a machine in an a64 file" src/os/linux/a_a64.c 'uint64_t tpidr;'
expect 0 "a machine in a comment" src/hook/a.c '/* gs_base, stubs_x64.S */ int a; // xsave'
expect 0 "a machine in a file that may know" include/contrail/cpu.h 'struct ct_cpu_x64 { int a; };'
expect 1 "header of isa/x64" src/hook/a.c '#include "isa/x64/decode.h"'
expect 1 "header of one machine" src/hook/a.c '#include "hook/emit_x64.h"'
expect 0 "header of one machine in its file" src/hook/a_x64.c '#include "isa/x64/decode.h"' '#include "hook/emit_x64.h"'
expect 0 "header of all machines" src/hook/a.c '#include "isa/machine.h"'

# The size of pages.
for code in 'x = at & ~0xfff;' 'x = at & ~0xfffull;' 'x = at & 0xfff;' 'x = (at + 4095) & ~(uint64_t)4095;' \
    'x = at + 4095;' 'x = at & ~UINT64_C(4095);' 'x = at & ~(4096 - 1);' 'x = at / 4096;' 'x = at % 4096u;' \
    '#define PAGE 4096u' 'enum { PAGE = 4096 };' '#define CT_PAGE_SIZE 4096'; do
    expect 1 "$code" src/hook/a.c "$code"
done
expect 0 "pages in an x64 file" src/os/linux/a_x64.h '#define CT_PAGE_SIZE 4096u'
expect 0 "no page" src/hook/a.c \
    'char name[4096];' 'x = at & 0xffff;' 'x = at & (ct_os_page_size() - 1);' 'if (result < -4095) {}'

fresh
mkdir -p "$tree/src/surprise"
echo >"$tree/src/surprise/a.c"
if sh "$check" "$tree" >/dev/null; then
    echo "FAILED: unknown layer"
    failures=$((failures + 1))
fi

[ "$failures" = 0 ]

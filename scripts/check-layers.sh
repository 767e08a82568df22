#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks what the folders promise each other:
#   1  includes go downward only, in the order of LAYERS; NAME_internal.h is included by its own folder only
#   2  no conditional on architecture or operating system outside src/isa, src/os and the atomics of src/base
#   3  only src/cli prints or exits
#   4  public headers include only public headers
#   5  src/isa, src/os, src/code and abi include no libc header
#   6  only files of a machine (*_x64.*, *_a64.*, src/isa/x64, src/isa/a64) know it: no other code names its registers,
#      kernel structures, instructions or files, nor the size of its pages
# Comments may name anything. Prints each violation as file:line: text and fails when there is one. The tree to check
# may be given (for tests).
set -eu
root=${1:-$(dirname "$0")/..}
cd "$root"

# Files that know a machine although their names do not say so: they choose one, or describe what all have.
KNOWN='
abi/atf.h                        the format of trace files counts the registers of both
include/contrail/cpu.h           the structures of all machines, for users
src/hook/page_writer.h           pieces of 4 KiB: pages of all machines are multiples of it
src/inspect/process.h            the same
src/trace/symbols_writer.c       the same
src/isa/host.h                   chooses
src/isa/machine.c                chooses
src/isa/machine.h                the tables of both
src/isa/text.c                   chooses
src/os/linux/syscall_arch.h      chooses
src/symbols/branches.c           chooses
src/symbols/branches.h           of both
src/symbols/parameters.h         the conventions of both
src/symbols/parameters_places.c  chooses
'
export KNOWN

{
    find src -type f \( -name '*.c' -o -name '*.h' -o -name '*.S' \)
    for folder in include abi; do
        [ ! -d "$folder" ] || find "$folder" -type f -name '*.h'
    done
} | sort | xargs awk '
BEGIN {
    layers = "base isa os code symbols hook stalk remote agent trace plan drain inject inspect doctor " \
             "session follow script report query export http mcp,view,tui cli"
    n = split(layers, level, " ")
    for (i = 1; i <= n; i++) {
        m = split(level[i], names, ",")
        for (k = 1; k <= m; k++)
            rank[names[k]] = i
    }
    rank["abi"] = 0
    m = split("__x86_64__ __amd64__ __i386__ __aarch64__ __arm__ __riscv __linux__ __linux __unix__ __APPLE__ " \
              "__FreeBSD__ _WIN32 __ANDROID__", platforms, " ")
    for (k = 1; k <= m; k++)
        platform = platform (k > 1 ? "|" : "") platforms[k]
    output = "(^|[^A-Za-z0-9_.>])(printf|vprintf|puts|putchar|perror|exit|_exit|_Exit|quick_exit|abort)[ \t]*\\("
    freestanding = "^<(stdint|stddef|stdbool|stdatomic|stdarg)\\.h>$|^<(linux|asm|asm-generic)/"
    machine = "user_regs_struct|[fg]s_base|[xX][sS][aA][vV][eE]|EM_X86|EM_AARCH64|" \
              "R_X86_64|R_AARCH64|rdtsc|_[xX]64|_[aA]64|tpidr"
    # & ~0xfff, + 4095, % 4096, #define PAGE 4096
    page = "[&+][ \\t]*~?[ \\t]*(\\([a-z0-9_]+\\)[ \\t]*)?(UINT64_C)?\\(?" \
           "(0xfff|4095|4096[uUlL]*[ \\t]*-[ \\t]*1)([^0-9a-fA-F]|$)" \
           "|[%/][ \\t]*4096([^0-9]|$)|PAGE(_SIZE)?[ \\t]*=?[ \\t]*4096([^0-9]|$)"
    m = split(ENVIRON["KNOWN"], lines, "\n")
    for (k = 1; k <= m; k++) {
        split(lines[k], names, " ")
        known[names[1]] = 1
    }
    public_headers = "^<(contrail/[a-z_0-9]+|stdint|stddef|stdbool)\\.h>$"
}

function complain(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    failed = 1
}

# In a file that should not know the machine.
function knows(text) {
    if (!(FILENAME in known) && FILENAME !~ /_(x64|a64)\.[a-zA-Z]+$/ && FILENAME !~ /^src\/isa\/(x64|a64)\//)
        complain(text)
}

# The line without comments and without what is in quotes. Includes are looked at before.
function code_of(line,    out, at) {
    out = ""
    while (line != "") {
        if (in_comment) {
            at = index(line, "*/")
            if (!at)
                return out
            line = substr(line, at + 2)
            in_comment = 0
        } else if (match(line, /\/\*|\/\/|"([^"\\]|\\.)*"|\047([^\047\\]|\\.)*\047/)) {
            out = out substr(line, 1, RSTART - 1) " "
            token = substr(line, RSTART, 2)
            line = substr(line, RSTART + RLENGTH)
            if (token == "//")
                return out
            in_comment = token == "/*"
        } else {
            return out line
        }
    }
    return out
}

FNR == 1 {
    in_comment = 0
    split(FILENAME, part, "/")
    layer = part[1] == "src" ? part[2] : part[1] == "abi" ? "abi" : ""
    folder = layer == "abi" ? layer : "src/" layer
    if (layer != "" && !(layer in rank) && part[3] != "")
        complain("the layer " layer " is not known; its place belongs into scripts/check-layers.sh")
}

!in_comment && /^[ \t]*#[ \t]*include/ {
    file = $0
    sub(/^[ \t]*#[ \t]*include[ \t]*/, "", file)
    match(file, /^("[^"]*"|<[^>]*>)/)
    file = substr(file, 1, RLENGTH)
    split(substr(file, 2), part, "/")
    if (layer in rank && part[1] in rank && file ~ /^"/) {
        if (rank[part[1]] > rank[layer])
            complain(folder " must not include " file ": it is a higher layer")
        else if (part[1] != layer && file ~ /_internal\.h"$/)
            complain(folder " must not include " file ": it is private to src/" part[1])
        else if (rank[part[1]] == rank[layer] && part[1] != layer)
            complain(folder " must not include " file ": they are side by side")
    }
    if (file ~ /_(x64|a64)\.|^"isa\/(x64|a64)\//)
        knows("includes " file ", which is of one machine")
    if (layer == "" && file !~ public_headers)
        complain("a public header must not include " file)
    if (layer ~ /^(abi|isa|os|code)$/ && file ~ /^</ && file !~ freestanding && file !~ /^<contrail\//)
        complain(folder " is freestanding and must not include " file)
    next
}

{
    line = code_of($0)
    if (line ~ /^[ \t]*#[ \t]*(if|ifdef|ifndef|elif)/ && line ~ "(^|[^A-Za-z0-9_])(" platform ")([^A-Za-z0-9_]|$)" &&
        layer !~ /^(isa|os)$/ && FILENAME !~ /^src\/base\/atomic/)
        complain("conditional on architecture or operating system outside src/isa and src/os")
    if (layer != "" && layer != "cli" && FILENAME !~ /\.S$/ && line ~ output)
        complain("only src/cli prints or exits")
    if (layer != "" && layer != "cli" && line ~ /(^|[^A-Za-z0-9_.>])(stdout|stderr)([^A-Za-z0-9_]|$)/)
        complain("only src/cli prints")
    if (line ~ machine)
        knows("only files of a machine may name what is of one")
    if (line ~ page)
        knows("the size of pages is ct_os_page_size()")
}

END {
    exit failed
}
'

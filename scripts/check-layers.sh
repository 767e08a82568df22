#!/bin/sh
# Checks what the folders promise each other:
#   1  includes go downward only, in the order of LAYERS; NAME_internal.h is included by its own folder only
#   2  no conditional on architecture or operating system outside src/isa, src/os and the atomics of src/base
#   3  only src/cli prints or exits
#   4  public headers include only public headers
#   5  src/isa, src/os and src/code include no libc header
# Prints each violation as file:line: text and fails when there is one. The tree to check may be given (for tests).
set -eu
root=${1:-$(dirname "$0")/..}
cd "$root"

{
    find src -type f \( -name '*.c' -o -name '*.h' -o -name '*.S' \)
    [ ! -d include ] || find include -type f -name '*.h'
} | sort | xargs awk '
BEGIN {
    layers = "base isa os code symbols hook stalk remote agent trace plan drain inject inspect doctor session follow report,export cli"
    n = split(layers, level, " ")
    for (i = 1; i <= n; i++) {
        m = split(level[i], names, ",")
        for (k = 1; k <= m; k++)
            rank[names[k]] = i
    }
    m = split("__x86_64__ __amd64__ __i386__ __aarch64__ __arm__ __riscv __linux__ __linux __unix__ __APPLE__ " \
              "__FreeBSD__ _WIN32 __ANDROID__", platforms, " ")
    for (k = 1; k <= m; k++)
        platform = platform (k > 1 ? "|" : "") platforms[k]
    output = "(^|[^A-Za-z0-9_.>])(printf|vprintf|puts|putchar|perror|exit|_exit|_Exit|quick_exit|abort)[ \t]*\\("
    freestanding = "^<(stdint|stddef|stdbool|stdatomic|stdarg)\\.h>$|^<(linux|asm|asm-generic)/"
    public_headers = "^<(contrail/[a-z_0-9]+|stdint|stddef|stdbool)\\.h>$"
}

function complain(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    failed = 1
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
    layer = part[1] == "src" ? part[2] : ""
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
            complain("src/" layer " must not include " file ": it is a higher layer")
        else if (part[1] != layer && file ~ /_internal\.h"$/)
            complain("src/" layer " must not include " file ": it is private to src/" part[1])
        else if (rank[part[1]] == rank[layer] && part[1] != layer)
            complain("src/" layer " must not include " file ": they stand side by side")
    }
    if (layer == "" && file !~ public_headers)
        complain("a public header must not include " file)
    if (layer ~ /^(isa|os|code)$/ && file ~ /^</ && file !~ freestanding && file !~ /^<contrail\//)
        complain("src/" layer " is freestanding and must not include " file)
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
}

END { exit failed }
'

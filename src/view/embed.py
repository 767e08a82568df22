#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes an assembly file that holds the bytes of files, and a C file with the list of them (files.h).

usage: embed.py OUTPUT.S OUTPUT.c FILE..."""
import hashlib
import os
import sys

assembly, source, *paths = sys.argv[1:]
paths.sort()
with open(assembly, "w") as out:
    out.write("    .section .rodata\n")
    for i, path in enumerate(paths):
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()  # the object follows the contents
        for name in f"ct_view_file_{i}", f"ct_view_file_{i}_end":
            out.write(f"    .globl {name}\n    .hidden {name}\n")
        out.write(f"/* {os.path.basename(path)} {digest} */\n")
        out.write(f'ct_view_file_{i}:\n    .incbin "{os.path.abspath(path)}"\nct_view_file_{i}_end:\n    .byte 0\n')
    out.write('    .section .note.GNU-stack,"",@progbits\n')
with open(source, "w") as out:
    out.write('#include "view/files.h"\n')
    for i in range(len(paths)):
        out.write(f"extern const char ct_view_file_{i}[], ct_view_file_{i}_end[];\n")
    out.write("const struct ct_view_file ct_view_files[] = {\n")
    for i, path in enumerate(paths):
        out.write(f'    {{"{os.path.basename(path)}", ct_view_file_{i}, ct_view_file_{i}_end}},\n')
    out.write("    {0}};\n")

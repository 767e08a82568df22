#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes an assembly file that holds a file's bytes under a name.

usage: embed.py FILE OUTPUT NAME"""
import hashlib
import os
import sys

path, output, name = sys.argv[1:4]
with open(path, "rb") as file:
    digest = hashlib.sha256(file.read()).hexdigest()
with open(output, "w") as out:
    out.write(f"""/* {digest} */
    .section .rodata
    .balign 4096
    .globl {name}
    .hidden {name}
{name}:
    .incbin "{os.path.abspath(path)}"
    .section .note.GNU-stack,"",@progbits
""")

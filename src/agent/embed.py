#!/usr/bin/env python3
"""Writes an assembly file that holds a file's bytes between ct_agent_image and ct_agent_image_end."""
import hashlib
import os
import sys

path, output = sys.argv[1], sys.argv[2]
with open(path, "rb") as file:
    digest = hashlib.sha256(file.read()).hexdigest()
with open(output, "w") as out:
    out.write(f"""/* {digest} */
    .section .rodata
    .balign 4096
    .globl ct_agent_image, ct_agent_image_end
    .hidden ct_agent_image, ct_agent_image_end
ct_agent_image:
    .incbin "{os.path.abspath(path)}"
ct_agent_image_end:
    .section .note.GNU-stack,"",@progbits
""")

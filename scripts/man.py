#!/usr/bin/env python3
"""man.py CONTRAIL TEMPLATE: writes the manual page: the template with the help text of every command."""

import re
import subprocess
import sys

contrail, template = sys.argv[1:]


def ask(*words):
    return subprocess.run([contrail, *words], capture_output=True, text=True, check=True).stdout


def roff(line):
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line[:1] in (".", "'") else line


def command(name):
    """Paragraphs of the description are filled; the rest of the text has its own layout."""
    usage, description, rest = re.match(r"Usage: (.*?)\n\n(.*?)\n\n(Options:\n.*)", ask("help", name), re.S).groups()
    lines = [".SS " + roff(usage), *map(roff, description.replace("\n\n", "\n.PP\n").split("\n"))]
    lines = [line.replace("\\&.PP", ".PP") for line in lines]
    return lines + [".PP", ".nf", *map(roff, rest.rstrip("\n").split("\n")), ".fi"]


names = re.findall(r"(?m)^  (\S+)", ask("--help"))
text = "\n".join(line for name in names for line in command(name))
with open(template) as file:
    page = file.read()
page = page.replace("@VERSION@", ask("--version").split()[1]).replace("@COMMANDS@", text)
sys.stdout.write(page)

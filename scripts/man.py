#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""man.py CONTRAIL TEMPLATE: the manual page contrail(1): the template with a list of the commands.
man.py CONTRAIL --command NAME: the manual page contrail-NAME(1), from the command's --help text."""

import re
import subprocess
import sys


def ask(*words):
    return subprocess.run([contrail, *words], capture_output=True, text=True, check=True).stdout


def roff(line):
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line[:1] in (".", "'") else line


def summaries():
    return dict(re.findall(r"(?m)^  (\S+) +(.*)", ask("--help")))


def version():
    return ask("--version").split()[1]


def overview(template):
    lines = [line for name, summary in summaries().items()
             for line in (".TP", f".BR contrail\\-{name} (1)", roff(summary))]
    see = ",\n".join(f".BR contrail\\-{name} (1)" for name in summaries())
    with open(template) as file:
        page = file.read()
    return page.replace("@VERSION@", version()).replace("@COMMANDS@", "\n".join(lines)).replace("@SEE@", see)


# ---- a command ----

def words(text):
    """OPTIONS and such are set in italics, what is to be typed as it is stays upright."""
    return re.sub(r"[A-Z][A-Z|]+", lambda found: f"\\fI{found[0]}\\fR", roff(text))


def paragraphs(text):
    lines = "\n.PP\n".join(" ".join(map(roff, part.split("\n"))) for part in text.split("\n\n"))
    return lines.split("\n")


def option(head, text):
    names = re.sub(r"\\-\\?-?[\w\\-]+", lambda found: f"\\fB{found[0]}\\fR", roff(head))
    names = re.sub(r"(?<=\s)(?!\\fB)([A-Z]\S*)", r"\\fI\1\\fR", names)
    return [".TP", names, roff(" ".join(text.split()))]


def options(text):
    lines = []
    for head, rest in re.findall(r"(?m)^ {2,6}(-.*?)(?:  +|\n {30})(\S.*(?:\n {30}.*)*)", text):
        lines += option(head, rest)
    return lines


def section(title, text):
    """Its lines stay as they are."""
    return [f'.SH "{title.upper()}"', ".nf",
            *(roff(line[2:] if line.startswith("  ") else line) for line in text.rstrip("\n").split("\n")), ".fi"]


def command(name):
    head, description, rest = re.match(r"Usage: contrail (.*?)\n\n(.*?)\n\nOptions:\n(.*)", ask("help", name),
                                       re.S).groups()
    parts = re.split(r"(?m)^(\S.*):\n", rest)
    lines = [f".\\\" Made from the text of `contrail {name} --help` by scripts/man.py.",
             f'.TH CONTRAIL\\-{name.upper()} 1 "" "contrail {version()}" "User Commands"',
             ".SH NAME", f"contrail\\-{name} \\- {roff(summaries()[name])}",
             ".SH SYNOPSIS", f".B contrail {name}", words(head[len(name) + 1:]),
             ".SH DESCRIPTION", *paragraphs(description), ".SH OPTIONS", *options(parts[0])]
    for title, text in zip(parts[1::2], parts[2::2]):
        lines += section(title, text)
    return "\n".join([*lines, '.SH "SEE ALSO"', ".BR contrail (1)"]) + "\n"


contrail = sys.argv[1]
sys.stdout.write(command(sys.argv[3]) if sys.argv[2] == "--command" else overview(sys.argv[2]))

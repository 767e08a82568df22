#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reading commands on a terminal and in pipes that close.

terminal.py CONTRAIL MAKE_TRACE: on a terminal, lines are cut at its width, coloured unless NO_COLOR is set, and go
through $PAGER. In a pipe none of this happens, and the command ends quietly if the reader closes the pipe."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

WHOLE = "whole/session_20250102_030405"
MANY = "many/session_20250102_030405"
LONG = "std::map<std::basic_string<char>, int>::operator[](std::basic_string<char> const&)"
SHORT = "std::map<std::string, int>::operator[](std::string const&)"
SHORTER = "std::map<std::string, int>::operator[](…)"
failed = 0


def check(what, good, seen):
    global failed
    if not good:
        failed += 1
        print(f"FAILED: {what}\n{seen}")


def environment(**more):
    keep = {name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}
    return keep | {"TERM": "xterm", "LC_ALL": "C.UTF-8"} | more


def on_terminal(words, directory, width, **more):
    """What the command prints on a terminal of this width, and its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    child = subprocess.Popen(words, cwd=directory, env=environment(**more), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    out = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        out += part
    os.close(ours)
    return out.decode().replace("\r\n", "\n"), child.wait()


def narrow(contrail, directory):
    """Columns are left out, the percentiles first; never the one of --sort."""
    def head(width, *words, **more):
        out, _ = on_terminal([contrail, "report", WHOLE, *words], directory, width, PAGER="cat", NO_COLOR="1", **more)
        rows = out.split("\n\n")[0].replace(" (1 open)", "").splitlines()
        check(f"report keeps to {width} columns", more or all(len(line) <= width for line in rows), out)
        return rows[0].split()
    whole = "CALLS TOTAL SELF % AVG MAX P50 P95 P99 FUNCTION".split()
    check("report has all columns at 130", head(130) == whole, head(130))
    check("report leaves out percentiles first", head(100) == whole[:6] + ["P99", "FUNCTION"], head(100))
    check("report has five columns at 80", head(80) == whole[:5] + ["FUNCTION"], head(80))
    check("report keeps the column of --sort", "P50" in head(80, "--sort", "p50"), head(80, "--sort", "p50"))
    check("COLUMNS replaces the width", head(80, COLUMNS="130") == whole, head(80, COLUMNS="130"))


def flame(contrail, directory):
    """The picture has the width of the terminal, and a colour for each box."""
    for width in (40, 90):
        out, code = on_terminal([contrail, "graph", "--flame", WHOLE], directory, width, PAGER="cat", NO_COLOR="1")
        rows = out.split("\n\n")[0].splitlines()
        check(f"the flame graph has {width} columns", code == 0 and max(map(len, rows)) == width == len(rows[0]), out)
    out, _ = on_terminal([contrail, "graph", "--flame", WHOLE], directory, 90, PAGER="cat")
    rows = out.split("\n\n")[0].splitlines()
    check("the flame graph has colours", all("\033[30;" in row and "[main" not in row for row in rows), out)
    plain = re.sub(r"\033\[[0-9;]*m", "", rows[0])
    check("the flame graph has the width with colours, too", len(plain) == 90, plain)


def terminal(contrail, directory):
    for command in ("report", "replay"):
        out, code = on_terminal([contrail, command, WHOLE], directory, 90, PAGER="cat", NO_COLOR="1")
        check(f"{command} exits with 0", code == 0, out)
        check(f"{command} leaves out parameters or the end", SHORT not in out and "std::map<" in out and "…" in out, out)
        rows = [line for line in out.splitlines() if "std::map<" in line]
        check(f"{command} keeps to the width", all(len(line) <= 90 for line in rows), out)
        check(f"{command} has no colours with NO_COLOR", "\033" not in out, out)
        out, _ = on_terminal([contrail, command, WHOLE], directory, 300, PAGER="cat")
        check(f"{command} has colours", "\033[" in out, out)
        check(f"{command} has room for long names", SHORT in out, out)
        out, _ = on_terminal([contrail, command, "--full-names", WHOLE], directory, 300, PAGER="cat")
        check(f"{command} has room for full names", LONG in out, out)
    out, _ = on_terminal([contrail, "replay", WHOLE], directory, 100, PAGER="cat", NO_COLOR="1")
    check("parameters are left out first", SHORTER in out, out)
    out, _ = on_terminal([contrail, "report", WHOLE], directory, 120, PAGER="cat", NO_COLOR="1", LC_ALL="C")
    check("without UTF-8, names end with dots", "..." in out and out.isascii(), out)
    narrow(contrail, directory)
    flame(contrail, directory)
    out, code = on_terminal([contrail, "report", "--histogram", "leaf", WHOLE], directory, 60, PAGER="cat",
                            NO_COLOR="1", LC_ALL="C")
    rows = out.split("\n\n")[0].splitlines()
    check("bars have the width of the terminal, and are ASCII without UTF-8",
          code == 0 and max(map(len, rows)) == 60 and out.isascii() and "###" in out, out)
    out, code = on_terminal([contrail, "replay", WHOLE], directory, 120, PAGER="sed 's/^/PAGED /'", NO_COLOR="1")
    check("replay goes through $PAGER", code == 0 and all(line.startswith("PAGED ") for line in out.splitlines()), out)
    out, code = on_terminal([contrail, "replay", WHOLE], directory, 120, PAGER="head -n 1", NO_COLOR="1")
    check("a pager that leaves early is no error", code == 0 and len(out.splitlines()) == 1, out)


def pipes(contrail, directory):
    done = subprocess.run([contrail, "replay", WHOLE], cwd=directory, env=environment(PAGER="false"),
                          capture_output=True, text=True)
    check("a pipe has parameters, no colours and no pager", SHORT in done.stdout and "\033" not in done.stdout, done)
    for command in ("info", "report", "replay", "verify"):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run([contrail, command, MANY], cwd=directory, env=environment(), stdout=writing,
                              stderr=subprocess.PIPE, text=True)
        os.close(writing)
        check(f"{command}: a closed pipe is no error", done.returncode == 0 and done.stderr == "", done)
        with open("/dev/full", "w") as full:
            done = subprocess.run([contrail, command, MANY], cwd=directory, env=environment(), stdout=full,
                                  stderr=subprocess.PIPE, text=True)
        check(f"{command}: a full disk is told", done.returncode == 69 and "could not be written" in done.stderr, done)


def main():
    contrail, make_trace = os.path.abspath(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([make_trace, directory], check=True)
        terminal(contrail, directory)
        pipes(contrail, directory)
    print(f"{failed} checks failed" if failed else "all checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

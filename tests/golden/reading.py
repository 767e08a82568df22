#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Output of the reading commands, word for word.

reading.py CONTRAIL MAKE_TRACE CASES [--update]

Each file of CASES begins with the command ("$ contrail info ...", run in a directory where MAKE_TRACE has made its
traces; if MAKE_TRACE is a directory, its archives were unpacked there). The command's output follows (standard output, then errors after "2> "), then "exit N". With --update the files
are written again, so that git shows the difference. JSON is also parsed."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile


def run(contrail, command, directory):
    words = shlex.split(command.removeprefix("$ "))
    assert words[0] == "contrail", command
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
        if name in os.environ:
            environment[name] = os.environ[name]
    done = subprocess.run([contrail] + words[1:], cwd=directory, env=environment, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=120)
    if "--json" in words and done.returncode < 64:
        json.loads(done.stdout)
    # what a trace takes on disk depends on the file system
    done.stdout = re.sub(r'"disk_bytes":\d+', '"disk_bytes":0', done.stdout)
    done.stdout = re.sub(r"(?m)^Size       .* on disk$", "Size       0 B on disk", done.stdout)
    errors = "".join("2> " + line + "\n" for line in done.stderr.splitlines())
    return f"{command}\n{done.stdout}{errors}exit {done.returncode}\n"


def main():
    update = "--update" in sys.argv
    contrail, make_trace, cases = [argument for argument in sys.argv[1:] if argument != "--update"]
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        if os.path.isdir(make_trace):
            for archive in pathlib.Path(make_trace).glob("*.tar.xz"):
                shutil.unpack_archive(archive, directory)
        else:
            subprocess.run([make_trace, directory], check=True)
        for case in sorted(pathlib.Path(cases).glob("*.txt")):
            expected = case.read_text()
            got = run(os.path.abspath(contrail), expected.split("\n", 1)[0], directory)
            if update:
                case.write_text(got)
            elif got != expected:
                failed += 1
                print(f"--- {case.name}: expected\n{expected}--- got\n{got}")
    print(f"{failed} cases differ" if failed else "all cases agree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Program files: what README.md describes, read and checked. A file with a word that is not known is an error."""
import glob
import os
import re
import shutil
import subprocess
import tomllib

DIRECTORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
MODES = ("record", "detail", "stalk", "attach", "stalk-attach")
KEYS = {"packages", "setup", "command", "env", "stdin", "compare", "files", "filters", "server", "leave_out", "tags",
        "amount", "inputs", "attach"}
STREAMS = {"stdout", "stderr", "code"}
NUMBER = "@N@"  # stands for the amount of work


class BadProgram(Exception):
    """What is wrong with a program file."""


class Program:
    def __init__(self, path):
        self.path, self.name = path, os.path.splitext(os.path.basename(path))[0]
        try:
            with open(path, "rb") as f:
                self.data = tomllib.load(f)
        except tomllib.TOMLDecodeError as e:
            raise BadProgram("%s: %s" % (path, e))
        get = self.data.get
        self.packages, self.command, self.tags = get("packages", []), get("command", []), get("tags", [])
        self.setup, self.inputs, self.environment = get("setup", ""), get("inputs", {}), get("env", {})
        self.stdin, self.files, self.server = get("stdin"), get("files", []), get("server", {})
        self.compare = set(get("compare", sorted(STREAMS - {"stderr"} if self.server else STREAMS)))
        self.filters = [(re.compile(a.encode(), re.M), b.encode()) for a, b in get("filters", [])]
        self.leave_out = get("leave_out", {})
        self.amount = get("amount", 0)
        self.attach_child = get("attach") == "child"
        self.check()

    def check(self):
        def need(holds, sentence):
            if not holds:
                raise BadProgram("%s: %s" % (self.path, sentence))
        need(not set(self.data) - KEYS, "unknown: %s" % sorted(set(self.data) - KEYS))
        need(self.packages and self.command, "packages and command are needed")
        need(isinstance(self.command, list), "command is a list of words")
        need(self.compare <= STREAMS, "compare knows %s" % sorted(STREAMS))
        need(self.compare & {"stdout", "stderr"} or self.files, "nothing that the program makes is compared")
        need(not set(self.leave_out) - set(MODES), "leave_out knows %s" % (MODES,))
        need(not self.server or set(self.server) == {"ready", "load", "stop"}, "server has ready, load and stop")
        need(self.data.get("attach", "self") in ("self", "child"), "attach is self or child")
        need(self.amount or NUMBER not in str(self.data), "%s without amount" % NUMBER)

    def fill(self, text, share):
        return text.replace(NUMBER, str(max(1, int(self.amount * share))))

    def prepare(self, directory, share, environment):
        """Fills the directory that each run gets a copy of: inputs first, then what setup makes of them."""
        os.mkdir(os.path.join(directory, "tmp"))
        for name, text in self.inputs.items():
            with open(os.path.join(directory, name), "w") as f:
                f.write(self.fill(text, share))
        done = subprocess.run(["sh", "-e", "-c", self.fill(self.setup, share)], cwd=directory, env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise BadProgram("%s: setup ends with %d: %s" % (self.path, done.returncode,
                                                            done.stdout.decode(errors="replace")[-2000:]))

    def words(self, share):
        return [self.fill(word, share) for word in self.command]


def load(names=(), directory=DIRECTORY):
    """All programs, or those that are named."""
    paths = sorted(glob.glob(os.path.join(glob.escape(directory), "*.toml")))
    programs = [Program(path) for path in paths]
    unknown = set(names) - {p.name for p in programs}
    if unknown:
        raise BadProgram("there is no program file for %s" % ", ".join(sorted(unknown)))
    return [p for p in programs if not names or p.name in names]


def missing_packages(programs):
    """Names of packages that are not installed."""
    wanted = sorted({package for p in programs for package in p.packages})
    if not shutil.which("dpkg-query"):
        return set()
    shown = subprocess.run(["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package}\n"] + wanted,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
    return set(wanted) - {line.split()[1] for line in shown.splitlines() if line.startswith("installed ")}


# ---- packages-fidelity.txt ----

HEAD = "# Debian packages that `make fidelity` needs beyond those of packages.txt, one per line. " \
       "`tests/fidelity/fidelity.py\n" \
       "# --write-packages` makes this file from the program files.\n"


def listed(path):
    with open(path) as f:
        return {line.split("#")[0].strip() for line in f} - {""}


def package_list(root):
    """What packages-fidelity.txt has to be."""
    needed = {package for p in load() for package in p.packages}
    return HEAD + "".join(name + "\n" for name in sorted(needed - listed(os.path.join(root, "packages.txt"))))

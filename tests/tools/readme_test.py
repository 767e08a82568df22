#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""readme_test.py ROOT CONTRAIL: the documents promise what the program does.

The commands of README.md and docs/TOUR.md run in a new directory, with small programs in place of the reader's. Each
ends as it should, and prints the lines that README.md shows. Options that any document names are in the help of their
commands. (Those of docs/FINDING-BUGS.md are run by tests/e2e/bugs/find.py.)"""

import difflib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
CONTRAIL = pathlib.Path(sys.argv.pop(1)).resolve()
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md"] + sorted((ROOT / "docs").glob("*.md"))
RUN = [ROOT / "README.md", ROOT / "docs/TOUR.md"]
LIMIT = 60

# Commands that do not run here, and why. A part of the line.
SKIPPED = {
    "make ": "builds or installs: other tests do this",
    "meson setup": "builds",
    "contrail script": "needs Node: tests/node runs the scripts",
    "gcc watch.c": "needs an installed library: check-deb.sh compiles it",
    "attach $(pidof redis-server)": "runs until Ctrl-C",
    "stalk --summary -- make": "follows compilers: the stalk tests follow families",
}
STATUS = {"./orders": 128 + signal.SIGSEGV, "/tmp/orders": 128 + signal.SIGSEGV}  # of the programs, passed on by spawn
PROGRAMS = {  # with what the commands look for; 4711 is server with an argument
    "orders": (ROOT / "examples/orders.c").read_text(),
    "prog": (ROOT / "examples/tour.c").read_text(),
    "server": """
        #include <fcntl.h>
        #include <unistd.h>
        static char large[8192];
        __attribute__((noinline)) int parse_header(int n) { return open("/etc/no.conf", O_RDONLY) + n; }
        __attribute__((noinline)) int handle_request(int n) { return parse_header(n) - 1; }
        __attribute__((noinline)) int query_all(int n) { usleep(1000); return handle_request(n); }
        int main(int argc, char **argv) {
            int null = open("/dev/null", O_WRONLY), sum = (int)write(null, large, sizeof large);
            alarm(60);
            do
                sum += query_all(argc);
            while (argv[1]);
            return sum == 0;
        }""",
    "hang": """
        #include <pthread.h>
        #include <unistd.h>
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static void *work(void *unused) { pthread_mutex_lock(&lock); return unused; }
        int main(void) {
            pthread_t thread;
            alarm(2);
            pthread_mutex_lock(&lock);
            pthread_create(&thread, NULL, work, NULL);
            pthread_join(thread, NULL);
        }""",
}


# ---- what the documents have ----

def fences(path):
    """(language, lines) of each block of code."""
    for match in re.finditer(r"(?ms)^```(\w*)\n(.*?)^```$", path.read_text()):
        yield match.group(1), match.group(2).splitlines()


def spans(path):
    """Code in prose; it may go on in the next line."""
    text = re.sub(r"(?ms)^```.*?^```$", "", path.read_text())
    for match in re.finditer(r"(?<!`)`([^`]+)`(?!`)", text):
        yield " ".join(match.group(1).split())


def words(line):
    """Simple commands of a line of shell, without the comment."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&")
    lexer.whitespace_split = True
    command = []
    for word in lexer:
        if set(word) <= set("|;&"):
            yield command
            command = []
        else:
            command.append(word)
    yield command


def shell_lines(path):
    for language, lines in fences(path):
        for line in lines if language == "sh" else ():
            if line.strip() and not line.strip().startswith("#"):
                yield line


# ---- options ----

def helps():
    """command: {option: whether a value follows}, of all commands."""
    page = subprocess.run([CONTRAIL, "--help"], capture_output=True, text=True, timeout=LIMIT).stdout
    found = {}
    for name in re.findall(r"(?m)^  ([a-z]+)  +\S", page):
        text = subprocess.run([CONTRAIL, name, "--help"], capture_output=True, text=True, timeout=LIMIT).stdout
        found[name] = {}
        for short, long, value in re.findall(r"(?m)^  (?:(-\w), |    )(--[\w-]+)( [A-Z]\S*)?", text):
            found[name].update({option: bool(value) for option in (short, long) if option})
    return found


def unknown_options(commands, name, arguments):
    """Options that the command does not have. After the program of spawn and stalk all belongs to that."""
    known, arguments, unknown = commands[name], list(arguments), []
    while arguments:
        word = arguments.pop(0).strip("[]()")
        if word == "--" or (name in ("spawn", "stalk") and not word.startswith("-")):
            break
        option = word.partition("=")[0]
        if not re.fullmatch(r"--?[A-Za-z][\w-]*", option):
            continue
        if option not in known:
            unknown.append(option)
        elif known[option] and "=" not in word and arguments:
            arguments.pop(0)
    return unknown


def mentions(path, commands):
    """(command, arguments) of everything in a document that is a command line of contrail."""
    lines = list(spans(path))
    for language, block in fences(path):
        lines += block if language == "sh" else [line[2:] for line in block if line.startswith("$ ")]
    for line in lines:
        try:
            parts = list(words(line))
        except ValueError:  # quotes that are no shell's
            continue
        for part in parts:
            if part and os.path.basename(part[0]) == "contrail":
                part = part[1:]
            elif len(part) < 2 or not part[1].startswith("-"):  # `report --lines`
                continue
            if part and part[0] in commands:
                yield part[0], part[1:]


class Options(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = helps()

    def test_help_is_read(self):
        self.assertGreater(len(self.commands), 12)
        self.assertEqual((True, True, False), tuple(self.commands["spawn"][o] for o in ("-o", "--trigger", "--quiet")))

    def test_unknown_ones_are_found(self):
        for name, line in (("replay", "--around crash --backwards"), ("spawn", "--keep 1h --fast ./prog --its-own"),
                           ("threads", "4711 -z")):
            self.assertEqual(1, len(unknown_options(self.commands, name, line.split())), line)
        self.assertEqual([], unknown_options(self.commands, "spawn", ["--only", "--x", "./prog", "--its-own"]))

    def test_of_commands(self):
        count = 0
        for path in DOCUMENTS:
            for name, arguments in mentions(path, self.commands):
                count += 1
                with self.subTest(path.name, command=" ".join([name] + arguments)):
                    self.assertEqual([], unknown_options(self.commands, name, arguments))
        self.assertGreater(count, 90)

    def test_named_alone(self):
        """`--option` in prose, and in comments of commands: some command has it."""
        known = {option for options in self.commands.values() for option in options}
        for path in (ROOT / "README.md", ROOT / "CHANGELOG.md"):
            found = {s.split()[0] for s in spans(path) if s.startswith("--")}
            for line in shell_lines(path):
                found |= set(re.findall(r"(?<=[\s(])--[a-z][\w-]*", line.partition(" # ")[2]))
            with self.subTest(path.name):
                self.assertEqual(set(), found - known)


# ---- commands ----

def normal(line):
    """Without what differs from run to run and from machine to machine."""
    line = re.sub(r"\S*session_\w+", "TRACE", line)
    line = re.sub(r"__strlen_\w+", "strlen", line)
    line = re.sub(r"^Idle ", "", line)  # of the thread that has waited longest, which may be any
    line = re.sub(r"0x[0-9a-f]+", "H", line)
    line = re.sub(r">?\d[\d,.]*( (ns|us|ms|s|KiB|MiB|%)\b)?", "N", line)
    return " ".join(line.replace("N %", "N").split())


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp()
        for name, source in PROGRAMS.items():
            subprocess.run(["gcc", "-g", "-O1", "-pthread", "-x", "c", "-", "-o", name], input=source, text=True,
                           check=True, cwd=cls.directory)
        os.mkdir(os.path.join(cls.directory, "build"))
        os.symlink(CONTRAIL, os.path.join(cls.directory, "contrail"))
        os.symlink(CONTRAIL, os.path.join(cls.directory, "build/contrail"))
        cls.environment = dict(os.environ, PATH=cls.directory + os.pathsep + os.environ["PATH"], PAGER="cat",
                               HOME=cls.directory, XDG_CACHE_HOME=os.path.join(cls.directory, "cache"))
        cls.target = subprocess.Popen([os.path.join(cls.directory, "server"), "serve"])
        cls.recorder = None

    @classmethod
    def tearDownClass(cls):
        for process in (cls.target, cls.recorder):
            if process:
                process.kill()
                process.wait()
        shutil.rmtree(cls.directory)

    def run_line(self, line):
        """The line as the reader types it, but for paths and numbers that only the reader has."""
        line = line.replace("4711", str(self.target.pid)).replace("/tmp/orders", "./orders")
        return subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=self.directory, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)

    def start_recorder(self, line):
        """A recording that the commands after it talk to."""
        line = line.replace("4711", str(self.target.pid))
        type(self).recorder = subprocess.Popen(["bash", "-c", "exec " + line], cwd=self.directory, env=self.environment,
                                               stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + LIMIT
        while self.run_line("contrail ctl 4711 status").returncode:
            self.assertLess(time.monotonic(), deadline, "nothing is recorded: " + line)
            time.sleep(0.05)

    def expected(self, line):
        if "| head" in line:
            return (0, 128 + signal.SIGPIPE)  # head ends first
        return (next((status for name, status in STATUS.items() if name in line and "contrail spawn" in line), 0),)

    def run_document(self, path):
        """What all commands have printed, and how many ran."""
        printed, count = [], 0
        for line in shell_lines(path):
            if "contrail" not in line or any(part in line for part in SKIPPED):
                continue
            count += 1
            with self.subTest(path.name, line=line):
                if "attach --duration" in line:
                    self.start_recorder(line.replace("--duration 5", "--duration %d" % LIMIT))
                    continue
                if "contrail tail" in line:
                    line = line.replace(" --only", " --limit 3 --only", 1)  # it runs until the recording ends
                done = self.run_line(line)
                self.assertIn(done.returncode, self.expected(line), done.stderr)
                printed += (done.stdout + done.stderr).splitlines()
        return printed, count

    def test_readme(self):
        printed, count = self.run_document(ROOT / "README.md")
        self.assertGreater(count, 24)
        for line, status in (("contrail spawn ./hang", 128 + signal.SIGALRM), ("contrail info", 0),
                             ("contrail spawn --detail always --strings 64 ./server", 0),
                             ("contrail replay --args", 0)):
            done = self.run_line(line)
            self.assertEqual(done.returncode, status, done.stderr)
            printed += done.stdout.splitlines()
        lines = {normal(line) for line in printed}
        shown = [line for language, block in fences(ROOT / "README.md") if not language for line in block]
        self.assertGreater(len(shown), 14)
        for line in shown:
            with self.subTest(line=line):
                alike = difflib.get_close_matches(normal(line), lines, 3, 0.4)
                self.assertTrue(normal(line) in lines, "no command prints this, but: %s" % alike)
        calls = [s for s in spans(ROOT / "README.md") if re.match(r"open\(.* ENOENT$", s)]
        self.assertEqual(1, len(calls))
        self.assertTrue(any(normal(calls[0]) in line for line in lines), calls[0])
        self.assertEqual(0, self.run_line("contrail detach 4711").returncode)

    def test_other_documents(self):
        for path in RUN[1:]:
            self.assertGreater(self.run_document(path)[1], 1, path.name)

    def test_skipped_ones_are_there(self):
        every = [line for path in RUN for line in shell_lines(path)]
        for part in SKIPPED:
            self.assertTrue(any(part in line for line in every), part)


class Headers(unittest.TestCase):
    def test_contrail_h_includes_the_others(self):
        text = (ROOT / "include/contrail/contrail.h").read_text()
        for path in (ROOT / "include/contrail").glob("*.h"):
            if path.name != "contrail.h":
                self.assertIn("#include <contrail/%s>" % path.name, text)


if __name__ == "__main__":
    unittest.main()

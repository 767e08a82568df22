#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""query.py CONTRAIL PROGRAM: questions in SQL about a recorded trace: few blocks are unpacked for them, limits and
Ctrl-C stop them, a trace that is being written answers, and the prompt has history and completion."""

import ctypes.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import driver

driver.PROGRAM = os.path.abspath(sys.argv.pop(1))
PROGRAM = os.path.abspath(sys.argv.pop(1))
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


def ask(trace, sql, *words):
    result = driver.run("query", *words, trace, sql)
    assert result.returncode == 0, result.stderr
    return result


def rows(trace, sql, *words):
    return json.loads(ask(trace, sql, "--json", *words).stdout)


def counters(trace, sql):
    """All blocks, and those that were unpacked."""
    text = ask(trace, sql, "--counters").stderr
    counts = re.search(r"all: ([\d,]+); unpacked: ([\d,]+)", text).groups()
    return tuple(int(count.replace(",", "")) for count in counts)


class Recorded:
    """One trace for all tests."""


def setUpModule():
    Recorded.dir = tempfile.TemporaryDirectory()
    result = driver.run("spawn", "--lossless", "--only", os.path.basename(PROGRAM), "-o", Recorded.dir.name, PROGRAM)
    assert result.returncode == 0, result.stderr
    (session,) = os.listdir(Recorded.dir.name)
    Recorded.trace = os.path.join(Recorded.dir.name, session)


def tearDownModule():
    Recorded.dir.cleanup()


class Query(unittest.TestCase):
    def setUp(self):
        self.trace = Recorded.trace

    def test_counts_are_those_of_the_program(self):
        calls = {row["function"]: row["n"] for row in rows(
            self.trace, "SELECT function, count(*) AS n FROM calls GROUP BY function")}
        self.assertEqual((calls["seldom"], calls["some_steps"], calls["step"]), (1, 8000, 320001))
        functions = {row["function"]: row for row in rows(self.trace, "SELECT * FROM functions")}
        report = json.loads(driver.run("report", "--json", "--limit", "0", self.trace).stdout)["functions"]
        for row in report:
            ours = functions[row["name"]]
            self.assertEqual((ours["calls"], ours["total"], ours["self"], ours["p99"]),
                             (row["calls"], row["total_ns"], row["self_ns"], row["p99_ns"]))
            self.assertEqual(calls[row["name"]], row["calls"])
        edges = {(row["caller"], row["callee"]): row["calls"] for row in rows(self.trace, "SELECT * FROM edges")}
        self.assertEqual(edges[("some_steps", "step")], 320000)
        self.assertEqual(edges[("seldom", "step")], 1)
        self.assertEqual(edges[("main", "some_steps")], 7999)

    def test_only_needed_blocks_are_unpacked(self):
        questions = (
            "SELECT id, start, duration, parent FROM calls WHERE function = 'seldom'",
            "SELECT function, count(*), sum(self) FROM calls WHERE start BETWEEN {start} AND {start} + 2000 GROUP BY 1",
            "SELECT function, start, duration FROM calls WHERE id = {id}",
            "SELECT count(*), sum(duration) FROM subtree({id})",
            "SELECT function, count(*) FROM calls WHERE parent = {id} GROUP BY 1",
            "SELECT level, function FROM callers({id})",
            "SELECT level, function FROM stack_at(1, {start} + 1)",
            "SELECT kind, time FROM events WHERE function = 'seldom'",
            "SELECT id, function, duration FROM calls ORDER BY duration DESC LIMIT 2",
        )
        (seldom,) = rows(self.trace, questions[0])
        questions = [question.format(**seldom) for question in questions]
        every, opened = counters(self.trace, "SELECT 1")
        self.assertGreater(every, 40)
        answers = [rows(self.trace, question) for question in questions]
        for question in questions:
            with self.subTest(question):
                self.assertLess(counters(self.trace, question)[1] - opened, every / 4)
        self.assertGreaterEqual(counters(self.trace, "SELECT max(depth) FROM calls")[1], every)
        copy = os.path.join(Recorded.dir.name, "copy")
        shutil.copytree(self.trace, copy)
        (process,) = os.listdir(copy)
        os.unlink(os.path.join(copy, process, "thread_1", "summary.cts"))
        self.assertEqual([rows(copy, question) for question in questions], answers)

    def test_limits(self):
        late = driver.run("query", "--timeout", "50ms", self.trace, ENDLESS)
        self.assertEqual(late.returncode, 69)
        self.assertRegex(late.stderr, r"stopped after 50.0 ms \(--timeout\)")
        large = driver.run("query", "--memory", "2M", self.trace, "SELECT group_concat(function || id) FROM calls")
        self.assertEqual(large.returncode, 69)
        self.assertRegex(large.stderr, "needs more memory than 2.00 MiB; .* --memory")

    def test_interrupt(self):
        started = driver.Started("query", self.trace, ENDLESS)
        end = time.monotonic() + driver.LIMIT
        while time.monotonic() < end:  # until it has installed its handler
            with open(f"/proc/{started.process.pid}/status") as status:
                if int(re.search(r"SigCgt:\s*(\w+)", status.read()).group(1), 16) & 2:
                    break
            time.sleep(0.02)
        started.process.send_signal(signal.SIGINT)
        code, _, text = started.end()
        self.assertEqual(code, 130, text)
        self.assertIn("stopped; rows so far: 0", text)

    def test_input(self):
        result = subprocess.run([driver.PROGRAM, "query", self.trace, "--csv"], input="SELECT 1 AS a;\nSELECT 2;",
                                capture_output=True, text=True, timeout=driver.LIMIT)
        self.assertEqual((result.stdout, result.returncode), ("a\n1\n2\n2\n", 0))

    def test_growing(self):
        output = os.path.join(Recorded.dir.name, "growing")
        recorder = subprocess.Popen([driver.PROGRAM, "spawn", "-o", output, "--", "/bin/sh", "-c",
                                     "while :; do :; done"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + driver.LIMIT
            calls = 0
            while not calls and time.monotonic() < end:
                time.sleep(0.1)
                found = os.listdir(output) if os.path.isdir(output) else []
                if not found:
                    continue
                result = driver.run("query", "--csv", os.path.join(output, found[0]), "SELECT count(*) FROM calls")
                if result.returncode in (0, 65):
                    calls = int(result.stdout.split()[1])
                    self.assertIn("the recorder has not finished this trace", result.stderr)
            self.assertGreater(calls, 0)
        finally:
            recorder.terminate()  # detaches
            children = driver.run("query", "--csv", os.path.join(output, os.listdir(output)[0]),
                                  "SELECT pid FROM processes").stdout.split()[1:]
            for pid in children:
                os.kill(int(pid), signal.SIGKILL)
            recorder.wait(driver.LIMIT)


@unittest.skipUnless(ctypes.util.find_library("edit"), "libedit is not installed")
class Prompt(driver.TerminalTest):
    def say(self, keys, answer):
        self.seen = ""
        self.press(keys)
        self.until(answer)

    def begin(self):
        self.start("query", Recorded.trace)
        self.until("contrail> ")

    def test_history_and_completion(self):
        with tempfile.TemporaryDirectory() as home:
            os.chmod(home, 0o777)  # root gives its rights up
            os.environ.update(XDG_STATE_HOME=home, PAGER="cat", NO_COLOR="1", LC_ALL="C.UTF-8")
            self.begin()
            self.say(b"SELECT count(*) * 5 AS n FROM thr\t;\n", r"\b5\r\n[^>]*contrail> ")
            self.say(b".mode csv\n", "csv.*\n[^>]*contrail> ")
            self.say(b"SELECT 'x' || depth,\n", r"\.\.\.> ")
            self.say(b"7 * 6 FROM calls LIMIT 1;\n", r",42\r\n[^>]*contrail> ")
            self.say(b"SELECT wrong\x03", "contrail> ")
            self.say(b"\x1b[A\n", r",42\r\n[^>]*contrail> ")
            self.press(b".quit\n")
            self.assertEqual(self.end(), 0)
            self.begin()
            self.say(b"\x1b[A\x1b[A\n", r"x\d+ +42\r\n[^>]*contrail> ")
            self.press(b".quit\n")
            self.assertEqual(self.end(), 0)

    def test_each_table_has_a_pager(self):
        os.environ.update(PAGER="sed s/^/paged:/", NO_COLOR="1")
        self.begin()
        self.say(b"SELECT 11 AS a;\n", r"paged:11\r\n[^>]*contrail> ")
        self.say(b"SELECT 12 AS a;\n", r"paged:12\r\n[^>]*contrail> ")
        self.press(b".quit\n")
        self.assertEqual(self.end(), 0)

    def test_interrupt(self):
        self.begin()
        self.say(ENDLESS.encode() + b";\n", "rows read")
        self.say(b"\x03", r"stopped; rows so far: 0\r\n[^>]*contrail> ")
        self.press(b".quit\n")
        self.assertEqual(self.end(), 0)


if __name__ == "__main__":
    unittest.main()

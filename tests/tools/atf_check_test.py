#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of our writer, judged by atf_check.py: atf_check_test.py ATF_WRITE ATF_CHECK MAKE_TRACE"""

import os
import subprocess
import sys
import tempfile

write, checker, golden_writer = sys.argv[1:4]


def check(*arguments):
    return subprocess.run([sys.executable, checker, *arguments], capture_output=True, text=True)


def make_golden():
    directory = tempfile.mkdtemp(dir=work)
    subprocess.run([golden_writer, directory], check=True)
    return os.path.join(directory, "crash")


def make(*arguments):
    directory = tempfile.mkdtemp(dir=work)
    subprocess.run([write, directory, *map(str, arguments)], check=True)
    return directory


with tempfile.TemporaryDirectory() as work:
    for events in (0, 1, 511, 512, 513, 30000):
        trace = make(2, events)
        for thread in (0, 1):
            path = os.path.join(trace, "thread_%d/index.atf" % thread)
            result = check("--symbols", os.path.join(trace, "symbols"), path)
            assert result.returncode == 0, result.stderr
            assert result.stdout == "%s: thread %d, %d events\n" % (path, 500 + thread, events), result.stdout
            detail = os.path.join(trace, "thread_%d/detail.atf" % thread)
            result = check(detail)
            assert result.returncode == 0, result.stderr
            assert result.stdout == "%s: thread %d, %d records\n" % (detail, 500 + thread,
                                                                     (events + 6) // 7), result.stdout
    lines = check("--dump", "--symbols", os.path.join(trace, "symbols"), path).stdout.split("\n")
    assert lines[0] == "1000001 CALL _Z5outerv depth 0 detail 0", lines[0]
    assert lines[1] == "1000004 RETURN _Z5outerv depth 0", lines[1]

    trace = make(1, 1000, 300)  # parts
    parts = [os.path.join(trace, "thread_0/index%s.atf" % suffix) for suffix in ("", "_2", "_3", "_4")]
    result = check(*parts)
    assert result.returncode == 0, result.stderr
    assert [line.split(", ")[1] for line in result.stdout.splitlines()] == ["300 events"] * 3 + ["100 events"]
    assert not os.path.exists(os.path.join(trace, "thread_0/index_5.atf"))

    trace = make(1, 1000, 0, "unfinished")
    path = os.path.join(trace, "thread_0/index.atf")
    assert check(path).returncode == 1
    result = check("--unfinished", path)
    assert result.returncode == 0 and result.stdout.endswith("1000 events, unfinished\n"), result.stdout

    path = os.path.join(trace, "thread_0/detail.atf")
    assert check(path).returncode == 1
    result = check("--unfinished", path)
    assert result.returncode == 0 and result.stdout.endswith("143 records, unfinished\n"), result.stdout + result.stderr
    golden = os.path.join(make_golden(), "session_20250102_030405/pid_1000")
    for thread, records in (("thread_1", 7), ("thread_2", 1)):
        path = os.path.join(golden, thread, "detail.atf")
        result = check("--dump", path)
        assert result.returncode == 0 and result.stdout.endswith(" %d records\n" %
                                                                 records), result.stdout + result.stderr
        assert "SIGNAL 11 code 1 address 10 pc 10121c" in result.stdout or thread != "thread_1", result.stdout

    path = os.path.join(make(1, 100), "thread_0/detail.atf")
    good = open(path, "rb").read()
    for at in (0, 6, 16, 30, 37, 46, 64, 68, 72, 76, 80, 88, 100, 187, len(good) - 60, len(good) - 1):
        bad = bytearray(good)
        bad[at] ^= 0x40
        open(path, "wb").write(bad)
        assert check(path).returncode == 1, "byte %d of detail.atf" % at

    # It does complain.
    path = os.path.join(make(1, 100), "thread_0/index.atf")
    good = open(path, "rb").read()
    for at in (0, 7, 30, 41, 50, 64, 64 + 20, 64 + 99 * 32 + 31, len(good) - 60, len(good) - 1):
        bad = bytearray(good)
        bad[at] ^= 0x40
        open(path, "wb").write(bad)
        assert check(path).returncode == 1, "byte %d" % at
print("ok")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packed.py: packed traces of real programs against raw ones, and traces that keep only the newest events."""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys

import atf
import targets
from recorder import TIMEOUT, Failure, finish, wait_for

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import ctp  # noqa: E402

PYTHON = "/usr/bin/python3"
WORK = """
import json, sys, threading
def work(n):
    for i in range(n):
        json.loads(json.dumps([{"a": k, "b": str(k) * 3} for k in range(200)]))
threads = [threading.Thread(target=work, args=(int(sys.argv[1]),)) for _ in range(2)]
[t.start() for t in threads]
[t.join() for t in threads]
"""


def record(shop, options, count, output=None):
    output = output or shop.new_output()
    command = shop.spawn_command(output, ["--lossless"] + options, [PYTHON, "-c", WORK, str(count)])
    result = shop.run(command)
    if result.code or result.err:
        raise Failure("%s: it ends with %d: %r" % (options, result.code, result.err[-500:]))
    return atf.find(output)[0]


def index_files(directory):
    return sorted(glob.glob(os.path.join(glob.escape(directory), "thread_*", "index*")))


def manifest_of(directory):
    with open(os.path.join(directory, "manifest.json")) as f:
        return json.load(f)


def export(shop, directory):
    to = shop.path("exported%d" % shop.outputs)
    shop.outputs += 1
    result = shop.run([shop.contrail, "export", "--format", "atf2", "-o", to, directory])
    if result.code:
        raise Failure("export ends with %d: %r" % (result.code, result.err))
    return to


def same_files(a, b):
    names = [sorted(os.path.relpath(f, d) for f in glob.glob(os.path.join(glob.escape(d), "**"), recursive=True)
                    if os.path.isfile(f) and not f.endswith("/summary.cts")) for d in (a, b)]
    if names[0] != names[1]:
        raise Failure("files %s became %s" % tuple(names))
    for name in names[0]:
        with open(os.path.join(a, name), "rb") as x, open(os.path.join(b, name), "rb") as y:
            if x.read() != y.read():
                raise Failure("%s differs" % name)


def both_ways(shop):
    """A raw session, packed and exported again: every byte is as it was. Also with detail records and their links."""
    for options in (["--detail", "off"], ["--detail", "always"]):
        raw = record(shop, ["--format", "atf2"] + options, 1)
        packed = shop.path("packed%d" % shop.outputs)
        shutil.copytree(raw, packed, ignore=shutil.ignore_patterns("index*"))
        tool = os.path.join(os.path.dirname(shop.contrail), "..", "..", "tests", "tools", "atf_pack")
        if subprocess.run([tool, raw, packed]).returncode:
            raise Failure("it could not be packed")
        path = os.path.join(packed, "manifest.json")
        with open(path) as f:
            text = f.read()
        with open(path, "w") as f:
            f.write(text.replace('"atf2"', '"packed"', 1))
        shop.read("verify", packed)
        same_files(raw, export(shop, packed))
        sizes = [sum(map(os.path.getsize, index_files(d))) for d in (raw, packed)]
        events = manifest_of(raw)["events"]["written"]
        if options[1] == "off" and sizes[1] > 4 * events:
            raise Failure("%d events take %d bytes" % (events, sizes[1]))
    return "%d events, raw %d bytes, packed %d" % (events, *sizes)


def recorded_packed(shop):
    """What was recorded as packed, exported: the events that an independent reader sees."""
    directory = record(shop, ["--detail", "always"], 1)
    exported = export(shop, directory)
    shop.read("verify", exported)
    a, b = atf.Trace(directory), atf.Trace(exported)
    for x, y in zip(a.threads, b.threads):
        if (x.times, x.functions, x.kinds, x.depths, x.details) != (y.times, y.functions, y.kinds, y.depths, y.details):
            raise Failure("thread %d differs" % x.id)
    linked = sum(d != atf.NO_DETAIL for t in a.threads for d in t.details)
    if len(a.threads) != len(b.threads) or len(a.threads) != 3 or not linked:
        raise Failure("%d threads became %d; %d links" % (len(a.threads), len(b.threads), linked))
    return "%d links" % linked


def check_kept(shop, directory):
    """Segments follow each other, end with the last event, and the manifest says what is missing. The events left."""
    manifest, left = manifest_of(directory), 0
    for thread in manifest["threads"]:
        files = sorted(glob.glob(os.path.join(glob.escape(directory), "thread_%d" % thread["id"], "index*")))
        position, begins = None, None
        for path in files:
            if path.endswith(".ctp"):
                data, finished, _, first = ctp.read(path)
            else:
                data, finished, _ = atf.read_index(path, True)
                with open(path, "rb") as f:
                    first = int.from_bytes(f.read(24)[17:], "little")
            if position not in (None, first):
                raise Failure("%s begins with event %d, not %d" % (path, first, position))
            if position is None and first != thread.get("dropped", 0):
                raise Failure("%s begins with event %d; %d were dropped" % (path, first, thread.get("dropped", 0)))
            if begins is None and data:
                begins = int.from_bytes(data[:8], "little")
            position = first + len(data) // 32
            left += len(data) // 32
        if position not in (None, thread["events"]):
            raise Failure("thread %d ends with event %d of %d" % (thread["id"], position, thread["events"]))
        if "dropped" in thread and thread["begins_ns"] != (begins or 0):
            raise Failure("thread %d begins at %s, the manifest says %d" % (thread["id"], begins, thread["begins_ns"]))
        if "dropped" in thread and begins and not 0 < thread["dropped_until_ns"] <= begins:
            raise Failure("thread %d begins at %d, and was deleted until %d" % (thread["id"], begins,
                                                                               thread["dropped_until_ns"]))
    shop.read("verify", directory)
    return left


def kept_by_size(shop):
    """--keep SIZE, packed and raw: at least so much is left and at most a quarter more, positions go on."""
    size = 400 << 10
    for encoding, count in (("packed", 10), ("atf2", 1)):
        directory = record(shop, ["--detail", "off", "--format", encoding, "--keep", "400K"], count)
        total = sum(map(os.path.getsize, index_files(directory)))
        if not size <= total <= size * 5 // 4:
            raise Failure("%s: %d bytes are left of %d that were to be kept" % (encoding, total, size))
        left = check_kept(shop, directory)
        if not 0 < left < manifest_of(directory)["events"]["written"]:
            raise Failure("%s: nothing was dropped" % encoding)
        shop.read("report", directory)
        if b"older events, deleted to keep the newest" not in shop.read("info", directory).out:
            raise Failure("info does not tell that older events are gone")
        exported = export(shop, directory)
        shop.read("verify", exported)
        check_kept(shop, exported)
    return None


def kept_by_time(shop):
    """--keep TIME: something was deleted, and all of it was older. (Nothing needs to be left that is as old as the
    limit: a machine that stalls makes no events.)"""
    directory = record(shop, ["--detail", "off", "--keep", "100ms"], 25)
    check_kept(shop, directory)
    manifest = manifest_of(directory)
    until = [t["dropped_until_ns"] for t in manifest["threads"] if t.get("dropped")]
    if not until:
        raise Failure("nothing was deleted")
    age = manifest["time_end_ns"] - max(until)
    if age <= 100000000:
        raise Failure("an event that is %d ns old was deleted" % age)
    return None


def kept_of_children(shop):
    """The limit is for all processes of a session together."""
    output, size = shop.new_output(), 400 << 10
    script = "for i in 1 2 3; do %s -c '%s' 12; done" % (PYTHON, WORK.replace("'", '"'))
    result = shop.run(shop.spawn_command(output, ["--lossless", "--detail", "off", "--keep", "400K"],
                                         ["/bin/sh", "-c", script]), timeout=TIMEOUT)
    if result.code:
        raise Failure("it ends with %d: %r" % (result.code, result.err[-500:]))
    directories = atf.find(output)
    total = sum(os.path.getsize(f) for d in directories for f in index_files(d))
    if len(directories) < 4 or total > size * 5 // 4 or total < size:
        raise Failure("%d bytes of %d processes are left" % (total, len(directories)))
    for directory in directories:
        shop.read("verify", directory)
    return None


def killed(shop):
    """The recorder is killed: segments up to then are there, without a hole."""
    output = shop.new_output()
    process = shop.start(shop.spawn_command(output, ["--detail", "off", "--keep", "200K"],
                                            [PYTHON, "-c", WORK, "20000"]))
    segments = os.path.join(glob.escape(output), "*", "*", "thread_*", "index*")
    wait_for("four segments, or the recorder's end", lambda: len(glob.glob(segments)) >= 4
             or process.poll() is not None)
    if process.poll() is not None:
        raise Failure("the recorder has ended")
    process.send_signal(signal.SIGKILL)
    process.wait()
    directory = atf.find(output)[0]
    shop.read("verify", directory)
    os.kill(int(os.path.basename(directory)[len("pid_"):]), signal.SIGKILL)
    finish(process)
    for left in glob.glob(os.path.join(shop.runtime, "contrail", "*")):
        os.remove(left)
    for thread in glob.glob(os.path.join(glob.escape(directory), "thread_*")):
        position = None
        for path in sorted(glob.glob(os.path.join(thread, "index*"))):
            if os.path.getsize(path) < 64:
                continue  # it was just begun
            data, _, _, first = ctp.read(path, False)
            if position not in (None, first):
                raise Failure("%s begins with event %d, not %d" % (path, first, position))
            position = first + len(data) // 32
    return None


TABLE = {
    "both ways": both_ways,
    "recorded packed": recorded_packed,
    "kept by size": kept_by_size,
    "kept by time": kept_by_time,
    "kept of children": kept_of_children,
    "killed while keeping": killed,
}


if __name__ == "__main__":
    sys.exit(targets.run_table(__doc__, TABLE))

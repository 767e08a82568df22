# SPDX-License-Identifier: Apache-2.0
"""Runs a program of a program file in one of the modes, each time in a fresh copy of its directory at one place."""
import glob
import json
import os
import shutil
import subprocess
import time

from program import BadProgram
from recorder import Failure, Result, finish, processes_with, shell_code, status_of, text_changes

# the distribution's programs, not those of a user
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Run:
    """What came of one run."""

    def __init__(self, result, files, seconds, cpu):
        self.result, self.files, self.seconds, self.cpu = result, files, seconds, cpu
        self.said = ""      # what contrail itself printed
        self.left = []      # commands of processes that were still there
        self.attached = True


class Bench:
    """One program with one amount of work: prepared once, run in many ways."""

    def __init__(self, shop, program, share, patience=60):
        self.shop, self.program, self.share, self.patience = shop, program, share, patience
        self.work, self.template = shop.path("work"), shop.path("template")
        self.environment = dict(shop.environment, PATH=SEARCH, HOME=self.work, TMPDIR=os.path.join(self.work, "tmp"),
                                TZ="UTC", **program.environment)
        for name in ("PYTHONPATH", "PYTHONHOME", "LD_PRELOAD", "DISPLAY"):
            self.environment.pop(name, None)
        for place in (self.work, self.template):
            shutil.rmtree(place, ignore_errors=True)
        os.mkdir(self.work)
        program.prepare(self.work, share, self.environment)
        os.rename(self.work, self.template)
        self.native = None

    def fresh(self):
        shutil.rmtree(self.work, ignore_errors=True)
        subprocess.run(["cp", "-a", self.template, self.work], check=True)

    def deadline(self):
        """Seconds that a run may take: for what hangs, not for what is slow."""
        return self.patience * (1 + (self.native.seconds if self.native else 10))

    def shell(self, text, **options):
        return subprocess.Popen(["sh", "-c", text], cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                                **options)

    # ---- running ----

    def run(self, prefix=(), attach=None):
        """`prefix`: contrail's words before the command. `attach`: is called with the process when it is at work."""
        self.fresh()
        files = [open(self.shop.path(name), "wb+") for name in ("out", "err")]
        name = os.path.join(self.work, self.program.stdin) if self.program.stdin else os.devnull
        started = time.monotonic()
        with open(name, "rb") as stdin:
            process = subprocess.Popen(list(prefix) + self.program.words(self.share), cwd=self.work,
                                       env=self.environment, stdin=stdin, stdout=files[0], stderr=files[1])
        try:
            if self.program.server:
                load = self.serve(process, attach)
            else:
                load = b""
                if attach:
                    attach(process)
            cpu = self.wait(process, started)
        finally:
            left = self.end(process)
        seconds = time.monotonic() - started
        out, err = (read_back(f) for f in files)
        run = self.collect(Result(shell_code(process.returncode), load or out, err), seconds, cpu)
        run.left = left
        return run

    def serve(self, process, attach):
        """Load on a server, and its end. What the load prints is compared, what the server prints is not."""
        server = self.program.server
        until = time.monotonic() + self.deadline()
        while self.shell(server["ready"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait() != 0:
            if process.poll() is not None or time.monotonic() > until:
                raise Failure("the server does not answer: %s, code %s; it says %r" % (
                    status_of(process.pid), process.poll(), self.tail()))
            time.sleep(0.02)
        load = self.shell(self.program.fill(server["load"], self.share), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if attach:
            attach(process)
        result = finish(load, self.deadline(), "the load")
        if result.code:
            raise Failure("the load ends with %d: %r; the server: %s; it says %r" % (
                result.code, (result.out + result.err)[-500:], status_of(process.pid), self.tail()))
        self.shell(server["stop"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait(timeout=self.deadline())
        return result.out

    def tail(self):
        return b"".join(open(self.shop.path(name), "rb").read()[-500:] for name in ("out", "err"))

    def wait(self, process, started):
        """Processor time of the process and of those that it waited for."""
        if process.returncode is not None:
            return 0.0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return usage.ru_utime + usage.ru_stime
            if time.monotonic() - started > self.deadline():
                raise Failure("hangs: not done after %d s, natively %.1f s (%s)" % (
                    self.deadline(), self.native.seconds if self.native else 0, self.where()))
            time.sleep(0.005)

    def where(self):
        return "; ".join("%s: %s" % (command[:60], status_of(pid)) for pid, command in self.ours()[:5])

    def ours(self):
        return processes_with(self.shop.marker.encode())

    def end(self, process):
        """Nothing of a run stays. Returns the commands of those that would not end by themselves."""
        until = time.monotonic() + 10
        while process.returncode is not None and self.ours() and time.monotonic() < until:
            time.sleep(0.02)  # daemons that are about to end
        left = self.ours()
        for pid, _ in left:
            try:
                os.kill(pid, 9)
            except OSError:
                pass
        if process.returncode is None:
            process.wait()
        return [command for _, command in left]

    def collect(self, result, seconds, cpu):
        said = [line for line in result.err.split(b"\n") if line.startswith(b"contrail: ")]
        result.err = b"\n".join(line for line in result.err.split(b"\n") if not line.startswith(b"contrail: "))
        files = {}
        for pattern in self.program.files:
            found = sorted(glob.glob(os.path.join(self.work, pattern), recursive=True))
            if not found:
                files[pattern] = b"(missing)"
            for path in filter(os.path.isfile, found):
                with open(path, "rb") as f:
                    files[os.path.relpath(path, self.work)] = self.filtered(f.read())
        result.out, result.err = self.filtered(result.out), self.filtered(result.err)
        compare = self.program.compare
        result = Result(result.code if "code" in compare else 0, result.out if "stdout" in compare else b"",
                        result.err if "stderr" in compare else b"")
        run = Run(result, files, seconds, cpu)
        run.said = b" ".join(said).decode(errors="replace")
        return run

    def filtered(self, content):
        for pattern, replacement in self.program.filters:
            content = pattern.sub(replacement, content)
        return content

    # ---- modes ----

    def run_native(self):
        """Twice: only what it does the same way each time can be compared."""
        first, second = self.run(), self.run()
        problems = differences(first, second)
        if problems:
            raise BadProgram("%s: not deterministic: %s" % (self.program.path, problems[0]))
        if not first.result.out and not first.result.err and not first.files:
            raise BadProgram("%s: the program makes nothing" % self.program.path)
        self.native = min(first, second, key=lambda r: r.seconds)
        return self.native

    def run_mode(self, mode, output):
        contrail = self.shop.contrail
        if mode in ("attach", "stalk-attach"):
            return self.run_attached(mode, output)
        words = {"record": ["spawn"], "detail": ["spawn", "--detail", "always"], "stalk": ["stalk"]}[mode]
        return self.run([contrail] + words + ["--quiet", "--output", output, "--"])

    def run_attached(self, mode, output):
        """In the middle, for a part of its time; then it runs on by itself."""
        missed = []

        def attach(process):
            time.sleep(0.2 * self.native.seconds)
            pid = busiest(process.pid) if self.program.attach_child else process.pid
            try:
                if mode == "attach":
                    recorder = self.shop.attach(pid, output)
                else:
                    recorder = self.shop.attach(pid, output, ["--pid"], "stalk")
            except Failure:
                if has_ended(pid):
                    missed.append(True)
                    return
                raise
            time.sleep(max(0.1, 0.2 * self.native.seconds))
            self.let_go(pid, recorder)

        run = self.run(attach=attach)
        run.attached = not missed
        return run

    def let_go(self, pid, recorder):
        try:
            ended = self.shop.detach(pid, recorder)
        except Failure:
            if not has_ended(pid):
                raise
            ended = finish(recorder, what="contrail after the program's end")
        if ended.code:
            raise Failure("contrail ends with %d: %r" % (ended.code, ended.err))
        try:
            changes = text_changes(pid)
        except OSError:
            return  # it has ended meanwhile
        if changes and not has_ended(pid):
            raise Failure(changes[0])


def read_back(file):
    with file:
        file.seek(0)
        return file.read()


def has_ended(pid):
    return status_of(pid) == "gone" or "state Z" in status_of(pid) or "state X" in status_of(pid)


def family(pid):
    """A process and its descendants."""
    found = [pid]
    for path in glob.glob("/proc/%d/task/*/children" % pid):
        try:
            with open(path) as f:
                children = [int(word) for word in f.read().split()]
        except OSError:
            continue
        for child in children:
            found += family(child)
    return found


def busiest(pid):
    """Who of them has used the processor most."""
    def used(each):
        try:
            with open("/proc/%d/stat" % each) as f:
                return sum(int(word) for word in f.read().rsplit(")", 1)[1].split()[11:13])
        except OSError:
            return -1
    return max(family(pid), key=used)


def differences(native, other):
    found = native.result.differences(other.result)
    if len(other.left) > len(native.left):
        found.append("a process is left: %s" % other.left[-1])
    for name in sorted(set(native.files) | set(other.files)):
        if native.files.get(name) != other.files.get(name):
            found.append("the file %s differs: %d and %d bytes" % (name, len(native.files.get(name, b"")),
                                                                  len(other.files.get(name, b""))))
    return found


def look_at(shop, output):
    """`verify` has nothing to say; coverage in percent (None: not reported), events and losses of all processes."""
    sessions = glob.glob(os.path.join(glob.escape(output), "session_*"))
    if len(sessions) != 1:
        raise Failure("%d sessions were written" % len(sessions))
    shop.read("verify", sessions[0])
    told = shop.run([shop.contrail, "info", "--json", sessions[0]])
    if told.code:
        raise Failure("info ends with %d: %r" % (told.code, told.err))
    processes = json.loads(told.out)["processes"]
    functions = sum(p["coverage"]["functions"] for p in processes)
    hooked = sum(p["coverage"]["hooked"] for p in processes)
    return {"coverage": 100 * hooked / functions if functions and hooked else None,
            "events": sum(p["events"]["total"] for p in processes),
            "lost": sum(p["events"]["lost"] for p in processes), "processes": len(processes)}

# SPDX-License-Identifier: Apache-2.0
"""Runs programs with and without contrail, and looks at what is left behind."""
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

# Who runs tests in the background may ignore it, and what we start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Where the processor is emulated, all of it takes longer.
EMULATED = bool(os.environ.get("CONTRAIL_TEST_EMULATED"))
PATIENCE = ["--startup-timeout", "120"] if EMULATED else []
TIMEOUT = 1000 if EMULATED else 200  # seconds until something hangs for sure; no test waits for a time


class Failure(Exception):
    """What went wrong, for the person who reads the log."""


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def differences(self, other):
        """What another result (the traced one) has different, as sentences."""
        found = []
        if self.code != other.code:
            found.append("exit code %d became %d" % (self.code, other.code))
        for what, a, b in (("output", self.out, other.out), ("errors", self.err, other.err)):
            if a != b:
                found.append("%s differ:\n  untraced: %r\n  traced:   %r" % ((what,) + around(a, b)))
        return found


def around(a, b):
    at = 0
    while at < min(len(a), len(b)) and a[at] == b[at]:
        at += 1
    start = max(0, at - 60)
    return a[start:start + 300], b[start:start + 300]


def shell_code(code):
    """As a shell, and contrail, report a signal."""
    return 128 - code if code < 0 else code


def finish(process, timeout=TIMEOUT, what="the program"):
    """Waits; a process that hangs is killed and is a failure."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        state = status_of(process.pid)
        process.kill()
        out, err = process.communicate()
        raise Failure("%s hangs (%s); errors so far: %r" % (what, state, (err or b"")[-500:]))
    return Result(shell_code(process.returncode), out, err)


def read_line(stream, what):
    """The next line that a process prints; `what` says which."""
    lines = []
    reader = threading.Thread(target=lambda: lines.append(stream.readline()), daemon=True)
    reader.start()
    reader.join(TIMEOUT)
    if not lines:
        raise Failure("not within %d s: a line: %s" % (TIMEOUT, what))
    return lines[0]


def wait_for(what, holds):
    """Until it is so."""
    deadline = time.monotonic() + TIMEOUT
    while not holds():
        if time.monotonic() > deadline:
            raise Failure("not within %d s: %s" % (TIMEOUT, what))
        time.sleep(0.005)


def status_of(pid):
    try:
        with open("/proc/%d/status" % pid) as f:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        return "state %s, tracer %s, waits in %s" % (fields["State"], fields["TracerPid"], wchan(pid))
    except (OSError, KeyError):
        return "gone"


def wchan(pid):
    """Not all kernels report it."""
    try:
        with open("/proc/%d/wchan" % pid) as f:
            return f.read()
    except OSError:
        return "?"


def children_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(x) for x in f.read().split()]


def processes_with(marker):
    """Processes whose environment has the marker: pid and command line."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open("/proc/%s/environ" % name, "rb") as f:
                if marker not in f.read().split(b"\0"):
                    continue
            with open("/proc/%s/cmdline" % name, "rb") as f:
                found.append((int(name), f.read().replace(b"\0", b" ").decode(errors="replace")))
        except OSError:
            pass
    return found


def shared_memory_names():
    """Named shared memory of contrail's; there should never be any. Tests that run beside us have names with a dash."""
    return {n for n in os.listdir("/dev/shm") if re.match(r"\.?contrail(?!-)", n)}


class Workshop:
    """A directory for one test, the environment of its processes, and a look at the end at what was left behind."""

    def __init__(self, contrail, name, cache):
        self.contrail = contrail
        self.directory = tempfile.mkdtemp(prefix="contrail-test-%s-" % re.sub(r"\W+", "_", name)[:20])
        self.marker = "CONTRAIL_TEST=%s" % os.path.basename(self.directory)
        self.runtime = self.path("runtime")
        os.mkdir(self.runtime, 0o700)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("E2E_", "CONTRAIL_"))}
        key, value = self.marker.split("=", 1)
        self.temporary = self.path("tmp")
        os.mkdir(self.temporary)
        self.environment.update({key: value, "XDG_RUNTIME_DIR": self.runtime, "TMPDIR": self.temporary, "LC_ALL": "C"})
        self.environment["XDG_CACHE_HOME"] = cache  # tests share the analyses of libc and friends
        self.names = shared_memory_names()
        self.outputs = 0

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def new_output(self):
        self.outputs += 1
        return self.path("traces%d" % self.outputs)

    def start(self, command, **options):
        for name, default in (("stdin", subprocess.DEVNULL), ("stdout", subprocess.PIPE), ("stderr", subprocess.PIPE)):
            options.setdefault(name, default)
        environment = dict(self.environment, **options.pop("environment", {}))
        return subprocess.Popen(command, env=environment, **options)

    def run(self, command, timeout=TIMEOUT, **options):
        text = options.pop("text", None)
        if text is not None:
            with open(self.path("stdin"), "wb") as f:
                f.write(text)
            options["stdin"] = open(self.path("stdin"), "rb")
        process = self.start(command, **options)
        if text is not None:
            options["stdin"].close()
        return finish(process, timeout, command[0])

    def spawn_command(self, output, options, command):
        return [self.contrail, "spawn", "--quiet", "--output", output] + PATIENCE + options + ["--"] + command

    # ---- attach ----

    def attach(self, pid, output, options=(), verb="attach"):
        """Starts `contrail attach` (or `stalk`, with --pid as the last option); returns when it records."""
        command = [self.contrail, verb, "--quiet", "--output", output] + PATIENCE
        process = self.start(command + list(options) + [str(pid)])
        deadline = time.monotonic() + TIMEOUT
        while True:
            if process.poll() is not None:
                result = finish(process)
                raise Failure("%s ended with %d: %s" % (verb, result.code, result.err.decode(errors="replace")))
            if self.is_recording(pid):
                return process
            if time.monotonic() > deadline:
                process.kill()
                raise Failure("%s: not recording after %d s; target: %s; errors: %r" % (
                    verb, TIMEOUT, status_of(pid), process.communicate()[1]))
            time.sleep(0.01)

    def is_recording(self, pid):
        answer = subprocess.run([self.contrail, "ctl", str(pid), "status"], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.environment)
        return answer.returncode == 0 and b"running" in answer.stdout

    def status(self, pid):
        """What `ctl PID status` reports."""
        result = self.run([self.contrail, "ctl", "--json", str(pid), "status"])
        if result.code != 0:
            raise Failure("ctl status ended with %d: %s" % (result.code, result.err.decode(errors="replace")))
        return json.loads(result.out)

    def wait_for_events(self, pid, count):
        wait_for("%d events of process %d are written" % (count, pid),
                 lambda: self.status(pid)["events"]["written"] >= count)

    def detach(self, pid, process):
        result = self.run([self.contrail, "detach", str(pid)])
        if result.code != 0:
            raise Failure("detach ended with %d: %s" % (result.code, result.err.decode(errors="replace")))
        return finish(process, what="contrail attach after detach")

    # ---- the trace ----

    def read(self, command, trace, expected=0):
        result = self.run([self.contrail, command, trace])
        if result.code != expected:
            raise Failure("contrail %s ended with %d: %s" % (command, result.code,
                                                            (result.out + result.err).decode(errors="replace")[:2000]))
        return result

    # ---- the end ----

    def leftovers(self):
        """Sentences about what should not be there any more. Processes get a moment to go."""
        deadline = time.monotonic() + TIMEOUT
        while processes_with(self.marker.encode()) and time.monotonic() < deadline:
            time.sleep(0.02)
        found = ["a process is left: %d %s (%s)" % (pid, command, status_of(pid))
                 for pid, command in processes_with(self.marker.encode())]
        found += ["/dev/shm/%s is left" % n for n in sorted(shared_memory_names() - self.names)]
        for place in (self.runtime, self.temporary):
            found += [os.path.join(p, n) + " is left" for p, _, names in os.walk(place) for n in names]
        return found

    def close(self, keep=False):
        for pid, _ in processes_with(self.marker.encode()):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)


class Gate:
    """A FIFO at which a program waits for a byte (wait_for_start in zoo.h and injected.c)."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path, 0o600)
        self.file = -1

    def wait(self, process, pid=None):
        """Until the program is in it. `pid`: it is not the process itself, but that one."""
        pid = pid or process.pid
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                self.file = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError as e:
                if e.errno != errno.ENXIO:
                    raise
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failure("the program did not come to its gate: %s" % status_of(process.pid))
            time.sleep(0.005)
        wait_for("the program waits at its gate", lambda: self.is_read_by(pid))

    def is_read_by(self, pid):
        """It has a descriptor, which it gets when open() is through, and sleeps."""
        gate = os.stat(self.path)
        for name in os.listdir("/proc/%d/fd" % pid):
            try:
                if os.path.samestat(os.stat("/proc/%d/fd/%s" % (pid, name)), gate):
                    return "state S" in status_of(pid)
            except OSError:
                pass
        return False

    def open(self):
        os.write(self.file, b"x")
        os.close(self.file)
        os.unlink(self.path)


def text_changes(pid):
    """Places where code in memory is not what its file says, as sentences."""
    found = []
    with open("/proc/%d/maps" % pid) as f, open("/proc/%d/mem" % pid, "rb", 0) as memory:
        for line in f:
            fields = line.split(None, 5)
            if "x" not in fields[1] or "w" in fields[1] or len(fields) < 6 or not fields[5].startswith("/"):
                continue  # what can be written a program may change itself
            start, end = (int(x, 16) for x in fields[0].split("-"))
            memory.seek(start)
            now = memory.read(end - start)
            with open("/proc/%d/root%s" % (pid, fields[5].rstrip("\n")), "rb") as program:
                program.seek(int(fields[2], 16))
                was = program.read(end - start)[:len(now)]  # less of it when the process ends meanwhile
            if now[:len(was)] != was:
                at = next(i for i in range(len(was)) if now[i] != was[i])
                found.append("code of %s differs at %#x: %s instead of %s" % (
                    fields[5].strip(), int(fields[2], 16) + at, now[at:at + 8].hex(), was[at:at + 8].hex()))
    return found


def descriptors(pid):
    """Numbers and targets of a process's open descriptors."""
    found = {}
    for name in os.listdir("/proc/%d/fd" % pid):
        try:
            found[int(name)] = os.readlink("/proc/%d/fd/%s" % (pid, name))
        except OSError:
            pass
    return found

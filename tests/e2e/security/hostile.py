#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hostile.py --contrail C --build DIR [NAME...]: targets of another user that try to harm root's contrail.

A program of programs/ runs as one user, a victim as another one, and root records the first. Contrail must end in time
and normally, twice: by its duration and by SIGTERM; the target goes on; nothing happens to the victim; what is written
is bounded and can be read. Each check is one attack. Exit status: 0 passed, 1 failed, 77 skipped: not root."""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "record"))
from checks import Checks  # noqa: E402
from recorder import TIMEOUT, Failure, status_of, wait_for  # noqa: E402

TARGET, VICTIM = 64534, 64533  # users that no other test plays
LATE = 10  # seconds after its time at which contrail hangs for sure, had it a processor whenever it wanted one
BEATS = 10  # of a target while it is recorded, at least: one takes some milliseconds
READING = 60  # the same for what reads a trace
MEMORY = 1 << 20  # KiB that contrail may have
THREADS = 1024  # directories of threads in a session, at most, beside as many as the machine has made tasks meanwhile
DISK = 1 << 30  # bytes of a session, at most
NORMAL = (0, 69)  # exit codes of contrail: recorded, or not possible (contrail(1))
PAUSE = 34  # number of the system call
BAD_NAME = "\033]0;owned\a\n\033[2J"  # of a copy of programs/rename.c
SETUID = "hostile_setuid"  # the victim, with the rights of root
HEAP, HEAP_SIZE = 0xc000000000, 1 << 30  # of programs/victim.c


def as_user(user):
    return ["setpriv", "--reuid=%d" % user, "--regid=%d" % user, "--clear-groups"]


class Program:
    """A program of another user: its heartbeat and what it has said."""

    def __init__(self, shop, name, *arguments, user=TARGET):
        self.name = name
        self.beats, self.words = (tempfile.NamedTemporaryFile(dir=shop.directory, delete=False) for _ in range(2))
        before = as_user(user) if user else []
        self.process = subprocess.Popen(before + [os.path.join(PROGRAMS, "hostile_" + name)] +
                                        [str(a) for a in arguments],
                                        stdin=subprocess.DEVNULL, stdout=self.beats, stderr=self.words,
                                        cwd="/", env=shop.environment)
        self.pid = self.process.pid
        self.wait_for_beats(1)

    def said(self):
        with open(self.words.name, errors="replace") as file:
            return file.read()

    def is_attacking(self):
        return re.search("^attacked", self.said(), re.MULTILINE)

    def children(self):
        return {int(pid) for pid in re.findall("^child (\\d+)", self.said(), re.MULTILINE)}

    def end(self):
        """None while it lives."""
        return self.process.poll()

    def beat_count(self):
        return os.fstat(self.beats.fileno()).st_size

    def wait_for_beats(self, count=20):
        """It works: there are this many more."""
        before = self.beat_count()
        deadline = time.monotonic() + TIMEOUT
        while self.beat_count() < before + count:
            if self.end() is not None:
                raise Failure("%s ended with %d: %s" % (self.name, self.end(), self.said()))
            if time.monotonic() > deadline:
                raise Failure("%s works no more: %s" % (self.name, status_of(self.pid)))
            time.sleep(0.005)

    def close(self):
        for pid in self.children():
            if "tracer" in status_of(pid):
                os.kill(pid, signal.SIGKILL)
        if self.end() is None:
            self.process.kill()
            self.process.wait()


class Victim(Program):
    """A process that must stay as it is."""

    def __init__(self, shop):
        super().__init__(shop, "victim", user=VICTIM)
        wait_for("the victim's second thread sleeps", self.has_sleeper)
        self.before = self.state()

    def state(self):
        """Its mappings; how large its heap is in memory: a page that somebody has written to makes a difference; how
        often its sleeping thread has run: a stop makes it."""
        with open("/proc/%d/maps" % self.pid) as file:
            maps = file.read()
        with open("/proc/%d/smaps" % self.pid) as file:
            heap = re.search(r"^%x-%x .*?^Rss: *(\d+)" % (HEAP, HEAP + HEAP_SIZE), file.read(),
                             re.DOTALL | re.MULTILINE)
        return maps, heap and heap.group(1), self.sleeper_switches()

    def sleeper(self, name):
        """A file of /proc about its second thread; nothing before there is one."""
        directory = "/proc/%d/task" % self.pid
        threads = [t for t in os.listdir(directory) if int(t) != self.pid]
        if not threads:
            return ""
        with open(os.path.join(directory, threads[0], name)) as file:
            return file.read()

    def has_sleeper(self):
        return self.sleeper("syscall").startswith("%d " % PAUSE)

    def sleeper_switches(self):
        return re.search(r"^voluntary_ctxt_switches:\s*(\d+)", self.sleeper("status"), re.MULTILINE).group(1)

    def look(self):
        """While contrail runs: nobody traces it."""
        if "tracer 0," not in status_of(self.pid):
            raise Failure("the victim is traced: %s" % status_of(self.pid))

    def check(self):
        self.look()
        self.wait_for_beats()
        if self.said():
            raise Failure("the victim says: %s" % self.said())
        now = self.state()
        if now[2] != self.before[2]:
            raise Failure("the victim was stopped")
        if now != self.before:
            lines = set(now[0].splitlines()) ^ set(self.before[0].splitlines())
            raise Failure("the victim's memory has changed: heap of %s KiB is %s KiB; mappings that differ:\n%s" % (
                self.before[1], now[1], "\n".join(sorted(lines))))


def seconds_ready(pid):
    """For which a process was ready to run and did not: that of its threads which waited longest for a processor, as
    the kernel counts; 0 where it does not."""
    longest = 0
    for path in glob.glob("/proc/%d/task/*/schedstat" % pid):
        try:
            with open(path) as file:
                longest = max(longest, int(file.read().split()[1]))
        except (OSError, IndexError):  # the thread has ended meanwhile
            pass
    return longest / 1e9


class Recorder:
    """Root's contrail at work on a target."""

    def __init__(self, shop, target, command, options):
        self.output = shop.new_output()
        self.target = target
        self.tasks_before = count_tasks_made()
        self.files = [tempfile.NamedTemporaryFile(dir=shop.directory, prefix="contrail", delete=False)
                      for _ in range(2)]
        last = ["--pid", str(target.pid)] if command == "stalk" else [str(target.pid)]
        self.process = subprocess.Popen([shop.contrail, command, "--output", self.output] + options + last,
                                        stdin=subprocess.DEVNULL, stdout=self.files[0], stderr=self.files[1],
                                        cwd=shop.directory, env=shop.environment)
        self.pid = self.process.pid
        self.code = self.memory = None

    def poll(self):
        """Whether it has ended; then its exit code is known, and how much memory it had at most."""
        if self.code is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self.process.returncode = self.code = os.waitstatus_to_exitcode(status)
                self.memory = usage.ru_maxrss
                self.cpu = usage.ru_utime + usage.ru_stime
        return self.code is not None

    def said(self):
        return "".join(open(f.name, errors="replace").read() for f in self.files)

    def wait(self, seconds, why, look):
        """Until it has ended. It is killed when it does not, and the target gets a moment to come back. The time for
        which others had the processors does not count."""
        began, without = time.monotonic(), self.without_processor()
        while not self.poll():
            look()
            waited = time.monotonic() - began
            if waited > seconds and waited - min(self.without_processor() - without, TIMEOUT) > seconds:
                state = status_of(self.pid)
                self.kill()
                raise Failure("contrail does not end %s (%s, at most %d MiB): %s" % (why, state, self.memory >> 10,
                                                                                     self.said()))
            time.sleep(0.01)

    def without_processor(self):
        """Seconds for which it, or the target that it waits for, was ready to run and did not."""
        return seconds_ready(self.pid) + seconds_ready(self.target.pid)

    def signal(self, number):
        if not self.poll():
            os.kill(self.pid, number)

    def kill(self):
        if not self.poll():
            self.signal(signal.SIGKILL)
            wait_for("contrail is gone", self.poll)

    def wait_for_attack(self, look):
        def ready():
            look()
            return self.poll() or self.target.is_attacking() or self.target.end() is not None
        wait_for("the attack", ready)

    def check(self, codes):
        said = self.said()
        if "AddressSanitizer" in said or "runtime error:" in said:
            raise Failure("a sanitizer speaks up: %s" % said[-3000:])
        if self.code < 0:
            raise Failure("contrail died of %s: %s" % (signal.Signals(-self.code).name, said[-1000:]))
        if self.code not in codes:
            raise Failure("contrail ended with %d: %s" % (self.code, said[-1000:]))
        if self.code and not re.search("^contrail: .*[.\\w]$", said, re.MULTILINE):
            raise Failure("contrail ended with %d and no message: %r" % (self.code, said))
        check_text("contrail", said)
        if not SANITIZED and self.memory > MEMORY:
            raise Failure("contrail had %d MiB" % (self.memory >> 10))


def check_text(what, text):
    bad = re.search(r"[^\n\t\r -~\u00a0-\uffff]", text)
    if bad:
        raise Failure("%s prints %r in %r" % (what, bad.group(), text[max(0, bad.start() - 50):bad.end() + 50]))


# ---- what was written ----

def run_reader(shop, command, session):
    try:
        done = subprocess.run([shop.contrail, command, session], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=READING, env=shop.environment)
    except subprocess.TimeoutExpired:
        raise Failure("contrail %s hangs" % command)
    text = done.stdout.decode(errors="replace")
    if done.returncode < 0 or done.returncode > 77 or "AddressSanitizer" in text or "runtime error:" in text:
        raise Failure("contrail %s ended with %d: %s" % (command, done.returncode, text[-3000:]))
    check_text("contrail " + command, text)


def count_tasks_made():
    """Since the machine's start, of all processes: what bounds how many threads a target can claim to have."""
    with open("/proc/stat") as file:
        return int(re.search(r"^processes (\d+)", file.read(), re.MULTILINE).group(1))


def check_trace(shop, output, pids, tasks_made):
    """Only these processes, not too much of them, and readable."""
    found = {int(p.rsplit("_", 1)[1]) for p in glob.glob(output + "/session_*/pid_*")}
    if not found <= pids:
        raise Failure("the trace has processes %s, not only %s" % (sorted(found), sorted(pids)))
    threads = glob.glob(output + "/session_*/pid_*/thread_*")
    if len(threads) > THREADS + tasks_made:
        raise Failure("the trace has %d directories of threads" % len(threads))
    size = sum(os.lstat(os.path.join(p, n)).st_blocks * 512 for p, _, names in os.walk(output) for n in names)
    if size > DISK:
        raise Failure("the trace has %d MiB" % (size >> 20))
    for session in glob.glob(output + "/session_*"):
        for command in ("info", "verify", "report"):
            run_reader(shop, command, session)


def files_of_others():
    """In /tmp, of the users that the programs run as."""
    def owner(path):
        try:
            return os.lstat(path).st_uid
        except FileNotFoundError:  # of another test, meanwhile
            return None
    return {name for name in os.listdir("/tmp") if owner(os.path.join("/tmp", name)) in (TARGET, VICTIM)}


# ---- an attack ----

class Attack:
    """A program and how it is recorded. `fails`: what the target says only when its attack has succeeded. `user`: None
    is root. `race`: the attack may not come about. `still`: the target stops itself. `frail`: it may break the agent in
    itself, and die of that."""

    def __init__(self, program, arguments=(), command="attach", options=(), seconds=2, fails=None, user=TARGET,
                 rounds=1, race=False, still=False, frail=False, late=LATE,
                 codes=NORMAL):
        self.program, self.arguments, self.command, self.options = program, arguments, command, list(options)
        self.seconds, self.fails, self.user, self.rounds = seconds, fails, user, rounds
        self.race, self.still, self.frail, self.late, self.codes = race, still, frail, late, codes

    def __call__(self, shop):
        if "SETUID" in self.arguments and os.statvfs(PROGRAMS).f_flag & os.ST_NOSUID:
            return "skipped: %s has no set-uid programs" % os.path.dirname(PROGRAMS)
        files = files_of_others()
        victim = Victim(shop)
        try:
            for i in range(self.rounds if ROUNDS is None else ROUNDS):
                self.once(shop, victim, i, stop=False)
            self.once(shop, victim, 0, stop=True)
            victim.check()
        finally:
            victim.close()
        if files_of_others() - files:
            raise Failure("new in /tmp: %s" % sorted(files_of_others() - files))
        return None

    def once(self, shop, victim, number, stop):
        arguments = [{"VICTIM": victim.pid, "SEED": SEED + number, "SETUID": os.path.join(PROGRAMS, SETUID),
                      "FIFO": os.path.join(PROGRAMS, "fifo")}.get(a, a) for a in self.arguments]
        target = Program(shop, self.program, *arguments, user=self.user)
        seconds = TIMEOUT if stop else self.seconds
        recorder = Recorder(shop, target, self.command, self.options + ["--duration", "%dms" % (seconds * 1000)])
        try:
            beats = self.follow(recorder, victim, stop)
            self.judge(shop, recorder, target, victim)
            if self.seconds >= 1 and not stop and not self.still and target.end() is None and beats < BEATS:
                raise Failure("the target hardly works while it is recorded: %d beats" % beats)
        finally:
            recorder.kill()
            target.close()

    def follow(self, recorder, victim, stop):
        recorder.wait_for_attack(victim.look)
        before = recorder.target.beat_count()
        if stop:
            time.sleep(0.3)  # in the middle of it
            recorder.signal(signal.SIGTERM)
            recorder.wait(self.late, "after SIGTERM", victim.look)
        else:
            recorder.wait(self.seconds + self.late, "in time", victim.look)
        return recorder.target.beat_count() - before

    def judge(self, shop, recorder, target, victim):
        if checks.arguments.show:
            print("".join("  | %s\n" % line for line in (recorder.said() + target.said()).splitlines()) +
                  "  | exit code %d, %d MiB, %.1f s of a processor; %d beats of the target" % (
                      recorder.code, recorder.memory >> 10, recorder.cpu, target.beat_count()))
        recorder.check(self.codes)
        victim.check()
        if self.still:
            os.kill(target.pid, signal.SIGCONT)
        if target.end() is None or not self.frail:
            target.wait_for_beats()
        if not self.race and recorder.code == 0 and not target.is_attacking():
            raise Failure("the target did not attack: %s" % target.said())
        if self.fails and re.search(self.fails, target.said(), re.MULTILINE):
            raise Failure("the attack succeeded: %s" % target.said())
        check_trace(shop, recorder.output, {target.pid} | target.children(), count_tasks_made() - recorder.tasks_before)


FAR = ["4141414141414140", "4242424242424240"]
STALK = ["--events", "call,ret,block", "--summary"]
ATTACKS = {
    "mutex": Attack("mutex", FAR),
    "request_forked": Attack("request", ["forked", "VICTIM"], options=["--detail", "always"], seconds=3),
    "request_exec": Attack("request", ["exec", "VICTIM"], options=["--detail", "always"], seconds=3),
    "request_forked_self": Attack("request", ["forked", 0], seconds=3),
    "request_exec_self": Attack("request", ["exec", 0], seconds=3),
    "request_fifo": Attack("request", ["exec", 0, "FIFO"], seconds=3),
    "request_flood": Attack("request", ["flood", 0], seconds=3),
    "heap": Attack("goheap", ["VICTIM", "%x" % HEAP, "%x" % HEAP_SIZE], seconds=3),
    "heap_setuid": Attack("goheap", ["SETUID", "%x" % HEAP, "%x" % HEAP_SIZE], seconds=3, fails="marks of the heap"),
    "stalk_offsets": Attack("stalktab", ["offsets"], "stalk", STALK),
    "stalk_capacity": Attack("stalktab", ["capacity"], "stalk", STALK),
    # 70: the agent in the target finds its tables moved, and does not start
    "stalk_extra": Attack("extra", [], "stalk", seconds=0.3, rounds=8, race=True, codes=NORMAL + (70,)),
    "seals_map_files": Attack("seals", ["map_files"], fails="^(shrunk|grown|mapped)"),
    "seals_map_files_root": Attack("seals", ["map_files"], fails="^(shrunk|grown|mapped)", user=None),
    "seals_descriptor": Attack("seals", ["descriptor"], fails="^(shrunk|grown|mapped)", seconds=1, rounds=4),
}
for mode in ("anywhere", "control_block", "layout", "chunks", "threads", "requests", "marks", "segments", "depth",
             "generations", "words", "events", "names"):
    ATTACKS["scribble_" + mode] = Attack("scribble", [mode, "SEED"], options=["--detail", "always"])
# A followed thread whose agent is broken may never leave translated code, and contrail waits for it, but not forever.
for mode in ("tables", "anywhere", "chunks", "depth"):
    ATTACKS["stalk_scribble_" + mode] = Attack("scribble", [mode, "SEED"], "stalk", STALK, frail=True, late=45)
for mode in ("unmapped", "moved", "protected"):
    ATTACKS["gone_" + mode] = Attack("gone", [mode])
for mode in ("other", "short", "nothing"):
    ATTACKS["swap_" + mode] = Attack("swap", [mode], seconds=3)
for mode in ("flapping", "held"):
    ATTACKS["stops_" + mode] = Attack("stops", [mode], still=mode == "held")
for mode in ("plain", "code", "modules"):
    ATTACKS["crowd_" + mode] = Attack("crowd", [mode])
ATTACKS["rename"] = Attack("rename", ["a", "b" * 40])
ATTACKS["rename_file"] = Attack(BAD_NAME, ["a", "b" * 40])


def copy_programs(build):
    """Where other users can run them: build trees may be closed to these."""
    directory = tempfile.mkdtemp(prefix="contrail-test-hostile-")
    os.chmod(directory, 0o755)
    for path in glob.glob(os.path.join(build, "hostile_*")):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            os.chmod(shutil.copy(path, directory), 0o755)
    os.chmod(shutil.copy(os.path.join(directory, "hostile_victim"), os.path.join(directory, SETUID)), 0o4755)
    shutil.copy(os.path.join(directory, "hostile_rename"), os.path.join(directory, "hostile_" + BAD_NAME))
    os.mkfifo(os.path.join(directory, "fifo"))
    os.chmod(os.path.join(directory, "fifo"), 0o755)
    return directory


def more_options(parser):
    parser.add_argument("--rounds", type=int,
                        help="recordings of each attack, with other seeds; 0: only the one that SIGTERM ends")
    parser.add_argument("--show", action="store_true", help="print what contrail and the targets say")
    parser.add_argument("--seed", type=int, default=1, help="the first one")


def is_sanitized(contrail):
    with open(contrail, "rb") as file:
        return b"__asan_init" in file.read()


if __name__ == "__main__":
    if os.getuid() != 0:
        print("skipped: needs root, whose contrail is attacked by other users")
        sys.exit(77)
    if not shutil.which("setpriv"):
        print("skipped: needs setpriv, to run programs as other users")
        sys.exit(77)
    checks = Checks(__doc__, more_options)
    ROUNDS, SEED = checks.arguments.rounds, checks.arguments.seed
    unknown = set(checks.arguments.only) - set(ATTACKS)
    if unknown:
        sys.exit("no such attack: %s" % " ".join(sorted(unknown)))
    SANITIZED = is_sanitized(checks.arguments.contrail)
    PROGRAMS = copy_programs(checks.arguments.build)
    try:
        for name, attack in ATTACKS.items():
            checks.run(name, attack)
    finally:
        shutil.rmtree(PROGRAMS)
    sys.exit(checks.verdict())

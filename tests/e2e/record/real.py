#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""real.py: programs of the distribution, recorded from start to end (redis: attached to under load). Output, errors and
exit code are the untraced run's; prints coverage and losses."""
import json
import os
import shutil
import subprocess
import sys

import atf
from checks import Checks
from recorder import Failure, finish, read_line, text_changes, wait_for

BASH = r'''
trap 'echo bye' EXIT
declare -A table
f() { local n=$1; if ((n)); then f $((n - 1)); else echo bottom; fi; }
f 30
for word in one two three two; do ((table[$word]++)); done
for key in $(printf '%s\n' "${!table[@]}" | sort); do echo "$key ${table[$key]}"; done
echo $(echo nested $(echo deeper)) | tr a-z A-Z
(exit 3); echo $?
sleep 0.01 & wait
[[ abc =~ b(.) ]] && echo "${BASH_REMATCH[1]}"
cat <<< "here"
kill -TERM $$
'''
SQL = '''create table t(a integer primary key, b text, c real);
with recursive n(x) as (select 1 union all select x + 1 from n where x < 400)
insert into t select x, printf('%05d', x * 7919 % 1000), x / 7.0 from n;
create index i on t(b);
select b, count(*), sum(c) from t group by substr(b, 1, 2) order by 3 desc limit 5;
begin; update t set c = c * 2 where a % 3 = 0; rollback;
select max(c), min(b) from t where b like '%9%';
select * from nothing;
'''
PYTHON = r'''
import hashlib, json, re, subprocess, sys, threading
results = [None] * 4
def work(i):
    results[i] = sum(len(json.dumps({"n": n, "v": [n / 3] * 3})) for n in range(60))
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(results, hashlib.sha256(b"x" * 10000).hexdigest())
def deep(n): return n and deep(n - 1) + 1
print(deep(300))
try: deep(10 ** 6)
except RecursionError: print("too deep")
def numbers():
    for i in range(10):
        yield i * i
print(list(numbers()), re.sub(r"(\w+) (\w+)", r"\2 \1", "hello world"), 3 ** 200)
print(subprocess.run(["echo", "child"], capture_output=True).stdout)
print("to stderr", file=sys.stderr)
sys.exit(5)
'''
PERL = r'''
use strict; my %h; $h{$_ % 7} += $_ for 1..2000;
print join(",", map { "$_=$h{$_}" } sort keys %h), "\n";
eval { die { code => 3 } }; print "died with $@->{code}\n";
my @sorted = sort { $b <=> $a } map { ($_ * 7919) % 101 } 1..200; print "@sorted[0..4]\n";
local $SIG{ALRM} = sub { die "alarm\n" }; eval { alarm 1; select(undef, undef, undef, 3); }; print $@;
print `echo from a child`; exit 4;
'''
LUA = r'''
local n, t = 0, {}
for i = 1, 3000 do
  local ok, e = pcall(error, {i}); if not ok then n = n + e[1] end
  ok, e = pcall(function() error("text " .. i) end); t[#t + 1] = ok and "no" or e
end
print(n, #t, t[7])
local co = coroutine.wrap(function() for i = 1, 50 do coroutine.yield(i) end end)
local sum = 0; for i = 1, 50 do sum = sum + co() end
print(sum, select(2, pcall(coroutine.wrap(function() error("in a coroutine") end))))
print(xpcall(function() local x = nil; return x.y end, debug.traceback))
print(string.format("%5.2f", 1 / 3), ("x"):rep(10), #string.rep("abc", 100))
'''
VALGRIND = r'$| = 1; print "ready\n"; $_ = <STDIN>; chomp; my %h; $h{$_ % 7} .= $_ for 1..99; ' \
           r'print length $h{3}, ": $_, ", scalar reverse($_), "\n"; exit 3'
SAMPLE = r'''
struct list { struct list *next; int value; };
static int sum(const struct list *l) { int s = 0; while (l) { s += l->value; l = l->next; } return s; }
int sort3(int *v) { for (int i = 0; i < 2; i++)
    if (v[i] > v[i + 1]) { int t = v[i]; v[i] = v[i + 1]; v[i + 1] = t; i = -1; } return v[1]; }
double poly(double x, const double *c, int n) { double r = 0; while (n--) r = r * x + c[n]; return r; }
int main(void) { struct list a = {0, 1}, b = {&a, 2}; int v[3] = {3, 1, 2}; return sum(&b) + sort3(v); }
'''


def make_tree(place):
    for i in range(40):
        directory = os.path.join(place, "d%d" % (i % 5))
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "file%02d.txt" % i), "w") as f:
            f.write("".join("%d %s\n" % ((i * 7919 + k * 31) % 997, "word" * (k % 4)) for k in range(50)))
    return place


def make_repository(shop):
    place = shop.path("repository")
    os.mkdir(place)
    environment = dict(os.environ, GIT_AUTHOR_NAME="A", GIT_AUTHOR_EMAIL="a@b", GIT_COMMITTER_NAME="A",
                       GIT_COMMITTER_EMAIL="a@b", GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")
    for i in range(6):
        environment["GIT_AUTHOR_DATE"] = environment["GIT_COMMITTER_DATE"] = "2020-01-01T00:00:%02d" % i
        with open(os.path.join(place, "file.txt"), "a") as f:
            f.write("".join("line %d of %d\n" % (k, i) for k in range(20)))
        for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "change %d" % i]):
            if i and command[0] == "init":
                continue
            subprocess.run(["git"] + command, cwd=place, env=environment, check=True)
    return place


def record(shop, command, text=None, cwd=None):
    """Runs a command in both ways; returns the line to print."""
    if not shutil.which(command[0]):
        return "skipped: %s is not installed" % command[0]
    output = shop.new_output()
    plain = shop.run(command, text=text, cwd=cwd)
    traced = shop.run(shop.spawn_command(output, [], command), text=text, cwd=cwd)
    differences = plain.differences(traced)
    if differences:
        raise Failure("\n".join(differences))
    if not plain.out:
        raise Failure("the program does nothing: %r" % plain.err)
    return describe(shop, output)


def describe(shop, output):
    found, children = atf.first(output), len(atf.find(output)) - 1
    if not found:
        raise Failure("no trace")
    for each in atf.find(output):
        shop.read("verify", each)
    with open(os.path.join(found, "manifest.json")) as f:
        manifest = json.load(f)
    modules, threads = manifest["modules"], len(manifest["threads"])
    # Cold parts and fragments of functions are no functions.
    functions = sum(m["functions"] - m["skipped"].get("ODD_ENTRY", 0) - m["skipped"].get("FRAGMENT", 0)
                    for m in modules)
    hooked = sum(m["hooked"] for m in modules)
    events, lost = atf.recorded_events(found), sum(manifest["events"]["lost"].values())
    if not events or not hooked:
        raise Failure("nothing was recorded")
    shutil.rmtree(output)
    return "%d functions in %d modules, %.2f %% hooked; %d events of %d threads, %d lost, %d children; " \
           "planned in %d ms, paused %d ms" % (functions, len(modules), 100 * hooked / functions, events, threads, lost,
                             children, manifest.get("plan_ns", 0) // 1000000, manifest.get("pause_ns", 0) // 1000000)


def coreutils(shop):
    tree = make_tree(shop.path("tree"))
    lines = []
    for command in (["find", tree, "-name", "*3*", "-type", "f"], ["ls", "-lR", "--time-style=+", tree],
                    ["sort", "-n", "-k1", os.path.join(tree, "d1", "file01.txt")],
                    ["wc", os.path.join(tree, "d0", "file00.txt"), os.path.join(tree, "d2", "file02.txt")],
                    ["sha256sum", os.path.join(tree, "d3", "file03.txt")], ["du", "-a", "--apparent-size", tree]):
        lines.append("%s: %s" % (command[0], record(shop, command)))
    return "\n          ".join(lines)


def git(shop):
    shop.environment.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1", GIT_PAGER="cat")
    return record(shop, ["git", "log", "-p"], cwd=make_repository(shop))


def cc1(shop):
    try:
        path = subprocess.run(["gcc", "-print-prog-name=cc1"], stdout=subprocess.PIPE).stdout.decode().strip()
    except OSError:
        return "skipped: no gcc"
    with open(shop.path("sample.c"), "w") as f:
        f.write(SAMPLE)
    return record(shop, [path, "-quiet", "-O1", shop.path("sample.c"), "-o", "-"])


def xz(shop):
    with open(shop.path("data"), "wb") as f:
        f.write(b"".join(b"%d some text that repeats\n" % (i * 7919 % 10007) for i in range(20000)))
    return record(shop, ["xz", "-T2", "--block-size=100000", "-1", "-k", "-c", shop.path("data")])


def valgrind(shop):
    """Attached to, its program comes to code that has not been translated yet, and to libraries' code."""
    if not shutil.which("valgrind"):
        return "skipped: valgrind is not installed"
    target = shop.start(["valgrind", "-q", "perl", "-e", VALGRIND], stdin=subprocess.PIPE)
    if read_line(target.stdout, "perl is ready under valgrind") != b"ready\n":
        raise Failure("perl does not start under valgrind")
    recorder = shop.attach(target.pid, shop.new_output())
    target.stdin.write(b"some words\n")
    result = finish(target)
    said = finish(recorder)
    if b"the program that runs this code also reads it" not in said.err:
        raise Failure("contrail does not say that nothing is recorded: %r" % said.err)
    if (result.code, result.out, result.err) != (3, b"27: some words, sdrow emos\n", b""):
        raise Failure("perl ends with %s, says %r and %r" % (result.code, result.out, result.err))
    return record(shop, ["valgrind", "-q", "/bin/echo", "word"])


# ---- redis ----

def ask_redis(shop, socket, *words):
    return shop.run(["redis-cli", "-s", socket] + list(words))


def start_redis(shop, name):
    socket = shop.path(name)
    server = shop.start(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no",
                         "--dir", shop.directory])
    wait_for("redis answers", lambda: server.poll() is not None or ask_redis(shop, socket, "ping").out == b"PONG\n")
    return server, socket


def use_redis(shop, socket):
    """A fixed sequence of commands; the answers."""
    script = b"".join(b"set k%d %d\nincrby k%d 5\nlpush l %d\nzadd z %d m%d\n" % (i, i, i, i, i * 7 % 13, i)
                      for i in range(60))
    script += b"sort l limit 0 5\nzrange z 0 -1 withscores\ndbsize\n" \
              b"eval \"return redis.call('get', 'k7')\" 0\nget nothing\n"
    return shop.run(["redis-cli", "-s", socket], text=script).out


def redis(shop):
    if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
        return "skipped: no redis"
    server, socket = start_redis(shop, "plain")
    plain = use_redis(shop, socket)
    ask_redis(shop, socket, "shutdown", "nosave")
    finish(server)

    server, socket = start_redis(shop, "traced")
    load = shop.start(["redis-benchmark", "-s", socket, "-q", "-n", "20000", "-c", "8", "-t",
                       "set,get,lpush,lrange_100"])
    output = shop.new_output()
    recorder = shop.attach(server.pid, output)
    wait_for("redis answers, recorded", lambda: ask_redis(shop, socket, "ping").out == b"PONG\n")
    shop.wait_for_events(server.pid, 100000)
    shop.detach(server.pid, recorder)
    changes = text_changes(server.pid)
    if changes:
        raise Failure(changes[0])
    line = describe(shop, output)
    benchmark = finish(load, what="redis-benchmark")
    if benchmark.code != 0:
        raise Failure("redis-benchmark ends with %d: %r" % (benchmark.code, benchmark.err))
    ask_redis(shop, socket, "flushall")
    recorder = shop.attach(server.pid, shop.new_output())
    traced = use_redis(shop, socket)
    if traced != plain:
        raise Failure("redis answers differently: %r instead of %r" % (traced[:300], plain[:300]))
    ask_redis(shop, socket, "shutdown", "nosave")
    if finish(server).code != 0:
        raise Failure("redis does not end well")
    finish(recorder)
    return line


def main():
    checks = Checks(__doc__)
    script = lambda shop, name, text: write(shop.path(name), text)
    checks.run("bash", lambda shop: record(shop, ["bash", script(shop, "script.sh", BASH)]))
    checks.run("coreutils", coreutils)
    checks.run("sqlite3", lambda shop: record(shop, ["sqlite3", "-batch", ":memory:"], text=SQL.encode()))
    checks.run("python3", lambda shop: record(shop, ["/usr/bin/python3", script(shop, "script.py", PYTHON)]))
    checks.run("perl", lambda shop: record(shop, ["perl", script(shop, "script.pl", PERL)]))
    checks.run("git", git)
    checks.run("cc1", cc1)
    checks.run("xz", xz)
    checks.run("lua", lambda shop: record(shop, ["lua5.4", script(shop, "script.lua", LUA)]))
    # Its compiled code's frames are found by the return addresses on the stack.
    checks.run("java", lambda shop: record(shop, ["java", "-XX:+UseSerialGC", "--list-modules"]))
    checks.run("valgrind", valgrind)
    checks.run("redis", redis)
    return checks.verdict()


def write(path, text):
    with open(path, "w") as f:
        f.write(text)
    return path


if __name__ == "__main__":
    sys.exit(main())

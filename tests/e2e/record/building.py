# SPDX-License-Identifier: Apache-2.0
"""Builds test programs: from their sources into a directory, in the ways that VARIANTS lists. Knows afterwards which
functions are the program's own: those of its object files, by their place in the finished file."""
import os
import re
import shutil
import subprocess

import prebuilt

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "programs")
E2E = os.path.dirname(HERE)
INCLUDE = os.path.join(E2E, "..", "..", "include")

# name: compiler for C, flags for compiling, flags for linking, what is done to the finished file
VARIANTS = {
    "O2": ("gcc", ["-O2"], [], None),
    "O0": ("gcc", ["-O0"], [], None),
    "O3": ("gcc", ["-O3", "-march=native"], [], None),
    "cet": ("gcc", ["-O2", "-fcf-protection=full"], [], None),
    "clang": ("clang", ["-O2"], [], None),
    "no-pie": ("gcc", ["-O2", "-fno-pie"], ["-no-pie"], None),
    "static": ("gcc", ["-O2"], ["-static"], None),
    "static-pie": ("gcc", ["-O2", "-fPIE"], ["-static-pie"], None),
    "musl": ("musl-gcc", ["-O2"], [], None),
    "musl-static": ("musl-gcc", ["-O2"], ["-static"], None),
    "stripped": ("gcc", ["-O2"], [], ["strip", "--strip-all"]),
    "static-stripped": ("gcc", ["-O2"], ["-static"], ["strip", "--strip-all"]),
}
if prebuilt.MACHINE == "aarch64":
    VARIANTS.update({
        "O3": ("gcc", ["-O3"], [], None),
        "cet": ("gcc", ["-O2", "-mbranch-protection=standard"], [], None),
        "b-key": ("gcc", ["-O2", "-mbranch-protection=pac-ret+leaf+b-key+bti"], [], None),
        # musl has no word on what the processor can do.
        "musl": ("musl-gcc", ["-O2", "-mno-outline-atomics"], [], None),
        "musl-static": ("musl-gcc", ["-O2", "-mno-outline-atomics"], ["-static"], None),
        "unprotected": ("gcc", ["-O2", "-mbranch-protection=none"], [], None),
    })
# What stands for more than one variant on such a machine.
MORE = {"aarch64": {"cet": ["cet", "b-key", "unprotected"]}}.get(prebuilt.MACHINE, {})
COMMON = ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-unused-result", "-g0"]
CPP = {"gcc": "g++", "clang": "clang++"}


class NoCompiler(Exception):
    pass


class Built:
    """A finished program. `own` is {file name: {offset: function name}} of the program and its libraries."""

    def __init__(self, path):
        self.path = path
        self.own = {}


def variants(names):
    return [variant for name in names for variant in MORE.get(name, [name])]


def tool(command, cwd=None):
    command = prebuilt.command(command)
    if not shutil.which(command[0]):
        raise NoCompiler("%s is not installed" % command[0])
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=cwd)
    if done.returncode != 0:
        raise RuntimeError("%s\n%s" % (" ".join(command), done.stdout.decode(errors="replace")))
    return done.stdout.decode(errors="replace")


def functions_of(paths):
    """{path: [(name, address)]} of the functions that each of the files defines."""
    found, current = {path: [] for path in paths}, paths[0]
    for line in tool(["nm", "--defined-only", "--demangle"] + paths).splitlines():
        match = re.fullmatch(r"([0-9a-f]+) ([TtWiu]) (.+)", line)
        if match and ".cold" not in match.group(3):
            found[current].append((re.split(r"[.(]| \[", match.group(3))[0], int(match.group(1), 16)))
        elif line[:-1] in found and line.endswith(":"):  # before each file's lines, when there are several files
            current = line[:-1]
    return found


def compile_objects(directory, sources, compiler, flags):
    objects = []
    for source in sources:
        cpp = source.endswith(".cc")
        if cpp and compiler not in CPP:
            raise NoCompiler("no C++ compiler goes with %s" % compiler)
        target = os.path.join(directory, os.path.basename(source) + ".o")
        tool([CPP[compiler] if cpp else compiler] + COMMON + flags + ["-I" + PROGRAMS, "-I" + E2E, "-I" + INCLUDE,
             "-c", source, "-o", target])
        objects.append(target)
    return objects


def link(directory, name, objects, compiler, flags, own_objects, after=None):
    """The finished file, and {offset: name} of the functions that its own objects define."""
    path = os.path.join(directory, name)
    tool([compiler] + objects + flags + ["-o", path])
    functions = functions_of([path] + own_objects)
    own = {n for item in own_objects for n, _ in functions[item] if "std::" not in n and "__gnu_cxx::" not in n}
    places = {address: n for n, address in functions[path] if n in own}
    if after:
        tool(after + [path])
    return path, places


def build(directory, name, sources, variant="O2", flags=(), libraries=(), linked=(), strange=()):
    """Builds a program. `libraries`: {name.so: [sources]}, linked unless the name begins with "@" (loaded at run time);
    `strange`: sources that belong to it but whose functions don't count."""
    everything = list(sources) + list(strange) + [source for _, more in libraries for source in more]
    place = prebuilt.place([PROGRAMS, E2E], everything, (name, VARIANTS[variant], list(flags), list(linked)))
    built = Built(os.path.join(directory, name))
    built.own = prebuilt.fetch(place, directory)
    if built.own is None:
        built.own = make(directory, name, sources, variant, flags, libraries, linked, strange)
        prebuilt.store(place, directory, built.own)
    return built


def make(directory, name, sources, variant, flags, libraries, linked, strange):
    compiler, compile_flags, link_flags, after = VARIANTS[variant]
    compile_flags = compile_flags + list(flags)
    link_inputs = []
    own = {}
    for library, library_sources in libraries:
        wanted = not library.startswith("@")
        library = library.lstrip("@")
        items = compile_objects(directory, library_sources, compiler, compile_flags + ["-fPIC"])
        path, own[library] = link(directory, library, items, compiler, ["-shared", "-Wl,-soname," + library], items)
        if wanted:
            link_inputs.append(path)
    items = compile_objects(directory, sources, compiler, compile_flags)
    others = compile_objects(directory, list(strange), compiler, compile_flags)
    driver = CPP.get(compiler, compiler) if any(s.endswith(".cc") for s in sources) else compiler
    more = ["-Wl,-rpath,$ORIGIN"] if libraries else []
    _, own[name] = link(directory, name, items + others, driver, link_inputs + link_flags + list(flags) + more +
                        list(linked), items, after)
    return own

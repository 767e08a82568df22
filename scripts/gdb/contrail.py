# SPDX-License-Identifier: Apache-2.0
"""Lets gdb walk over Contrail's stubs, in a live process or a core file.

While a hooked function runs, the return address on the stack leads to its stub; the caller's is on the thread's shadow
stack. This unwinder finds it there by the stack slot it belongs to. A function's first instructions run in its stub: of
a thread that is there, the frame is shown as the function's own, at the instruction's own address.

    (gdb) source contrail.py
    (gdb) backtrace
"""
import struct

import gdb
from gdb.unwinder import Unwinder, register_unwinder

# As in src/hook/layout.h.
BLOCK_TOP, BLOCK_NEXT, BLOCK_BASE = 0x1100, 0x1170, 0x1178
SHADOW_SIZE = 32
BLOCK_SELF, BLOCK_RUNTIME = 0x1110, 0x1168
RUNTIME_HOOKS, HOOK_SIZE, HOOK_FUNCTION = 72, 48, 32
STUB_NUMBER, STUB_BODY, STUB_MAX = 20, 24, 1024
# As in abi/shm_abi.h and abi/boot_abi.h.
CONTROL_BOOT, BOOT_MAGIC, BOOT_RUNTIME = 376, 0x544F4F42, 216


def read_words(address, count):
    data = gdb.selected_inferior().read_memory(address, 8 * count)
    return struct.unpack("<%dQ" % count, bytes(data))


def read_bytes(address, size):
    return bytes(gdb.selected_inferior().read_memory(address, size))


class X64:
    """As in src/hook/stub_x64.[ch]."""
    pc, sp = "rip", "rsp"
    kept = ("rbx", "rbp", "r12", "r13", "r14", "r15")
    others = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")
    after_to_resume, call_body, resume, moves = 8, 8, 13, 18

    @classmethod
    def is_stub(cls, address):
        b = read_bytes(address, STUB_BODY)
        return (b[0] in (0xE8, 0xE9) and b[5:8] == b"\x0f\x1f\0" and b[cls.call_body] in (0xE8, 0xE9)
                and b[cls.call_body + 1:cls.resume] == bytes([STUB_BODY - cls.resume, 0, 0, 0])
                and b[cls.resume] == 0xE9)

    @staticmethod
    def block():
        return int(gdb.parse_and_eval("$gs_base"))


class A64:
    """As in src/hook/stub_a64.[ch]."""
    pc, sp = "pc", "sp"
    kept = tuple("x%d" % n for n in range(19, 30))
    others = tuple("x%d" % n for n in range(19)) + ("x30",)
    after_to_resume, call_body, moves = 4, 4, 16

    @classmethod
    def is_stub(cls, address):
        enter, body, adr, leave = struct.unpack("<4I", read_bytes(address, 16))
        return (enter & 0x7C000000 == 0x14000000 and body & 0x7FFFFFFF == 0x14000000 | (STUB_BODY - cls.call_body) // 4
                and adr == 0x10FFFFF0 and leave & 0xFC000000 == 0x14000000)

    @staticmethod
    def block():
        return read_words(int(gdb.parse_and_eval("$tpidr")), 2)[1]


def machine():
    """Of the process or core file. Pieces of it may be looked at before it runs: then it does not matter."""
    try:
        gdb.parse_and_eval("(long)$gs_base")
        return X64
    except gdb.error:
        return A64


def find_runtime():
    """Of a program that hooks itself by its name, of one that is recorded from a thread's block."""
    try:
        return int(gdb.parse_and_eval("*(unsigned long *)&ct_debug_runtime"))
    except gdb.error:
        block = machine().block()
    try:
        if block and read_words(block + BLOCK_SELF, 1)[0] == block:
            return read_words(block + BLOCK_RUNTIME, 1)[0]
    except gdb.error:
        pass  # the program's own
    return find_recorded_runtime()


def find_recorded_runtime():
    """From the shared memory of a recorder, in a program that uses GS itself."""
    for line in gdb.execute("info proc mappings", to_string=True).splitlines():
        words = line.split()
        if not any(w.startswith("/memfd:contrail") for w in words):
            continue
        boot = read_words(int(words[0], 16) + CONTROL_BOOT, 1)[0]
        if boot and read_words(boot, 1)[0] & 0xFFFFFFFF == BOOT_MAGIC:
            return read_words(boot + BOOT_RUNTIME, 1)[0]
    raise gdb.error("no hooks")


def original(pc):
    """The address of the instruction whose copy in a stub pc is in, or None."""
    try:
        isa = machine()
        stub = next((at for at in range(pc & ~7, pc - STUB_MAX, -8) if isa.is_stub(at)), None)
        if stub is None or pc < stub + STUB_BODY:
            return None
        moves = struct.unpack("<H", read_bytes(stub + isa.moves, 2))[0]
        number = struct.unpack("<I", read_bytes(stub + STUB_NUMBER, 4))[0]
        lead, count = read_bytes(stub + moves, 2)
        table = [struct.unpack_from("<BH", read_bytes(stub + moves + 2, 3 * count), 3 * i) for i in range(count)]
        before = [start for start, copy in table if copy <= pc - stub]
        hooks = read_words(find_runtime() + RUNTIME_HOOKS, 1)[0]
        function = read_words(hooks + number * HOOK_SIZE + HOOK_FUNCTION, 1)[0]
        return function + lead + before[-1] if moves and before and pc < stub + moves else None
    except gdb.error:
        return None


def shadow_stacks():
    """Yields each thread's entries (slot, return address, stub word), oldest first."""
    try:
        runtime = find_runtime()
        block = read_words(runtime, 1)[0]
        while block:
            top, base = read_words(block + BLOCK_TOP, 1)[0], read_words(block + BLOCK_BASE, 1)[0]
            count = (top - base) // SHADOW_SIZE
            words = read_words(base, 4 * count) if count > 0 else ()
            yield [words[i : i + 3] for i in range(0, len(words), 4)]
            block = read_words(block + BLOCK_NEXT, 1)[0]
    except gdb.error:
        return  # not loaded yet, or no memory


def real_return(slot, resume):
    """The caller's address for a frame that returns to `resume` through `slot`, or None."""
    to_resume = machine().after_to_resume
    for entries in shadow_stacks():
        for i in range(len(entries) - 1, 0, -1):
            if entries[i][0] != slot or entries[i][2] + to_resume != resume:
                continue
            # In a chain of tail calls each frame returns to the stub of the one before it.
            while entries[i - 1][0] == slot and entries[i][1] == entries[i - 1][2] + to_resume:
                i -= 1
            return entries[i][1]
    return None


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class StubUnwinder(Unwinder):
    def __init__(self):
        super().__init__("contrail-stub")

    def __call__(self, frame):
        isa = A64 if frame.architecture().name().startswith("aarch64") else X64
        sp, pc = frame.read_register(isa.sp), frame.read_register(isa.pc)
        address = real_return(int(sp) - 8, int(pc))
        if address is None:
            address = original(int(pc)) if frame.level() == 0 else None
        if address is None:
            return None
        info = frame.create_unwind_info(FrameId(sp, pc))
        info.add_saved_register(isa.pc, gdb.Value(address).cast(pc.type))
        info.add_saved_register(isa.sp, sp)
        for name in isa.kept + isa.others if frame.level() == 0 else isa.kept:
            info.add_saved_register(name, frame.read_register(name))
        return info


class HideStubs:
    """Leaves the stubs' own frames out of backtraces (`backtrace -no-filters` shows them)."""

    def __init__(self):
        self.name, self.priority, self.enabled = "contrail-stub", 100, True
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        return (f for f in frames if not is_stub_frame(f.inferior_frame()))


def is_stub_frame(frame):
    if frame.name() is not None:
        return False
    if frame.level() == 0 and original(int(frame.pc())) is not None:
        return True
    return real_return(int(frame.read_register(machine().sp)) - 8, int(frame.pc())) is not None


register_unwinder(None, StubUnwinder(), replace=True)
HideStubs()

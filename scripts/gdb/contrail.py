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
AFTER_TO_RESUME = 8
BLOCK_SELF, BLOCK_RUNTIME = 0x1110, 0x1168
RUNTIME_HOOKS, HOOK_SIZE, HOOK_FUNCTION = 72, 48, 32
STUB_CALL_BODY, STUB_RESUME, STUB_MOVES, STUB_NUMBER, STUB_BODY, STUB_MAX = 8, 13, 18, 20, 24, 1024
# As in abi/shm_abi.h and abi/boot_abi.h.
CONTROL_BOOT, BOOT_MAGIC, BOOT_RUNTIME = 376, 0x544F4F42, 216
KEPT_REGISTERS = ("rbx", "rbp", "r12", "r13", "r14", "r15")
ALL_REGISTERS = KEPT_REGISTERS + ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")


def read_words(address, count):
    data = gdb.selected_inferior().read_memory(address, 8 * count)
    return struct.unpack("<%dQ" % count, bytes(data))


def find_runtime():
    """Of a program that hooks itself by its name, of one that is recorded from a thread's block."""
    try:
        return int(gdb.parse_and_eval("*(unsigned long *)&ct_debug_runtime"))
    except gdb.error:
        block = int(gdb.parse_and_eval("$gs_base"))
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


def read_bytes(address, size):
    return bytes(gdb.selected_inferior().read_memory(address, size))


def is_stub(address):
    """As in src/hook/stub.c."""
    b = read_bytes(address, STUB_BODY)
    return (b[0] in (0xE8, 0xE9) and b[5:8] == b"\x0f\x1f\0" and b[STUB_CALL_BODY] in (0xE8, 0xE9)
            and b[STUB_CALL_BODY + 1:STUB_RESUME] == bytes([STUB_BODY - STUB_RESUME, 0, 0, 0])
            and b[STUB_RESUME] == 0xE9)


def original(pc):
    """The address of the instruction whose copy in a stub pc is in, or None."""
    try:
        stub = next((at for at in range(pc & ~7, pc - STUB_MAX, -8) if is_stub(at)), None)
        if stub is None or pc < stub + STUB_BODY:
            return None
        moves, number = struct.unpack("<HI", read_bytes(stub + STUB_MOVES, 6))
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
    for entries in shadow_stacks():
        for i in range(len(entries) - 1, 0, -1):
            if entries[i][0] != slot or entries[i][2] + AFTER_TO_RESUME != resume:
                continue
            # In a chain of tail calls each frame returns to the stub of the one before it.
            while entries[i - 1][0] == slot and entries[i][1] == entries[i - 1][2] + AFTER_TO_RESUME:
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
        sp, pc = frame.read_register("rsp"), frame.read_register("rip")
        address = real_return(int(sp) - 8, int(pc))
        if address is None:
            address = original(int(pc)) if frame.level() == 0 else None
        if address is None:
            return None
        info = frame.create_unwind_info(FrameId(sp, pc))
        info.add_saved_register("rip", gdb.Value(address).cast(pc.type))
        info.add_saved_register("rsp", sp)
        for name in ALL_REGISTERS if frame.level() == 0 else KEPT_REGISTERS:
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
    return real_return(int(frame.read_register("rsp")) - 8, int(frame.pc())) is not None


register_unwinder(None, StubUnwinder(), replace=True)
HideStubs()

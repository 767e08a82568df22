"""Lets gdb walk over Contrail's stubs, in a live process or a core file.

While a hooked function runs, the return address on the stack leads to its stub; the caller's is on the thread's shadow
stack. This unwinder finds it there by the stack slot it belongs to.

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
KEPT_REGISTERS = ("rbx", "rbp", "r12", "r13", "r14", "r15")


def read_words(address, count):
    data = gdb.selected_inferior().read_memory(address, 8 * count)
    return struct.unpack("<%dQ" % count, bytes(data))


def shadow_stacks():
    """Yields each thread's entries (slot, return address, stub word), oldest first."""
    try:
        runtime = int(gdb.parse_and_eval("*(unsigned long *)&ct_debug_runtime"))
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
            return None
        info = frame.create_unwind_info(FrameId(sp, pc))
        info.add_saved_register("rip", gdb.Value(address).cast(pc.type))
        info.add_saved_register("rsp", sp)
        for name in KEPT_REGISTERS:
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
    return real_return(int(frame.read_register("rsp")) - 8, int(frame.pc())) is not None


register_unwinder(None, StubUnwinder(), replace=True)
HideStubs()

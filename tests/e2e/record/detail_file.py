# SPDX-License-Identifier: Apache-2.0
"""Reads detail.atf without any of Contrail's code (docs/TRACE-FORMAT.md)."""
import glob
import os
import struct

CALL, RETURN, SIGNAL = 3, 4, 5
EVENT = struct.Struct("<IHHIIQ")
PAYLOAD = struct.Struct("<Q8Q3QHH")
NO_INDEX = 0xFFFFFFFF
X86_64 = 1  # the header's machine


class Record:
    def __init__(self, data, at):
        self.length, self.type, self.flags, self.index_seq, self.tid, self.time = EVENT.unpack_from(data, at)
        self.function = 0
        if self.type in (CALL, RETURN):
            values = PAYLOAD.unpack_from(data, at + EVENT.size)
            self.function, self.registers = values[0], values[1:9]
            self.return_address, self.frame_pointer, self.stack_pointer, size = values[9:13]
            begin = at + EVENT.size + PAYLOAD.size
            self.stack = data[begin:begin + size]
            # what the caller has left there: on x86_64 the return address comes first
            self.has_link = data[6] != X86_64
            self.callers = self.stack if self.has_link else self.stack[8:]
            self.rest = data[begin + size:at + self.length]

    def returns_as_stack_says(self):
        """Is the return address on the stack, if that is where calls put it, the right one?"""
        return self.has_link or int.from_bytes(self.stack[:8], "little") == self.return_address

    def eight_arguments(self):
        """Integers: as many are in registers as the machine passes there."""
        if self.has_link:
            return list(self.registers)
        return [*self.registers[:6], *struct.unpack_from("<2Q", self.callers)]


def read(thread_directory):
    """All records of a thread, in order."""
    records = []
    paths = [os.path.join(thread_directory, "detail.atf")]
    paths += sorted(glob.glob(os.path.join(glob.escape(thread_directory), "detail_*.atf")))
    for path in paths:
        if not os.path.exists(path):
            continue
        with open(path, "rb") as file:
            data = file.read()
        assert data[:4] == b"ATD2" and data[-64:-60] == b"2DTA", path
        at = 64
        while at < len(data) - 64:
            records.append(Record(data, at))
            at += records[-1].length
        assert at == len(data) - 64, path
    return records

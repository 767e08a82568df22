# SPDX-License-Identifier: Apache-2.0
"""Reads detail.atf without any of Contrail's code (docs/TRACE-FORMAT.md)."""
import glob
import os
import struct

CALL, RETURN, SIGNAL = 3, 4, 5
EVENT = struct.Struct("<IHHIIQ")
PAYLOAD = struct.Struct("<Q8Q3QHH")
NO_INDEX = 0xFFFFFFFF


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
            self.rest = data[begin + size:at + self.length]


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

# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""User instructions of the calling thread, where the machine lets them be counted: virtual machines often do not."""

import ctypes
import os
import platform
import struct

SYSTEM_CALLS = {"x86_64": 298, "aarch64": 241}  # perf_event_open
ATTRIBUTE_BYTES = 128
HARDWARE, INSTRUCTIONS = 0, 1
EXCLUDE_KERNEL_AND_HYPERVISOR = 0b11 << 5


class UserInstructions:
    """Counts from now on. Closed counters are no error: then `read` gives None."""

    def __init__(self) -> None:
        attribute = struct.pack("=IIQQQQQ", HARDWARE, ATTRIBUTE_BYTES, INSTRUCTIONS, 0, 0, 0,
                                EXCLUDE_KERNEL_AND_HYPERVISOR).ljust(ATTRIBUTE_BYTES, b"\0")
        call = SYSTEM_CALLS.get(platform.machine())
        this_thread, any_core, no_group, no_flags = 0, -1, -1, 0
        self._file = -1 if call is None else ctypes.CDLL(None, use_errno=True).syscall(
            call, ctypes.create_string_buffer(attribute, ATTRIBUTE_BYTES), this_thread, any_core, no_group, no_flags)

    def read(self) -> int | None:
        return None if self._file < 0 else struct.unpack("=Q", os.read(self._file, 8))[0]

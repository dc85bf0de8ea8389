"""Small files of /proc and /sys kept open, and counters in them that wrap or start over.

Reading a file again costs a tenth of open + read + close. Anything missing, refused or malformed reads as
None: only its value is lost, never the source.
"""

from __future__ import annotations

import os

MOST = 2**63 - 1  # the largest number that a column holds


class KeptFile:
    """One file, opened when it is first read and again after its device has come back."""

    def __init__(self, path: str, size: int = 4096, is_list: bool = False) -> None:
        """size: what is read of it at most. is_list: of many records, which the kernel gives a page at a time
        however much is asked for (Documentation/filesystems/seq_file.rst); it takes a call more."""
        self.path = path
        self._size, self._is_list = size, is_list
        self._descriptor: int | None = None

    def read(self) -> bytes | None:
        """Its content now."""
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            data = os.pread(self._descriptor, self._size, 0)
            while self._is_list and (page := os.pread(self._descriptor, self._size - len(data), len(data))):
                data += page
            return data
        except OSError:
            self.close()
            return None

    def number(self, unit: int = 1) -> int | None:
        return as_number(self.read(), unit)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class CounterFile(KeptFile):
    """A file that holds one growing number; `modulus` is where it wraps to 0, None for never."""

    def __init__(self, path: str, modulus: int | None = None) -> None:
        super().__init__(path, 64)
        self._modulus = modulus
        self._last: int | None = None
        self.counted: int | None = None  # the last answer of `count`

    def count(self) -> int | None:
        """The number without its wraps; it never falls. None: no reading this time."""
        reading = self.number()
        if reading is None or reading < 0:
            return None
        if self._last is None or self.counted is None:
            self.counted = reading
        else:
            step = reading - self._last
            # A fall is a wrap where that makes a small step; else the counter has started over.
            if step < 0 and self._modulus is not None and step + self._modulus <= self._modulus // 2:
                step += self._modulus
            self.counted += max(0, step)
        self._last = reading
        return self.counted


def as_number(text: bytes | None, unit: int = 1) -> int | None:
    """The whole number that the text is, times unit; None for anything else, "max" or "Unavailable" too."""
    try:
        return None if text is None else within(int(text) * unit)
    except ValueError:
        return None


def within(number: int) -> int | None:
    """The number, if it can be one: None where a column cannot hold it."""
    return number if -MOST <= number <= MOST else None


def numbers_by_word(text: bytes | None) -> dict[bytes, int]:
    """Lines "word number" as cgroup files have them; others are left out."""
    found = {}
    for line in (text or b"").splitlines():
        word, _, rest = line.partition(b" ")
        number = as_number(rest)
        if number is not None:
            found[word] = number
    return found


def read_once(path: str, size: int = 1 << 16, is_list: bool = False) -> bytes | None:
    """The beginning of a file that is rarely read. is_list: see KeptFile."""
    file = KeptFile(path, size, is_list)
    try:
        return file.read()
    finally:
        file.close()


def names_in(directory: str) -> list[str]:
    """Sorted names of what is in a directory; none where there is no such directory."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def cpu_flags(proc: str) -> set[bytes]:
    """Flags of the first CPU in /proc/cpuinfo (x86); empty elsewhere."""
    for line in (read_once(f"{proc}/cpuinfo") or b"").splitlines():
        if line.startswith(b"flags"):
            return set(line.partition(b":")[2].split())
    return set()

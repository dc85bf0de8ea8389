"""Switches the verbose output of a oneDNN that is linked into another library and exports no switch, as in
TensorFlow's wheels: by the variable that `dnnl_set_verbose` sets, whose place the table of symbols tells.

oneDNN (src/common/verbose.cpp of 2.x and 3.x) keeps `static setting_t<uint32_t> verbose`: the value, and a
byte that is 1 once the value has been read from the environment, which the first kernel does. Compilers make
two variables of them. The flag is used only if oneDNN itself has filled it in, and only set to 0 and back to
the value that it had.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from .signals import raise_again

LIBRARIES = ("libtensorflow_cc.so.", "libtensorflow_framework.so.", "_pywrap_tensorflow_internal.so")
VALUE = b"_ZN4dnnl4implL7verboseE.0"  # dnnl::impl::verbose, of which the compiler has made two variables
MOST_VALUE = 1 << 16  # of version 2 it is a level, of version 3 a set of some bits
TO_IS_READ = 4  # bytes from the value on

_HEADER = struct.Struct("<6s26xQQ6xHHHH2x")  # of Elf64_Ehdr: magic; segments and sections, where and how many
_SEGMENT = struct.Struct("<I4xQQ32x")  # of Elf64_Phdr: type, offset, address
_SECTION = struct.Struct("<4xI16xQQII16x")  # of Elf64_Shdr: type, offset, size, link, info
_ELF64 = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_LOAD, _SYMBOLS, _LOCAL_OBJECT = 1, 2, 1
_SYMBOL_BYTES = 24  # Elf64_Sym: name, info, other and section in 8 bytes; value; size
_AT_ONCE = _SYMBOL_BYTES << 15


class OnednnFlag:
    """The flag of one library in this process."""

    def __init__(self, address: int) -> None:
        self._value = ctypes.c_uint32.from_address(address)
        self._is_read = ctypes.c_uint8.from_address(address + TO_IS_READ)
        self._on = 0

    @property
    def prints(self) -> bool:
        """Whether the library prints its kernels, or did until it was switched off here."""
        if not self._on and self._is_read.value == 1 and self._value.value < MOST_VALUE:
            self._on = self._value.value
        return self._on > 0

    def __call__(self, level: int) -> None:
        """Switch it off (0) or on, if it prints at all."""
        if self.prints:
            self._value.value = self._on if level else 0


_found: Dict[str, Optional[OnednnFlag]] = {}  # by path


def flags() -> List[OnednnFlag]:
    """Those of the libraries that were loaded when one of these was seen first. That call reads its table of
    symbols (TensorFlow 2.15: 16 MB, 15 ms; 0.1 s without numpy)."""
    if not _found:
        _look()
    return [flag for flag in _found.values() if flag is not None]


def _look() -> None:
    try:
        regions = list(_regions())
    except OSError:
        raise_again()
        return
    for region in regions:
        if region.path not in _found and os.path.basename(region.path).startswith(LIBRARIES):
            try:
                _found[region.path] = _flag_of(region, regions)
            except Exception:
                raise_again()
                _found[region.path] = None  # a file that is not as expected: its lines cannot be switched off


class _Region(NamedTuple):
    """Of this process's memory."""

    begin: int
    end: int
    is_writable: bool
    offset: int  # in the file
    inode: int
    path: str  # "": of no file


def _regions() -> Iterator[_Region]:
    """Raises OSError."""
    with open("/proc/self/maps") as file:
        for line in file:
            fields = line.rstrip("\n").split(None, 5)
            begin, _, end = fields[0].partition("-")
            path = fields[5] if len(fields) > 5 else ""
            yield _Region(
                int(begin, 16), int(end, 16), "w" in fields[1], int(fields[2], 16), int(fields[4]), path
            )


def _flag_of(library: _Region, regions: Sequence[_Region]) -> Optional[OnednnFlag]:
    """None if there is none to be found. Raises OSError, struct.error."""
    first = next(one for one in regions if one.path == library.path and one.offset == 0)
    file = os.open(library.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if os.fstat(file).st_ino != library.inode:  # it has been replaced since it was loaded
            return None
        place = _place(file)
    finally:
        os.close(file)
    if place is None:
        return None
    begin = first.begin + place
    end = begin + TO_IS_READ + 1
    is_writable = any(one.begin <= begin and end <= one.end and one.is_writable for one in regions)
    return OnednnFlag(begin) if is_writable and begin % 4 == 0 else None


def _place(file: int) -> Optional[int]:
    """Bytes from where a library begins in memory to its flag; None if it names none, or several. Raises
    OSError, struct.error."""
    header = os.pread(file, _HEADER.size, 0)
    magic, segments_at, sections_at, segment_bytes, segments, section_bytes, sections = _HEADER.unpack(header)
    if magic != _ELF64 or segment_bytes != _SEGMENT.size or section_bytes != _SECTION.size:
        return None
    base = next(
        address
        for kind, offset, address in _table(file, _SEGMENT, segments_at, segments)
        if kind == _LOAD and offset == 0
    )
    table = list(_table(file, _SECTION, sections_at, sections))
    for kind, offset, _, names, local in table:
        if kind == _SYMBOLS:
            found = list(_values(file, offset, local, table[names][1]))
            return found[0] - base if len(found) == 1 else None
    return None


def _table(file: int, row: struct.Struct, offset: int, rows: int) -> Iterator[Tuple[Any, ...]]:
    return row.iter_unpack(os.pread(file, rows * row.size, offset))


def _values(file: int, symbols_at: int, count: int, names_at: int) -> Iterator[int]:
    """Addresses of static variables of 4 bytes called VALUE, with one of a single byte right behind. Names
    take more room than all else, so only the few that are in question are read."""
    values: Dict[int, int] = {}  # of variables of 4 bytes: address -> where the name is
    bytes_: Set[int] = set()  # addresses of variables of a single one
    end = symbols_at + count * _SYMBOL_BYTES
    for offset in range(symbols_at, end, _AT_ONCE):
        for described, address, size in _small(os.pread(file, min(_AT_ONCE, end - offset), offset)):
            if described >> 32 & 0xFFFF == _LOCAL_OBJECT:
                if size == TO_IS_READ:
                    values[address] = described & 0xFFFFFFFF
                else:
                    bytes_.add(address)
    for address, name in values.items():
        if address + TO_IS_READ in bytes_ and _is(file, names_at + name, VALUE):
            yield address


def _small(symbols: bytes) -> Iterable[Tuple[int, int, int]]:
    """What describes it, address and size of those of 1 or 4 bytes."""
    numpy = sys.modules.get("numpy")  # as TensorFlow has loaded it
    if numpy is not None:
        rows = numpy.frombuffer(symbols, "<u8").reshape(-1, 3)
        found: Iterable[Tuple[int, int, int]] = rows[(rows[:, 2] == 1) | (rows[:, 2] == 4)].tolist()
        return found
    words = memoryview(symbols).cast("Q").tolist()
    sizes = words[2::3]
    return [(words[3 * at], words[3 * at + 1], size) for at, size in enumerate(sizes) if size in (1, 4)]


def _is(file: int, offset: int, name: bytes) -> bool:
    return os.pread(file, len(name) + 1, offset) == name + b"\0"

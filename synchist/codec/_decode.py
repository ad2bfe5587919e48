"""Bytes to values: a reader that believes nothing.

Every length is compared with the bytes that are there before anything is allocated, containers
grow only with entries that were read, and each failure says at which byte it happened. The reader
is ours, rather than msgpack's, because neither build of msgpack gives positions or bounds what a
nest of arrays with false lengths allocates, and the two builds differ in the depth they take.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from ..errors import CorruptDataError, SynchistError
from . import _containers, _scalars, _stdlib, _wire
from ._libraries import LIBRARY_OF_CODE, load
from ._limits import MAX_DEPTH, MAX_SAME_HASH, flooded
from ._opaque import Opaque
from ._registry import Registry
from ._tables import DECODERS, ExtDecoder

__all__ = ["Reader", "decode_with"]

_FILLED: Final = (_containers, _scalars, _stdlib)
"""Imported for their entries in the table of decoders."""

_COPIED: Final = 1 << 16
"""Inputs up to this size are copied into bytes, which are faster to read than a memoryview."""

_float32: Final = struct.Struct(">f").unpack_from
_float64: Final = struct.Struct(">d").unpack_from
_uint16: Final = struct.Struct(">H").unpack_from
_uint32: Final = struct.Struct(">I").unpack_from
_uint64: Final = struct.Struct(">Q").unpack_from
_int8: Final = struct.Struct(">b").unpack_from
_int16: Final = struct.Struct(">h").unpack_from
_int32: Final = struct.Struct(">i").unpack_from
_int64: Final = struct.Struct(">q").unpack_from

_UINT_SIZES: Final = {
    0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4,
    0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4,
}  # fmt: skip
"""Bytes of the length that follows the first byte."""


class Reader:
    """Reads one encoded value. Used by one thread.

    Attributes:
        data: the input.
        pos: the next byte to read.
        registry: where registered names are looked up.
        zones: time zones that were looked up, by key; None for one that is unknown here.
        missing: libraries that the data asked for and that cannot be loaded.
    """

    __slots__ = ("data", "missing", "pos", "registry", "zones")

    def __init__(self, data: bytes | memoryview, registry: Registry) -> None:
        self.data = data
        self.pos = 0
        self.registry = registry
        self.zones: dict[str, Any] = {}
        self.missing: set[str] = set()

    def corrupt(self, message: str, offset: int | None = None) -> CorruptDataError:
        """The error for trouble at `offset` (without one: where the reader stands)."""
        offset = self.pos if offset is None else offset
        return CorruptDataError(f"{message}, at byte {offset}", offset=offset)

    def item(self, depth: int) -> Any:
        """The next value, which stands `depth` containers deep."""
        try:
            first = self.data[self.pos]
        except IndexError:
            raise self.corrupt("the data ends where a value is expected") from None
        self.pos += 1
        return _READERS[first](self, first, depth)

    def enter(self, depth: int) -> None:
        """Refuses a container that stands too deep."""
        if depth >= MAX_DEPTH:
            raise self.corrupt(f"values are nested deeper than {MAX_DEPTH} containers")

    def raw(self, end: int) -> bytes:
        """The bytes up to `end`."""
        data = self.data[self.pos : end]
        self.pos = end
        return bytes(data)

    def view(self, size: int) -> memoryview:
        """The next `size` bytes, uncopied."""
        start = self.pos
        self.pos = self.needed(size)
        return memoryview(self.data)[start : self.pos]

    def needed(self, size: int) -> int:
        """The position after `size` more bytes, which must be there."""
        end = self.pos + size
        if end > len(self.data):
            raise self.corrupt(
                f"{size} bytes are announced and {len(self.data) - self.pos} are left"
            )
        return end

    def length(self, first: int) -> int:
        """The length that follows the first byte `first`."""
        size = _UINT_SIZES[first]
        end = self.needed(size)
        value = int.from_bytes(self.data[self.pos : end], "big")
        self.pos = end
        return value

    def array_header(self) -> int:
        """The number of entries of the array that must come next."""
        start = self.pos
        first = self.data[start] if start < len(self.data) else 0xC1
        self.pos += 1
        if 0x90 <= first <= 0x9F:
            count = first & 0xF
        elif first in (0xDC, 0xDD):
            count = self.length(first)
        else:
            raise self.corrupt("an array is expected", start)
        self.needed(count)  # an entry takes a byte at least
        return count

    def bin_view(self) -> memoryview:
        """The bytes of the bin that must come next, uncopied."""
        start = self.pos
        first = self.data[start] if start < len(self.data) else 0xC1
        self.pos += 1
        if first not in (0xC4, 0xC5, 0xC6):
            raise self.corrupt("binary data is expected", start)
        return self.view(self.length(first))

    def array(self, depth: int) -> list[Any]:
        """The array that must come next, which stands `depth` containers deep."""
        self.enter(depth)
        return self.items(self.array_header(), depth + 1)

    def items(self, count: int, depth: int) -> list[Any]:
        """The next `count` values."""
        if count > 8:
            floats = self._floats(count)
            if floats is not None:
                return floats
        # No comprehension, here and in `array`: it would take one more frame for every level.
        values = []
        item = self.item
        for _ in range(count):
            values.append(item(depth))  # noqa: PERF401
        return values

    def _floats(self, count: int) -> list[Any] | None:
        start = self.pos
        end = start + 9 * count
        data = self.data
        # Every ninth byte says "float 64": then the values in between are floats, all of them.
        if data[start] != 0xCB or end > len(data):
            return None
        if bytes(data[start:end:9]).count(0xCB) != count:
            return None
        self.pos = end
        return [value for _, value in struct.iter_unpack(">Bd", data[start:end])]

    def record(self, *counts: int) -> list[Any]:
        """A short array of leaf values that must come next; it does not count as a container."""
        start = self.pos
        count = self.array_header()
        if count not in counts:
            raise self.corrupt(f"an array has {count} entries, not {counts[0]}", start)
        return [self.item(MAX_DEPTH) for _ in range(count)]

    def ints(self, *counts: int) -> list[int]:
        """A record of ints."""
        start = self.pos
        values = self.record(*counts)
        for value in values:
            if type(value) is not int:
                raise self.corrupt(f"an int is expected, found {type(value).__name__}", start)
        return values

    def learn(self, code: int) -> ExtDecoder | None:
        """The decoder of a code whose library is not loaded yet; None where it cannot be."""
        library = LIBRARY_OF_CODE.get(code)
        if library is None or library in self.missing:
            return None
        if not load(library):
            self.missing.add(library)
        return DECODERS.get(code)

    def text(self) -> str:
        """The str that must come next."""
        start = self.pos
        value = self.item(MAX_DEPTH)
        if type(value) is not str:
            raise self.corrupt(f"a str is expected, found {type(value).__name__}", start)
        return value


def decode_with(data: bytes | bytearray | memoryview, registry: Registry) -> Any:
    """The value that `data` encodes, all of it.

    Raises:
        CorruptDataError: the data is not what `encode` writes.
    """
    if type(data) is not bytes:
        view = memoryview(data)
        copied = view.nbytes <= _COPIED or not view.c_contiguous
        data = view.tobytes() if copied else view.cast("B")
    reader = Reader(data, registry)
    try:
        value = reader.item(0)
    except (SynchistError, MemoryError, RecursionError):
        raise
    except Exception as error:
        raise reader.corrupt(f"a value cannot be rebuilt ({error!r})") from error
    if reader.pos != len(data):
        raise reader.corrupt(f"{len(data) - reader.pos} bytes follow the value")
    return value


def _fixint(reader: Reader, first: int, depth: int) -> int:
    return first if first < 0x80 else first - 0x100


def _number(unpack: Callable[[Any, int], tuple[Any, ...]], size: int) -> _ItemReader:
    def read(reader: Reader, first: int, depth: int) -> Any:
        start = reader.pos
        try:
            (value,) = unpack(reader.data, start)
        except struct.error:
            reader.needed(size)
            raise
        reader.pos = start + size
        return value

    return read


def _fixstr(reader: Reader, first: int, depth: int) -> str:
    return _utf8(reader, first & 0x1F)


def _str(reader: Reader, first: int, depth: int) -> str:
    return _utf8(reader, reader.length(first))


def _utf8(reader: Reader, size: int) -> str:
    start = reader.pos
    end = reader.needed(size)
    try:
        value = str(reader.data[start:end], "utf-8")
    except UnicodeDecodeError as error:
        raise reader.corrupt("a str is not valid UTF-8", start + error.start) from error
    reader.pos = end
    return value


def _bin(reader: Reader, first: int, depth: int) -> bytes:
    return reader.raw(reader.needed(reader.length(first)))


def _fixarray(reader: Reader, first: int, depth: int) -> list[Any]:
    reader.pos -= 1
    return reader.array(depth)


def _fixmap(reader: Reader, first: int, depth: int) -> dict[Any, Any]:
    return _pairs(reader, first & 0xF, depth)


def _map(reader: Reader, first: int, depth: int) -> dict[Any, Any]:
    return _pairs(reader, reader.length(first), depth)


def _pairs(reader: Reader, count: int, depth: int) -> dict[Any, Any]:
    start = reader.pos
    reader.enter(depth)
    reader.needed(2 * count)
    item = reader.item
    depth += 1
    if count > MAX_SAME_HASH:
        flat = [item(depth) for _ in range(2 * count)]
        keys = flat[::2]
        try:
            if flooded(keys, count):
                raise reader.corrupt(
                    f"more than {MAX_SAME_HASH} keys of a dict have one hash", start
                )
            pairs = dict(zip(keys, flat[1::2], strict=True))
        except TypeError as error:
            raise reader.corrupt(f"a key of a dict cannot be one ({error})", start) from error
    else:
        pairs = {}
        for _ in range(count):
            key = item(depth)
            try:
                pairs[key] = item(depth)
            except TypeError as error:
                raise reader.corrupt(f"a key of a dict cannot be one ({error})", start) from error
    if len(pairs) != count:
        raise reader.corrupt("a dict has a key twice", start)
    return pairs


def _fixext(reader: Reader, first: int, depth: int) -> Any:
    return _ext(reader, 1 << (first - 0xD4), depth)


def _ext_sized(reader: Reader, first: int, depth: int) -> Any:
    return _ext(reader, reader.length(first), depth)


def _ext(reader: Reader, size: int, depth: int) -> Any:
    end = reader.needed(size + 1)
    (code,) = _int8(reader.data, reader.pos)
    reader.pos += 1
    start = reader.pos
    decoder = DECODERS.get(code) or reader.learn(code)
    if decoder is None:
        name = _wire.NAMES.get(code, f"extension {code}")
        return Opaque(code, reader.raw(end), name)
    try:
        value = decoder(reader, end, depth)
    except (SynchistError, MemoryError, RecursionError):
        raise
    except Exception as error:
        name = _wire.NAMES[code]
        raise reader.corrupt(f"a {name} cannot be rebuilt ({error!r})", start) from error
    if reader.pos != end:
        raise reader.corrupt(f"a {_wire.NAMES[code]} does not end where it should", start)
    return value


def _reserved(reader: Reader, first: int, depth: int) -> Any:
    raise reader.corrupt("no value starts with the byte 0xc1", reader.pos - 1)


_ItemReader = Callable[[Reader, int, int], Any]


def _table() -> list[_ItemReader]:
    table: list[_ItemReader] = [_reserved] * 256
    for first in (*range(0x80), *range(0xE0, 0x100)):
        table[first] = _fixint
    table[0x80:0x90] = [_fixmap] * 0x10
    table[0x90:0xA0] = [_fixarray] * 0x10
    table[0xA0:0xC0] = [_fixstr] * 0x20
    table[0xC0] = lambda reader, first, depth: None
    table[0xC2] = lambda reader, first, depth: False
    table[0xC3] = lambda reader, first, depth: True
    table[0xC4:0xC7] = [_bin] * 3
    table[0xC7:0xCA] = [_ext_sized] * 3
    table[0xCA] = _number(_float32, 4)
    table[0xCB] = _number(_float64, 8)
    table[0xCC] = _number(struct.Struct("B").unpack_from, 1)
    table[0xCD] = _number(_uint16, 2)
    table[0xCE] = _number(_uint32, 4)
    table[0xCF] = _number(_uint64, 8)
    table[0xD0] = _number(_int8, 1)
    table[0xD1] = _number(_int16, 2)
    table[0xD2] = _number(_int32, 4)
    table[0xD3] = _number(_int64, 8)
    table[0xD4:0xD9] = [_fixext] * 5
    table[0xD9:0xDC] = [_str] * 3
    table[0xDC:0xDE] = [_fixarray] * 2
    table[0xDE:0xE0] = [_map] * 2
    return table


_READERS: Final = _table()
"""First byte to what reads the value."""

"""Bytes to values: a reader that believes nothing.

Every length is compared with the bytes that are there before anything is allocated, containers
grow only with entries that were read, and each failure says at which byte it happened. The reader
is ours, rather than msgpack's, because neither build of msgpack gives positions or bounds what a
nest of arrays with false lengths allocates, and the two builds differ in the depth they take.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from ..errors import CorruptDataError
from ._libraries import LIBRARY_OF_CODE, load
from ._limits import MAX_DEPTH
from ._registry import Registry
from ._tables import DECODERS, ITEMS, ExtDecoder

__all__ = ["Reader"]

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
        unknown_zones: how many of them are None.
        missing: libraries that the data asked for and that cannot be loaded.
    """

    __slots__ = ("data", "missing", "pos", "registry", "unknown_zones", "zones")

    def __init__(self, data: bytes | memoryview, registry: Registry) -> None:
        self.data = data
        self.pos = 0
        self.registry = registry
        self.zones: dict[str, Any] = {}
        self.unknown_zones = 0
        self.missing: frozenset[str] = frozenset()

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
        return ITEMS[first](self, first, depth)

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
            raise self.short(size)
        return end

    def short(self, size: int) -> CorruptDataError:
        """The error for `size` bytes that are not all there."""
        left = len(self.data) - self.pos
        return self.corrupt(f"{size} bytes are announced and {left} are left")

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

    def record(self, least: int, most: int = 0) -> list[Any]:
        """A short array of leaf values that must come next; it does not count as a container.

        It has `least` entries, or up to `most` of them.
        """
        start = self.pos
        count = self.array_header()
        if count != least and not least <= count <= most:
            raise self.corrupt(f"an array has {count} entries, not {least}", start)
        return [self.item(MAX_DEPTH) for _ in range(count)]

    def ints(self, least: int, most: int = 0) -> list[int]:
        """A record of ints."""
        start = self.pos
        values = self.record(least, most)
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
            self.missing |= {library}
        return DECODERS.get(code)

    def text(self) -> str:
        """The str that must come next."""
        start = self.pos
        value = self.item(MAX_DEPTH)
        if type(value) is not str:
            raise self.corrupt(f"a str is expected, found {type(value).__name__}", start)
        return value

"""Series: all values of one name in a record, of every epoch, one after the other.

A series has a name, a kind of storage (see `model.column`) and its values. A short one is in the
record frame itself, a long one is a frame of its own behind it. So a file has few frames however
many epochs there are, and one column can be read without the others.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ..model.column import CODED, FLOATS, INTS
from ..model.digest import little_endian
from ..model.fields import count, expect, numbers
from .frames import Frame, FrameReader
from .layout import VALUES

__all__ = ["Series", "SeriesWriter", "Wanted", "pack_ints", "read_series", "unpack_ints"]

_INLINE: Final = 1024
"""Values up to this many bytes are in the record frame."""

_LARGE: Final = 1 << 20
"""Values of this size are written and read on their own, so that they are never held twice."""

_WIDTHS: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
_MAX_INT: Final = 2**63 - 1

Wanted = Callable[[str], bool]
"""Whether the batch values of that name are to be read."""


def pack_ints(values: Sequence[int]) -> list[Any]:
    """Ints of 0 or more as [bytes of each, all of them little-endian]."""
    largest = max(values, default=0)
    width = next(width for width in _WIDTHS if largest < 1 << (8 * width))
    found = array(_WIDTHS[width], values)
    if sys.byteorder == "big":
        found.byteswap()
    return [width, found.tobytes()]


def unpack_ints(packed: Any) -> array[int]:
    """The inverse of `pack_ints`."""
    width, data = packed
    values = array(_WIDTHS[expect(width, int)])
    values.frombytes(expect(data, bytes))
    if sys.byteorder == "big":
        values.byteswap()
    if width == 8 and values and max(values) > _MAX_INT:
        raise ValueError(f"{max(values)} is too large for a count")
    return values


class SeriesWriter:
    """A series on its way into a file. Its values are added to `pieces` and counted in `count`.

    Attributes:
        name: under which the values were recorded.
        kind: how they are stored.
        pieces: the values: for `CODED` one by one, otherwise buffers of any number of them.
        count: number of values.
    """

    __slots__ = ("count", "kind", "name", "pieces")

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.pieces: list[Any] = []
        self.count = 0

    def add(self, data: Any) -> None:
        """Add values as a column has them."""
        self.count += len(data)
        if self.kind == CODED:
            self.pieces += data
        elif sys.byteorder == "little":
            self.pieces.append(memoryview(data).cast("B"))
        else:
            self.pieces.append(little_endian(data))

    def pack(self) -> tuple[list[Any], Sequence[Any]]:
        """What the record says of it, and the payload of its own frame; no payload if inline."""
        lengths: Any = self.count
        size = largest = 8 * self.count
        if self.kind == CODED:
            sizes = list(map(len, self.pieces))
            lengths = pack_ints(sizes)
            size, largest = sum(sizes), max(sizes)
        pieces = self.pieces
        if len(pieces) > 1 and largest < _LARGE:
            pieces = [b"".join(pieces)]
        if size <= _INLINE:
            return [self.name, self.kind, lengths, b"".join(pieces)], ()
        return [self.name, self.kind, lengths, None], pieces


class Series:
    """A series out of a file; `take` gives its values piece by piece, in order.

    Attributes:
        name: under which the values were recorded.
        kind: how they are stored.
        data: an array, or a list of bytes; None for values that nobody wants.
    """

    __slots__ = ("_taken", "data", "kind", "name")

    def __init__(self, name: str, kind: str, data: Any) -> None:
        self.name = name
        self.kind = kind
        self.data = data
        self._taken = 0

    def take(self, number: int) -> Any:
        """The next values; None if nobody wants them."""
        data = self.data
        begin = self._taken
        self._taken = end = begin + number
        if data is None:
            return None
        if end > len(data):
            raise ValueError("more values are asked for than there are")
        return data if number == len(data) else data[begin:end]

    def check_empty(self) -> None:
        """Raise ValueError unless all was taken."""
        if self.data is not None and self._taken != len(self.data):
            raise ValueError(f"values of {self.name!r:.40} are left over")


def read_series(frames: FrameReader, entry: Any, wanted: Wanted | None) -> Series:
    """The series that a record describes so; reads its frame, if it has one."""
    name, kind, lengths, data = entry
    expect(name, str)
    if kind not in (FLOATS, INTS, CODED):
        raise ValueError(f"unknown kind of storage {kind!r:.40}")
    sizes = unpack_ints(lengths) if kind == CODED else None
    if sizes is not None and not all(sizes):
        raise ValueError("a value without bytes")
    size = 8 * count(lengths) if sizes is None else sum(sizes)
    skipped = wanted is not None and not wanted(name)
    if data is not None:
        if len(expect(data, bytes)) != size:
            raise ValueError(f"{len(data)} bytes for {size} bytes of values")
        if skipped:
            return Series(name, kind, None)
        return Series(name, kind, numbers(kind, data) if sizes is None else _cut(data, sizes))
    frame = frames.next_frame()
    if frame is None or frame.kind != VALUES or frame.size != size:
        offset = frames.size if frame is None else frame.offset
        raise frames.damaged(f"{size} bytes of values of {name!r:.40} are not here", offset)
    if skipped:
        frames.skip(frame)
        return Series(name, kind, None)
    if sizes is None:
        return Series(name, kind, _read_numbers(frames, frame, kind))
    if not sizes or max(sizes) < _LARGE:
        return Series(name, kind, _cut(frames.read(frame), sizes))
    return Series(name, kind, frames.read_pieces(frame, sizes))


def _cut(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    found, begin = [], 0
    for size in sizes:
        end = begin + size
        found.append(data[begin:end])
        begin = end
    return found


def _read_numbers(frames: FrameReader, frame: Frame, kind: str) -> Any:
    """An array of little-endian numbers, read in place."""
    block = array(kind, bytes(8 * max(1, min(frame.size // 8, 1 << 13))))
    values = block * -(-frame.size // (8 * len(block)))
    del values[frame.size // 8 :]
    with memoryview(values).cast("B") as buffer:
        frames.read_into(frame, buffer)
    if sys.byteorder == "big":
        values.byteswap()
    return values

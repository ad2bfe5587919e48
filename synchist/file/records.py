"""Records: what one rank recorded, as frames.

A record frame holds everything but the values of long columns: those are column frames, which
follow it in order. A column frame has all values of one name, of every epoch of the record, one
after the other; the record says how many belong to which epoch. So the file has few frames however
many epochs there are, and one column can be read without the others.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import attrs

from ..codec import decode, encode
from ..errors import CorruptDataError
from ..model.column import CODED, FLOATS, INTS, Column
from ..model.delta import Delta
from ..model.digest import little_endian
from ..model.fields import column_of, count, expect, name_of, numbers, put_cell
from ..model.part import Cell, Part
from .frames import Frame, FrameReader, FrameWriter
from .header import NO_CLASSES
from .layout import COLUMN, RECORD

__all__ = ["Record", "Wanted", "read_record", "write_record"]

_INLINE: Final = 1024
"""Values of a column, or one epoch value, up to this size are in the record frame itself."""

_LARGE: Final = 1 << 20
"""Pieces of this size are written and read on their own, so that they are never held twice."""

_WIDTHS: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}

Wanted = Callable[[str], bool]
"""Whether a column of that name is to be read."""


@attrs.frozen
class Record:
    """What one rank recorded in one go.

    Attributes:
        rank: the rank.
        sequence: its number among the rank's segments; of records that were merged, the last one.
        lineage: the history's lineage at that time.
        delta: the records.
        pending: whether they were never synced.
        place: for pending records, where the rank stands: the number of its next epoch, its open
            epoch, the open batch (-1 for none), and whether that row is open.
    """

    rank: int
    sequence: int
    lineage: int
    delta: Delta
    pending: bool = False
    place: tuple[int, int, int, bool] | None = None


# -- writing -----------------------------------------------------------------------------------


class _Sheaf:
    """All values of one name and storage, on their way into a file."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.pieces: list[Any] = []
        self.count = 0

    def pack(self) -> tuple[list[Any], Sequence[Any]]:
        """What the record says of it, and the payload of its own frame, or nothing."""
        lengths: Any = self.count
        if self.kind == CODED:
            sizes = list(map(len, self.pieces))
            lengths = _pack_lengths(sizes)
            size, largest = sum(sizes), max(sizes)
        else:
            size = largest = 8 * self.count
        if size <= _INLINE:
            return [self.name, self.kind, lengths, b"".join(self.pieces)], ()
        if len(self.pieces) > 1 and largest < _LARGE:
            self.pieces = [b"".join(self.pieces)]
        return [self.name, self.kind, lengths, None], self.pieces


class _Packer:
    """Distributes the values of a delta."""

    def __init__(self) -> None:
        self.sheaves: list[_Sheaf] = []
        self._index: dict[tuple[str, str], int] = {}

    def part(self, epoch: int, part: Part) -> list[Any]:
        columns = [self._column(name, column) for name, column in part.columns.items()]
        return [epoch, part.rows, columns, self.cells(part.cells)]

    def _column(self, name: str, column: Column) -> list[Any]:
        key = (name, column.kind)
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = self._new(name, column.kind)
        sheaf = self.sheaves[index]
        sheaf.count += len(column)
        if column.kind == CODED:
            sheaf.pieces += column.data
        else:
            sheaf.pieces.append(_bytes_of(column.data))
        where = column.start if column.batches is None else little_endian(column.batches)
        return [index, len(column), where]

    def cells(self, cells: dict[str, Cell]) -> list[Any]:
        return [[name, self._cell(name, cell), cell.weight] for name, cell in cells.items()]

    def _cell(self, name: str, cell: Cell) -> Any:
        if len(cell.data) <= _INLINE:
            return cell.data
        index = self._new(name, CODED)
        self.sheaves[index].pieces = [cell.data]
        return index

    def _new(self, name: str, kind: str) -> int:
        self.sheaves.append(_Sheaf(name, kind))
        return len(self.sheaves) - 1


def write_record(frames: FrameWriter, record: Record) -> None:
    """Write a record: its frame, and those of its columns."""
    packer = _Packer()
    epochs = [packer.part(epoch, part) for epoch, part in sorted(record.delta.parts.items())]
    attributes = packer.cells(record.delta.attributes)
    packed = [sheaf.pack() for sheaf in packer.sheaves]
    fields = {
        "rank": record.rank,
        "sequence": record.sequence,
        "lineage": record.lineage,
        "pending": record.pending,
        "place": None if record.place is None else list(record.place),
        "columns": [described for described, _ in packed],
        "epochs": epochs,
        "attributes": attributes,
    }
    frames.frame(RECORD, encode(fields, registry=NO_CLASSES))
    for _, pieces in packed:
        if pieces:
            frames.frame(COLUMN, *pieces)


def _bytes_of(data: Any) -> Any:
    """An array of numbers as little-endian bytes, uncopied where that is what it is."""
    return memoryview(data).cast("B") if sys.byteorder == "little" else little_endian(data)


def _pack_lengths(sizes: Sequence[int]) -> list[Any]:
    largest = max(sizes)
    width = next(width for width in _WIDTHS if largest < 1 << (8 * width))
    found = array(_WIDTHS[width], sizes)
    if sys.byteorder == "big":
        found.byteswap()
    return [width, found.tobytes()]


# -- reading -----------------------------------------------------------------------------------


class _Values:
    """All values of one name and storage, out of a file; `take` gives them piece by piece."""

    def __init__(self, name: Any, kind: str, data: Any) -> None:
        self.name = name
        self.kind = kind
        self.data = data  # None: nobody wants them
        self._taken = 0

    def take(self, number: int) -> Any:
        begin, self._taken = self._taken, self._taken + number
        if self.data is None:
            return None
        if self._taken > len(self.data):
            raise ValueError("a column has more values than there are")
        whole = number == len(self.data)
        return self.data if whole else self.data[begin : self._taken]

    def check_empty(self) -> None:
        if self.data is not None and self._taken != len(self.data):
            raise ValueError("values are left over")


def read_record(frames: FrameReader, frame: Frame, wanted: Wanted | None = None) -> Record:
    """Read a record, given its frame's header, and the frames of its columns.

    Args:
        frames: where to read it.
        frame: the record's frame.
        wanted: for which names the columns are to be read; other columns, and everything that is
            no column, are left out. By default all is read.

    Raises:
        CorruptDataError: it is damaged; the error names the byte.
    """
    data = frames.read(frame)
    try:
        fields = expect(decode(data, registry=NO_CLASSES), dict)
        found = [_read_values(frames, entry, wanted) for entry in expect(fields["columns"], list)]
        return _unpack(fields, found, wanted is None)
    except CorruptDataError as error:
        if error.path is not None:
            raise
        raise frames.damaged(str(error), frame.payload + (error.offset or 0)) from error
    except (ValueError, TypeError, IndexError, KeyError, OverflowError) as error:
        raise frames.damaged(f"a record cannot be: {error}", frame.payload) from error


def _unpack(fields: dict[str, Any], found: list[_Values], whole: bool) -> Record:
    def put(cells: dict[str, Cell], entries: Any) -> dict[str, Cell]:
        for name, data, weight in entries if whole else ():
            put_cell(cells, name, _one(found, data) if type(data) is int else data, weight)
        return cells

    delta = Delta(attributes=put({}, fields["attributes"]))
    for epoch, rows, columns, cells in fields["epochs"]:
        part = Part(count(rows))
        for index, number, where in columns:
            values = found[count(index)]
            data = values.take(count(number))
            if data is not None:
                column = column_of(values.kind, data, where, rows)
                part.columns[name_of(values.name, part.columns)] = column
        put(part.cells, cells)
        if count(epoch) in delta.parts:
            raise ValueError(f"epoch {epoch} is there twice")
        delta.parts[epoch] = part
    for values in found if whole else ():
        values.check_empty()
    return Record(
        count(fields["rank"]),
        count(fields["sequence"]),
        count(fields["lineage"]),
        delta,
        expect(fields["pending"], bool),
        _place(fields["place"]),
    )


def _one(found: list[_Values], index: int) -> bytes:
    values = found[count(index)]
    if values.kind != CODED:
        raise ValueError("an epoch value is in a column of numbers")
    (data,) = values.take(1)
    return bytes(data)


def _place(fields: Any) -> tuple[int, int, int, bool] | None:
    if fields is None:
        return None
    next_epoch, epoch, batch, is_open = expect(fields, list)
    if not -1 <= expect(epoch, int) < count(next_epoch) + (epoch == -1):
        raise ValueError(f"epoch {epoch} is open, and {next_epoch} is the next")
    if expect(batch, int) < -1 or (batch == -1 and expect(is_open, bool)):
        raise ValueError(f"batch {batch} is open")
    return next_epoch, epoch, batch, is_open


def _read_values(frames: FrameReader, entry: Any, wanted: Wanted | None) -> _Values:
    name, kind, lengths, data = entry
    expect(name, str)
    if kind not in (FLOATS, INTS, CODED):
        raise ValueError(f"unknown kind of column {kind!r:.40}")
    sizes = _unpack_lengths(lengths) if kind == CODED else None
    size = 8 * count(lengths) if sizes is None else sum(sizes)
    if size == 0 or (sizes is not None and not all(sizes)):
        raise ValueError("an empty column, or a value without bytes")
    if data is not None:
        if len(expect(data, bytes)) != size:
            raise ValueError(f"{len(data)} bytes for {size} bytes of values")
        if wanted is not None and not wanted(name):
            return _Values(name, kind, None)
        if sizes is not None:
            return _Values(name, kind, _cut(data, sizes))
        return _Values(name, kind, numbers(kind, data))
    frame = frames.next_frame()
    if frame is None or frame.kind != COLUMN or frame.size != size:
        raise frames.damaged(f"no frame with {size} bytes of values of {name!r:.40} is here")
    if wanted is not None and not wanted(name):
        frames.skip(frame)
        return _Values(name, kind, None)
    if sizes is None:
        return _Values(name, kind, _read_numbers(frames, frame, kind))
    if max(sizes) < _LARGE:
        return _Values(name, kind, _cut(frames.read(frame), sizes))
    return _Values(name, kind, frames.read_pieces(frame, sizes))


def _cut(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    found, begin = [], 0
    for size in sizes:
        found.append(data[begin : begin + size])
        begin += size
    return found


def _read_numbers(frames: FrameReader, frame: Frame, kind: str) -> Any:
    """An array of little-endian numbers, read in place."""
    block = array(kind, bytes(min(frame.size, 1 << 16)))
    values = block * -(-frame.size // (8 * len(block)))
    del values[frame.size // 8 :]
    with memoryview(values).cast("B") as buffer:
        frames.read_into(frame, buffer)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _unpack_lengths(lengths: Any) -> Sequence[int]:
    width, data = lengths
    sizes = array(_WIDTHS[expect(width, int)])
    sizes.frombytes(expect(data, bytes))
    if sys.byteorder == "big":
        sizes.byteswap()
    return sizes.tolist()
